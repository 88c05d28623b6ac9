"""Compiled kernels: GRU, attention and AdamW, each with a plain torch reference."""
