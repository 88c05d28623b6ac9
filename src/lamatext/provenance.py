"""Provenance of a saved model or a record: library versions and source commit."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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


@cache
def commit() -> str:
    """Return the git commit of the source tree, to record a model's provenance.

    ``$LAMATEXT_COMMIT`` overrides it, for a copy without git; empty if neither is available.
    """
    if override := os.environ.get("LAMATEXT_COMMIT"):
        return override
    try:
        result = subprocess.run(  # nosec B603 B607 # fixed arguments; git is found in PATH
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
