"""Data: reading and splitting texts, and encoding them (text → tokens → ids)."""
