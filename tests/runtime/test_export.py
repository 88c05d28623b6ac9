from pathlib import Path

import numpy as np
import pytest

from lamatext.errors import ModelError
from lamatext.runtime.export import Comparison, check_graph, compare, export, weight_bytes
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.quantization import Storage
from tests.runtime.networks import random_network, random_texts, save, settings

BATCHES = [random_texts(8, words, seed=words) for words in (1, 12, 60)]


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_export_reports_what_it_wrote_and_how_it_compares(storage: Storage, tmp_path: Path) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    folder, out = save(tmp_path / "model", model, tensors), tmp_path / "small"

    report = export(
        folder,
        out,
        lambda place: save(place, model, tensors, storage),
        reference=torch_engine,
        batches=BATCHES,
        storage=storage,
    )

    assert (report.folder, report.storage, report.comparison.texts) == (out, storage, 24)
    assert report.bytes_before == weight_bytes(folder)
    assert report.bytes_after == weight_bytes(out)
    assert report.comparison == compare(OnnxEngine.load(out), torch_engine, BATCHES)
    assert report.comparison.changed <= 1


def test_export_that_says_something_else_is_refused_and_removed(tmp_path: Path) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    folder, out = save(tmp_path / "model", model, tensors), tmp_path / "other"
    changed = {**tensors, "classifier.3.bias": tensors["classifier.3.bias"] + np.float32(0.01)}

    with pytest.raises(ModelError, match=r"differs from the original by .* on 24 texts"):
        export(
            folder,
            out,
            lambda place: save(place, model, changed),
            reference=torch_engine,
            batches=BATCHES,
        )
    assert not out.exists()


def test_export_that_gives_no_numbers_is_refused(tmp_path: Path) -> None:
    model = settings("avg")
    torch_engine, tensors = random_network(model)
    folder, out = save(tmp_path / "model", model, tensors), tmp_path / "other"
    broken = {**tensors, "classifier.3.bias": tensors["classifier.3.bias"] * np.float32(np.nan)}

    with pytest.raises(ModelError, match="differs from the original by nan"):
        export(
            folder,
            out,
            lambda place: save(place, model, broken),
            reference=torch_engine,
            batches=BATCHES,
        )


def test_export_writes_over_nothing(tmp_path: Path) -> None:
    model = settings("avg")
    torch_engine, tensors = random_network(model)
    folder = save(tmp_path / "model", model, tensors)

    with pytest.raises(ModelError, match=r"already there\. Name a new or an empty folder"):
        export(
            folder,
            folder,
            lambda place: save(place, model, tensors),
            reference=torch_engine,
            batches=BATCHES,
        )
    assert OnnxEngine.load(folder).logits(*BATCHES[0]).shape == (8, 4)


def test_difference_of_a_graph_from_torch_is_rounding(tmp_path: Path) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    engine = OnnxEngine.load(save(tmp_path, model, tensors))

    assert 0 <= check_graph(engine, torch_engine, BATCHES) < 1e-5
    assert compare(engine, engine, BATCHES) == Comparison(texts=24, difference=0.0, changed=0)
