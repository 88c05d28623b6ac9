"""Assets of self-contained HTML pages: style sheets, embedded JSON, Content-Security-Policy."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files


def script_json(value: object) -> str:
    """Encode a value as JSON that can be embedded safely in an HTML ``<script>`` element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_hash(content: str) -> str:
    """Return the Content-Security-Policy hash that allows one inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """Read an HTML, CSS or JavaScript asset from the ``views`` package."""
    return files("lamatext.views").joinpath(name).read_text(encoding="utf-8")
