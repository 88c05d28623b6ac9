import shutil
from pathlib import Path

import numpy as np
import pytest

from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.onnx_file import GRAPH_FILE, TENSOR_FILE
from lamatext.saved.onnx_graph import build_graph
from lamatext.saved.quantization import Storage, restored, stored_as
from tests.runtime.networks import SYSTEMS, random_network, random_texts, save, settings


@pytest.mark.parametrize("name", SYSTEMS)
def test_tensors_in_the_safetensors_file_give_the_same_bits(name: str, tmp_path: Path) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    inside = OnnxEngine(build_graph(model, tensors).SerializeToString())
    ids, lengths = random_texts(5, 20)

    outside = OnnxEngine(save(tmp_path, model, tensors) / GRAPH_FILE)

    np.testing.assert_array_equal(outside.logits(ids, lengths), inside.logits(ids, lengths))


def test_weights_lie_on_disk_once(tmp_path: Path) -> None:
    model = settings("lama-ctx", classifier_width=512)
    _, tensors = random_network(model, vocabulary=5000, width=100)

    save(tmp_path, model, tensors)

    assert (tmp_path / GRAPH_FILE).stat().st_size < 10_000
    assert {file.name for file in tmp_path.iterdir()} == {GRAPH_FILE, TENSOR_FILE}


def test_saved_model_runs_after_its_folder_moved_and_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    ids, lengths = random_texts(5, 20)
    folder = save(tmp_path / "first", model, tensors)

    shutil.move(folder, tmp_path / "Zweite, größere Mappe")
    monkeypatch.chdir(tmp_path)
    relative = OnnxEngine.load("Zweite, größere Mappe").logits(ids, lengths)
    monkeypatch.chdir(tmp_path / "Zweite, größere Mappe")
    here = OnnxEngine.load(".").logits(ids, lengths)

    np.testing.assert_allclose(relative, torch_engine.logits(ids, lengths), atol=1e-5)
    np.testing.assert_array_equal(here, relative)


def test_writing_again_replaces_the_graph(tmp_path: Path) -> None:
    first, second = settings("lama-ctx"), settings("avg")
    _, tensors = random_network(first)
    save(tmp_path, first, tensors)
    torch_engine, tensors = random_network(second)
    ids, lengths = random_texts(3, 8)

    save(tmp_path, second, tensors)

    result = OnnxEngine.load(tmp_path).run(ids, lengths)
    assert result.weights is None
    np.testing.assert_allclose(result.logits, torch_engine.logits(ids, lengths), atol=1e-5)


@pytest.mark.parametrize("storage", ["float16", "int8"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_graph_computes_with_the_stored_numbers(
    name: str, storage: Storage, tmp_path: Path
) -> None:
    model = settings(name)
    _, tensors = random_network(model)
    rounded = restored(stored_as(tensors, storage))
    expected = OnnxEngine(build_graph(model, rounded).SerializeToString())
    ids, lengths = random_texts(5, 20)

    engine = OnnxEngine.load(save(tmp_path, model, tensors, storage))

    ours, theirs = engine.run(ids, lengths), expected.run(ids, lengths)
    np.testing.assert_allclose(ours.logits, theirs.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("storage", "share"), [("float16", 0.51), ("int8", 0.3)])
@pytest.mark.parametrize("name", ["lama-ctx", "bigru"])
def test_other_storages_are_small(
    name: str, storage: Storage, share: float, tmp_path: Path
) -> None:
    model = settings(name, hidden_size=50, heads=15, classifier_width=512)
    _, tensors = random_network(model, vocabulary=7000, width=100)
    size = {}

    for kind in ("float32", storage):
        folder = save(tmp_path / kind, model, tensors, kind)
        size[kind] = sum(file.stat().st_size for file in folder.iterdir())

    assert size[storage] <= share * size["float32"]
