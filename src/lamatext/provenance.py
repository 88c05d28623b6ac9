"""Where a figure or a model comes from: versions, device, commit."""

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Of Python and of the libraries that decide what comes out."""
    found = {"python": platform.python_version()}
    for name in ("lamatext", "torch", "numpy", "gensim", "numba", "scikit-learn", "onnxruntime"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
