"""The fast paths, each beside its plain twin."""
