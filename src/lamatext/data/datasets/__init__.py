"""Data sets known by name."""
