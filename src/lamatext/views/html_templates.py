"""HTML templates: the one way to write HTML, with Jinja and automatic escaping."""

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamatext import __version__
from lamatext.data.read_options import source_title
from lamatext.plurals import plural
from lamatext.views import formatting
from lamatext.views.html_assets import SHARED_STYLE, asset, policy_hash


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
    """Render a self-contained HTML page, which includes ``page_head.html`` and sends no requests.

    Its Content-Security-Policy allows its own style sheet and script and nothing else.

    Args:
        name: the template.
        styles: names of its style sheets.
        css: further rules.
        script: name of its script; a page with one also has ``style`` attributes.
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
    """Create the Jinja environment for HTML templates, which escapes every inserted value."""
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
        formatting.percent,
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
