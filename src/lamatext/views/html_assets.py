"""What a self-contained page is put together from: data in a script, hashes for its policy."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files


def script_json(value: object) -> str:
    """JSON that cannot end the ``<script>`` it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_hash(content: str) -> str:
    """How a Content-Security-Policy names the one script or style that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def between(text: str, start: str, end: str) -> str:
    """What stands between two marks."""
    return text.split(start, 1)[1].split(end, 1)[0]


@cache
def asset(package: str, name: str) -> str:
    """A file that lies in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
