from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext.errors import ModelError
from lamatext.runtime import model_export
from lamatext.runtime.model_export import FOLDER_TOLERANCE, export_folder
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import folder_size, load_config
from lamatext.saved.model_io import SavedModel, save_model
from lamatext.saved.quantization import Storage
from tests.serve.saved import save


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_export_reports_sizes_and_parity_with_the_original(
    storage: Storage, tmp_path: Path
) -> None:
    folder, out = save(tmp_path / "model"), tmp_path / "small"

    report = export_folder(folder, out, storage=storage)

    assert (report.folder, report.storage, report.parity.texts) == (out, storage, 200)
    assert report.bytes_before == folder_size(folder)
    assert report.bytes_after == folder_size(out)
    assert report.parity.difference <= FOLDER_TOLERANCE[storage]
    assert report.parity.changed <= 4
    assert load_config(out)["storage"] == storage


def test_export_keeps_the_storage_of_the_model_by_default(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", storage="int8")

    report = export_folder(folder, tmp_path / "copy")

    assert report.storage == load_config(tmp_path / "copy")["storage"] == "int8"


@pytest.mark.parametrize(
    ("factor", "shift", "reason"),
    [
        (1, 0.01, r"differs from the original by .* on 200 texts; float32"),
        (np.nan, 0, r"classifier\.3\.bias must hold finite float32"),
    ],
)
def test_export_with_other_outputs_is_refused_and_removed(
    factor: float, shift: float, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = save(tmp_path / "model"), tmp_path / "other"

    def save_changed(place: Path, model: SavedModel, *, storage: Storage) -> Path:
        bias = model.tensors["classifier.3.bias"] * np.float32(factor) + np.float32(shift)
        tensors = {**model.tensors, "classifier.3.bias": bias}
        return save_model(place, replace(model, tensors=tensors), storage=storage)

    monkeypatch.setattr(model_export, "save_model", save_changed)

    with pytest.raises(ModelError, match=reason):
        export_folder(folder, out)
    assert not out.exists()


def test_export_does_not_overwrite_a_folder(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", "avg")

    with pytest.raises(ModelError, match=r"already exists\. Name a new or an empty folder"):
        export_folder(folder, folder)
    assert Predictor.load(folder).predict_proba(["a film"]).shape == (1, 3)


def test_export_works_without_torch_against_the_saved_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "model")
    monkeypatch.setattr(model_export, "find_spec", lambda _: None)

    report = export_folder(folder, tmp_path / "copy")

    assert report.parity.difference == 0


def test_a_system_without_a_graph_cannot_be_exported(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", "te", text={"max_words": 20}, heads=4)

    with pytest.raises(ModelError, match=r"te has no ONNX graph.*lamatext serve"):
        export_folder(folder, tmp_path / "copy")


def test_a_killed_export_can_be_repeated(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", "avg")
    (tmp_path / "out" / ".unfinished").mkdir(parents=True)
    (tmp_path / "out" / ".unfinished" / "config.json").write_text("half")
    (tmp_path / "out" / "vocab.txt").write_text("half")

    exported = export_folder(folder, tmp_path / "out")

    assert not (exported.folder / ".unfinished").exists()
    (exported.folder / ".unfinished").mkdir()
    with pytest.raises(ModelError, match="already exists"):
        export_folder(folder, tmp_path / "out")
