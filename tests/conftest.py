"""What every test runs under."""

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
