"""Data sets known by name: catalog, locations, official files and derived sets."""
