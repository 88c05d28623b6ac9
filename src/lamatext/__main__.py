"""``python -m lamatext``."""

from lamatext.cli.main import main

main()
