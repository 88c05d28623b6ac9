"""What one request may ask for, and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is answered with a clear 4xx or, where the server is to blame, 503."""

    body: int = 1 << 20
    """Bytes of a request."""
    texts: int = 256
    """Texts of a request."""
    characters: int = 20_000
    """Characters of one text to predict, and of all texts together to explain."""
    waiting: int = 4096
    """Texts that may wait for a model; a request beyond them is sent away."""
    seconds: float = 10.0
    """From the first byte of a body to the answer."""
