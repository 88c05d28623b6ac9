"""The ``lamatext`` command line, one file per command."""
