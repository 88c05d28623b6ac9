"""The folder of a saved model: its format, and how lamatext writes and reads it."""
