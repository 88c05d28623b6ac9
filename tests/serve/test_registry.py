"""The registry of served models: names, versions, hashes and reloads."""

import asyncio
import json
import logging
import shutil
import threading
from pathlib import Path
from time import sleep

import pytest
from starlette.testclient import TestClient

from lamatext.errors import ConfigError
from lamatext.saved.format import load_config, model_hash
from lamatext.saved.model_io import add_metrics
from lamatext.serve.app import create_app
from lamatext.serve.prometheus import Metrics
from lamatext.serve.registry import ModelRegistry, load_models
from lamatext.serve.schemas import Limits
from tests.serve.saved import save

NEW_LABELS = ["no", "yes"]


def post(client: TestClient, path: str = "/predict") -> dict[str, object]:
    body: dict[str, object] = client.post(path, json={"text": "a good film"}).json()
    return body


def hash_of(folder: Path) -> str:
    return model_hash(folder, load_config(folder))


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_an_answer_names_the_version_and_the_hash_of_its_model(
    path: str, client: TestClient, folder: Path
) -> None:
    body = post(client, path)

    assert (body["model"], body["hash"]) == ("reviews", hash_of(folder))
    assert body["version"] == json.loads((folder / "config.json").read_text())["saved"]


def test_models_can_be_named(folder: Path) -> None:
    models = load_models([f"first={folder}", f"second={folder}", folder])

    assert [model.name for model in models] == ["first", "second", "reviews"]
    with pytest.raises(ConfigError, match="expected NAME=FOLDER, with a name without slashes"):
        load_models([f"a/b={folder}"])


def test_the_hash_depends_on_what_determines_predictions_only(tmp_path: Path) -> None:
    folder, copy = save(tmp_path / "a"), tmp_path / "b"
    shutil.copytree(folder, copy)
    before = hash_of(folder)

    add_metrics(copy, {"note": 1})
    config = json.loads((copy / "config.json").read_text())
    config["saved"] = "2000-01-01T00:00:00Z"
    (copy / "config.json").write_text(json.dumps(config))
    assert hash_of(copy) == before
    config["labels"] = config["labels"][::-1]
    (copy / "config.json").write_text(json.dumps(config))
    assert hash_of(copy) != before
    assert hash_of(save(tmp_path / "c", heads=4)) != before


def test_a_changed_folder_is_reloaded_without_a_failed_request(tmp_path: Path) -> None:
    folder = save(tmp_path / "reviews")
    app = create_app(load_models([folder]), watch_seconds=0.02)
    hashes: list[object] = []
    stop = threading.Event()
    with TestClient(app) as client:

        def keep_asking() -> None:
            while not stop.is_set():
                hashes.append(post(client).get("hash"))

        asking = threading.Thread(target=keep_asking)
        asking.start()
        old = hash_of(folder)
        for _ in range(100):
            if old in hashes:
                break
            sleep(0.02)
        save(folder, labels=NEW_LABELS)
        new = hash_of(folder)
        for _ in range(500):
            if new in hashes:
                break
            sleep(0.02)
        stop.set()
        asking.join()
        metrics = client.get("/metrics").text
        models = client.get("/models").json()

    assert set(hashes) == {old, new}
    assert hashes == [old] * hashes.count(old) + [new] * hashes.count(new)
    assert 'lamatext_reloads_total{model="reviews",result="ok"} 1' in metrics
    assert [(model["labels"], model["hash"]) for model in models] == [(NEW_LABELS, new)]


def test_a_model_that_cannot_be_loaded_does_not_replace_the_served_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save(tmp_path / "reviews")
    metrics = Metrics()
    registry = ModelRegistry(load_models([folder]), Limits(), metrics)
    served = registry.models[0]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "labels": ["one"]}))

    async def reload_thrice() -> None:
        await registry.reload(changed_only=True)
        await registry.reload(changed_only=True)  # not tried again: the folder is the same
        await registry.reload()

    with caplog.at_level(logging.INFO):
        asyncio.run(reload_thrice())

    assert registry.models == [served]
    assert metrics.reloads == {("reviews", "failed"): 2}
    assert "reviews: not reloaded, the old model is still served" in caplog.text
    registry.close()


def test_the_queues_of_a_replaced_model_are_closed_after_its_last_request(folder: Path) -> None:
    registry = ModelRegistry(load_models([folder]), Limits(), Metrics())

    async def reload_during_a_request() -> None:
        old = registry.queues["reviews"]
        with old.in_use():
            await registry.reload()
            await asyncio.sleep(0.2)
            assert len(await old.predict(["a good film"])) == 1
        await asyncio.sleep(0.2)
        with pytest.raises(RuntimeError, match="shutdown"):
            old.predict._threads.submit(print)
        assert registry.queues["reviews"] is not old

    asyncio.run(reload_during_a_request())
    registry.close()
