"""The errors a user can see: each says where, what was expected and found, and what to do.

LamatextError
├── DataError          a file, a column, a row, a list of texts
├── ConfigError        a setting, a recipe, a model name
├── ModelError         a saved folder, or a model asked for what it has not got
└── MissingExtraError  an optional dependency that is not installed
"""

from importlib import import_module
from types import ModuleType


class LamatextError(Exception):
    """Something the user can put right. The command line prints it and exits with status 2."""


class DataError(LamatextError, ValueError):
    """The data cannot be read or used as given."""


class ConfigError(LamatextError, ValueError):
    """A setting is unknown or out of its range."""


class ModelError(LamatextError):
    """A saved model cannot be loaded, or cannot do what was asked of it."""


class MissingExtraError(LamatextError, ImportError):
    """A feature needs an optional dependency that is not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or say in one sentence which pip command brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{purpose} needs the package {module.split('.')[0]}, which is not installed. "
            f"Install it with: pip install 'lamatext[{extra}]'"
        ) from error
