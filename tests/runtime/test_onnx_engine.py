import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lamatext.errors import ModelError
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.format import GRAPH, WEIGHTS
from tests.runtime.networks import load_engine, random_network, random_texts, save, settings

WITHOUT_THE_TRAINING_STACK = """
import sys

for name in ("torch", "sklearn", "gensim", "numba", "onnx", "scipy"):
    sys.modules[name] = None  # importing it fails

import numpy as np
from pathlib import Path
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.saved.safetensors_layout import read_tensors
from lamatext.settings import ModelSettings

sizes = {"hidden_size": 7, "heads": 5, "classifier_width": 9}
engine = OnnxEngine(ModelSettings(name="lama-ctx", **sizes), read_tensors(Path(sys.argv[1])))
ids = np.array([[5, 6, 7], [8, 0, 0]], np.int32)
result = engine.run(ids, np.array([3, 1], np.int32))
print(result.logits.shape, result.weights.shape, float(result.weights.sum()))
"""


def test_a_saved_model_runs_without_the_training_libraries(tmp_path: Path) -> None:
    model = settings("lama-ctx")
    folder = save(tmp_path, model, random_network(model)[1])

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_TRAINING_STACK, str(folder / WEIGHTS)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(2, 4) (2, 5, 3) 10.0")


def test_logits_equal_those_of_a_full_run(tmp_path: Path) -> None:
    model = settings("lama-ctx")
    engine = load_engine(save(tmp_path, model, random_network(model)[1]), model)
    ids, lengths = random_texts(7, 25)

    np.testing.assert_array_equal(engine.logits(ids, lengths), engine.run(ids, lengths).logits)


def test_several_threads_may_use_one_engine(tmp_path: Path) -> None:
    model = settings("lama-ctx")
    torch_engine, tensors = random_network(model)
    engine = load_engine(save(tmp_path, model, tensors), model)
    batches = [random_texts(4, 1 + seed, seed=seed) for seed in range(40)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda batch: engine.logits(*batch), batches))

    for batch, logits in zip(batches, found, strict=True):
        np.testing.assert_allclose(logits, torch_engine.logits(*batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
def test_an_engine_does_not_depend_on_later_changes_to_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr("lamatext.runtime.onnx_engine.compiled_library", lambda: None)
    model = settings("lama-ctx")
    engine = load_engine(save(tmp_path, model, random_network(model)[1]), model)
    batch = random_texts(7, 25)
    before = engine.logits(*batch)

    for file in (GRAPH, WEIGHTS):
        (tmp_path / file).write_bytes(b"")  # in place, as cp and rsync --inplace do

    np.testing.assert_array_equal(engine.logits(*batch), before)


def test_a_network_that_onnx_runtime_cannot_run_is_named() -> None:
    model = settings("lama-ctx")
    tensors = random_network(model)[1] | {"pooling.q.weight": np.zeros((5, 3), np.float32)}

    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run the network .*copy the model"):
        OnnxEngine(model, tensors, compiled=False)
