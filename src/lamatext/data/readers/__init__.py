"""Readers of CSV, JSONL, Parquet and text files, folders and the Hugging Face Hub."""
