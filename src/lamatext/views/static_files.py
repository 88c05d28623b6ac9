"""Static files of the web page: JavaScript modules, style sheets, HTML and icon."""

from functools import cache
from importlib.resources import files

MEDIA_TYPES = {
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "svg": "image/svg+xml",
}
SHARED_STYLE = "explanation_page.css"  # the style sheet of pages with explanations


@cache
def static_files() -> dict[str, str]:
    """Return a mapping from each static file name of the web page to the file's content."""
    views = files("lamatext.views")
    entries = [*views.joinpath("static").iterdir(), views.joinpath(SHARED_STYLE)]
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in entries
        if entry.name.rpartition(".")[2] in MEDIA_TYPES
    }
