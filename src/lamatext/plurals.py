"""Plural forms in messages: a count with its noun, such as ``1 text`` or ``2 texts``."""


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Format a count with its noun in the singular or plural, such as ``2 texts``."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"
