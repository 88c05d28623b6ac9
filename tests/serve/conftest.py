"""Two small saved models, and a test client of a server with both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.serve.schemas import Limits
from tests.serve.saved import save

LIMITS = Limits(body=20_000, texts=8, characters=1000)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "reviews")


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("others") / "plain", "bigru", labels=[3, 7])


@pytest.fixture(scope="module")
def client(folder: Path, other_folder: Path) -> Iterator[TestClient]:
    app = create_app(load_models([folder, other_folder]), limits=LIMITS)
    with TestClient(app) as client:
        yield client
