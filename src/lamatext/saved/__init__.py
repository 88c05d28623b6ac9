"""Saved model folders: their format, and how lamatext writes and reads them."""
