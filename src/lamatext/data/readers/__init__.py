"""Readers of CSV, JSONL, Parquet, Excel and text files, folders and the Hugging Face Hub."""
