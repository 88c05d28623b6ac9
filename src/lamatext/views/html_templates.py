"""HTML templates with automatic escaping, and the style sheets and scripts of the pages."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamatext import __version__
from lamatext.data.read_options import source_title
from lamatext.errors import percent, plural
from lamatext.views import formatting

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
    """Return the content of each static file of the HTML pages, by file name."""
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


def render_template(name: str, **values: object) -> str:
    """Render an HTML template from the ``views`` package with the given values."""
    return _environment().get_template(name).render(**values)


def render_page(
    name: str,
    *,
    styles: Sequence[str] = (SHARED_STYLE,),
    css: str = "",
    script: str | None = None,
    **values: object,
) -> str:
    """Render a self-contained HTML page from a template, with styles and scripts inlined.

    Its Content-Security-Policy allows its own style sheet and script and nothing else.

    Args:
        name: the template.
        styles: names of its style sheets.
        css: further rules.
        script: name of its script, if any; a page with a script may also use ``style`` attributes.
        values: the values that the template shows, among them ``title``.
    """
    style = "\n".join([*map(asset, styles), css])
    policy = f"style-src '{policy_hash(style)}'"
    if script is not None:
        policy = f"style-src 'unsafe-inline'; script-src '{policy_hash(asset(script))}'"
    return render_template(
        name,
        policy=Markup(policy),  # nosec B704 # fixed words and hashes
        style=Markup(style),  # nosec B704 # files of the package and numbered selectors
        script=Markup("" if script is None else asset(script)),  # nosec B704 # as above
        version=__version__,
        **values,
    )


@cache
def _environment() -> Environment:
    """Create the Jinja environment for HTML templates, with automatic escaping."""
    environment = Environment(
        loader=PackageLoader("lamatext", "views"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        formatting.file_size,
        percent,
        plural,
        formatting.probability,
        formatting.share,
        formatting.signed,
        source_title,
    ):
        environment.filters[function.__name__] = function
    return environment


def _finalize(value: object) -> object:
    return value if isinstance(value, Markup) else formatting.visible(str(value))
