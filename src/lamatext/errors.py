"""Errors shown to users: each names the place, what was expected and found, and what to do.

LamatextError
├── DataError          a file, a column, a row, a list of texts
│   └── ColumnChoiceError  several columns fit equally well
├── ConfigError        a setting, a recipe, a model name
├── ModelError         a saved folder, or an operation that the model does not support
├── ProcessError       another process of a training on several devices has ended
└── MissingExtraError  an optional dependency that is not installed

``plural`` formats a count with its noun, ``percent`` a fraction, ``percent_range`` and
``number_range`` an interval, in errors and other messages.
"""

from importlib import import_module
from types import ModuleType


class LamatextError(Exception):
    """Base class of all errors that users can fix.

    The command line prints the message and exits with status 2.
    """


class DataError(LamatextError, ValueError):
    """Error raised when data cannot be read or used."""


class ColumnChoiceError(DataError):
    """Error raised when several columns could hold the texts or the labels.

    Args:
        message: the candidates.
        choices: the command-line options that choose each of them.
    """

    def __init__(self, message: str, choices: list[list[str]]) -> None:
        super().__init__(message)
        self.choices = choices


class ConfigError(LamatextError, ValueError):
    """Error raised when a setting is unknown or its value is out of range."""


class ModelError(LamatextError):
    """Error raised when a saved model cannot be loaded or does not support an operation."""


class ProcessError(LamatextError):
    """Error raised when another process of a training run has ended unexpectedly."""


class MissingExtraError(LamatextError, ImportError):
    """Error raised when a feature needs an optional dependency that is not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise an error with the pip command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{purpose} needs the package {module.split('.')[0]}, which is not installed. "
            f"Install it with: pip install 'lamatext[{extra}]'"
        ) from error


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Format a count with its noun in the singular or plural, such as ``2 texts``."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"


def percent(value: float, digits: int = 1) -> str:
    """Format a fraction as a percentage, such as ``77.4 %``."""
    return f"{100 * value:.{digits}f} %"


def percent_range(low: float, high: float, digits: int = 1) -> str:
    """Format an interval of fractions as percentages, such as ``75.3 to 80.8 %``."""
    return f"{100 * low:.{digits}f} to {percent(high, digits)}"


def number_range(low: float, high: float, digits: int = 3) -> str:
    """Format an interval of numbers, such as ``0.753 to 0.808``."""
    return f"{low:.{digits}f} to {high:.{digits}f}"
