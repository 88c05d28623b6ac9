"""What every test runs under."""

import importlib.util
import os
from collections.abc import Iterator

import pytest

# Tiny networks lose far more than they gain by a second thread; read when torch is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Encoded texts are kept apart from the user's; subprocesses keep to it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMATEXT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Compile the CPU kernels once, before worker processes that would each compile them start."""
    has_workers = getattr(config.option, "numprocesses", None) and not config.option.collectonly
    if has_workers and importlib.util.find_spec("numba") is not None:
        from lamatext.kernels.numba_compat import compile_cpu_kernels, cpu_kernels_are_compiled

        if not cpu_kernels_are_compiled():
            compile_cpu_kernels()
