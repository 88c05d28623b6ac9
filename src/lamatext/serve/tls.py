"""TLS of the server: certificate and private key files, loaded again when they are renewed."""

import ssl
from pathlib import Path

from lamatext.errors import ConfigError


class TlsFiles:
    """Certificate and private key files of the server, which can be replaced while it runs."""

    def __init__(
        self, certificate: Path, key: Path | None = None, *, handshake_seconds: float = 10.0
    ) -> None:
        self.certificate, self.key = certificate, key
        self.handshake_seconds = handshake_seconds
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load()

    def load(self) -> None:
        """Load the certificate for the server's new connections."""
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file. Expected a certificate or key in PEM.")
        try:
            self.context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self.certificate}: cannot be used for TLS: {error}. Expected a PEM certificate "
                "and its key without a password (--tls-key)."
            ) from error


def _no_password() -> str:
    raise ValueError("the key has a password")
