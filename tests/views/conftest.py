from pathlib import Path

import pytest

from tests.serve.saved import save


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small saved model."""
    return save(tmp_path_factory.mktemp("models") / "reviews")
