"""The folder of a saved model: its format, reading and writing it."""
