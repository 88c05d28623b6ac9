"""Reproduction of the LAMA paper: ``python -m paper NAME`` computes a table or figure."""
