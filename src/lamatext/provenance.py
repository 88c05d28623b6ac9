"""Provenance of a saved model or a record: the versions of Python and the libraries."""

import platform
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = ("lamatext", "torch", "numpy", "gensim", "numba", "scikit-learn", "onnxruntime")


def versions() -> dict[str, str]:
    """Return the versions of Python and the main libraries, to record a model's provenance."""
    installed = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed
