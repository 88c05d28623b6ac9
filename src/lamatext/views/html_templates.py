"""HTML templates: the one way to write HTML, with Jinja and automatic escaping."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamatext.data.read_options import source_title
from lamatext.plurals import plural
from lamatext.views import formatting


def render_template(name: str, **values: object) -> str:
    """Render an HTML template from the ``views`` package with the given values."""
    return _environment().get_template(name).render(**values)


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
