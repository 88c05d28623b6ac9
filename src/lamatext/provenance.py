"""Where a figure or a model comes from: versions, device, commit."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def versions() -> dict[str, str]:
    """Of Python and of the libraries that decide what comes out."""
    found = {"python": platform.python_version()}
    for name in ("lamatext", "torch", "numpy", "gensim", "numba", "scikit-learn", "onnxruntime"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str:
    """The commit of the source tree, or ``$LAMATEXT_COMMIT`` where a copy has no history."""
    if given := os.environ.get("LAMATEXT_COMMIT"):
        return given
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
