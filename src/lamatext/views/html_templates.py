"""HTML templates: the one way to write HTML, with Jinja and automatic escaping."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lamatext.views import formatting


def render_template(name: str, **values: object) -> str:
    """Fill in the HTML template ``name`` of the ``views`` package."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    """Return the Jinja environment: it escapes every value in an HTML template."""
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
        formatting.plural,
        formatting.share,
        formatting.signed,
    ):
        environment.filters[function.__name__] = function
    return environment


def _finalize(value: object) -> object:
    return value if isinstance(value, Markup) else formatting.visible(str(value))
