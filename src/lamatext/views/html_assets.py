"""Assets of HTML pages: style sheets, scripts, static files, embedded JSON, policy hashes."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files

MEDIA_TYPES = {
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "svg": "image/svg+xml",
}
SHARED_STYLE = "explanation_page.css"  # the style sheet of every page
REPORT_STYLE = "report/report.css"  # in addition, of pages that look like the report


@cache
def asset(name: str) -> str:
    """Read an HTML, CSS or JavaScript asset from the ``views`` package."""
    return files("lamatext.views").joinpath(name).read_text(encoding="utf-8")


@cache
def static_files() -> dict[str, str]:
    """Return a mapping from each static file name of the web page to the file's content."""
    names = [entry.name for entry in files("lamatext.views").joinpath("static").iterdir()]
    contents = {
        name: asset(f"static/{name}") for name in names if name.rpartition(".")[2] in MEDIA_TYPES
    }
    return {**contents, SHARED_STYLE: asset(SHARED_STYLE)}


def script_json(value: object) -> str:
    """Encode a value as JSON that can be embedded safely in an HTML ``<script>`` element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_hash(content: str) -> str:
    """Return the Content-Security-Policy hash that allows one inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
