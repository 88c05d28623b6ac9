"""Access log of the server: one JSON object per request, optionally with the request's texts."""

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from starlette.types import Scope

from lamatext.errors import ConfigError

STDOUT = "-"
MAX_PATH = 200  # characters of a path that are logged
FIELDS = "lamatext.access_log"  # key of the ASGI scope under which handlers store their log fields


class AccessLog:
    """An access log file in JSON Lines format that several processes can append to.

    Args:
        path: the file to append to; ``-`` for stdout.
        texts: whether to log the texts of the requests.
    """

    def __init__(self, path: str, *, texts: bool = False) -> None:
        self.path, self.texts = path, texts
        self._file = self._open()

    def reopen(self) -> None:
        """Reopen the access log after log rotation has renamed the file."""
        old, self._file = self._file, self._open()
        if self.path != STDOUT:
            os.close(old)

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        """Append a completed request to the access log, ignoring errors such as a full disk."""
        client = scope.get("client")
        moment = datetime.fromtimestamp(time.time(), UTC)
        entry = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["path"][:MAX_PATH],
            "status": status,
            "seconds": round(seconds, 6),
            **scope.get(FIELDS, {}),
        }
        with suppress(OSError):
            os.write(self._file, json.dumps(entry).encode() + b"\n")

    def describe(self, scope: Scope, identity: dict[str, str], texts: Sequence[str]) -> None:
        """Add the model and the texts of a request to its entry in the access log.

        If the log does not contain texts, only their number is added.
        """
        scope[FIELDS] = {**identity, "texts": len(texts)}
        if self.texts:
            scope[FIELDS]["input"] = [*texts]

    def _open(self) -> int:
        if self.path == STDOUT:
            return 1
        try:
            return os.open(Path(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        except OSError as error:
            raise ConfigError(
                f"--access-log {self.path}: cannot be written: {error.strerror}."
            ) from error
