"""Models on the Hugging Face Hub, tested against a local stand-in of its HTTP interface."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.errors import ConfigError, MissingExtraError, ModelError
from lamatext.saved.format import load_config, model_hash
from lamatext.saved.model_hub import local_folder, push_to_hub
from tests.saved.hub_stand_in import TOKEN, HubStandIn, start
from tests.serve.saved import save

TEXTS = ["a good film", "a dull mess"]


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Address of an empty stand-in for the Hub."""
    pytest.importorskip("huggingface_hub")
    HubStandIn.repositories.clear()
    HubStandIn.private.clear()
    server = start()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(place: Path, endpoint: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with the stand-in as the Hub, which is read when huggingface_hub is imported."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(place / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_ETAG_TIMEOUT": "5",
        "LAMATEXT_CACHE": str(place / "cache"),
    }
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=place, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def lamatext(place: Path, endpoint: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(place, endpoint, "-m", "lamatext", *arguments)


@pytest.mark.slow
def test_a_model_is_uploaded_and_loaded_again(endpoint: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ngrams=True)

    hub = ("--hub", "ana/reviews", "--private")
    uploaded = lamatext(tmp_path, endpoint, "export", str(folder), *hub)
    code = (
        "import json; from lamatext import Predictor; model = Predictor.load('hf:ana/reviews');"
        f"print(json.dumps(model.predict_proba({TEXTS!r}).tolist()))"
    )
    loaded = run(tmp_path, endpoint, "-c", code)
    predicted = lamatext(
        tmp_path, endpoint, "predict", "hf://ana/reviews@main", "--text", TEXTS[0], "--json"
    )

    assert uploaded.returncode == 0, uploaded.stderr
    assert "lamatext predict hf:ana/reviews --text" in uploaded.stderr
    assert HubStandIn.private == {"ana/reviews": True}
    expected = Predictor.load(folder).predict_proba(TEXTS)
    np.testing.assert_allclose(json.loads(loaded.stdout), expected, err_msg=loaded.stderr)
    assert json.loads(predicted.stdout)["probability"] == pytest.approx(expected[0].max(), abs=1e-5)
    downloaded = tmp_path / "cache" / "models" / "ana--reviews@main"
    hashes = {model_hash(place, load_config(place)) for place in (downloaded, folder)}
    assert len(hashes) == 1
    files = HubStandIn.repositories["ana/reviews"]
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert b'Predictor.load("hf:ana/reviews")' in files["README.md"]
    assert b"library_name: " in files["README.md"].split(b"---")[1]


@pytest.mark.slow
def test_other_files_are_neither_uploaded_nor_downloaded(endpoint: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    (folder / "secrets.txt").write_text("not for the Hub")

    lamatext(tmp_path, endpoint, "export", str(folder), "--hub", "ana/reviews")
    HubStandIn.repositories["ana/reviews"]["evil.py"] = b"print('never run')"
    shown = lamatext(tmp_path, endpoint, "info", "hf:ana/reviews", "--json")

    assert shown.returncode == 0, shown.stderr
    assert "secrets.txt" not in HubStandIn.repositories["ana/reviews"]
    assert not [*(tmp_path / "cache").rglob("evil.py")]


@pytest.mark.slow
def test_a_changed_model_on_the_hub_is_downloaded_again(endpoint: str, tmp_path: Path) -> None:
    for labels in (["no", "yes"], ["bad", "good"]):
        folder = save(tmp_path / "-".join(labels), labels=labels, ngrams=labels[0] == "no")
        lamatext(tmp_path, endpoint, "export", str(folder), "--hub", "ana/reviews", "-q")

        shown = lamatext(tmp_path, endpoint, "info", "hf:ana/reviews", "--json")

        assert json.loads(shown.stdout)["labels"] == labels
    assert "ngrams.safetensors" not in HubStandIn.repositories["ana/reviews"]


@pytest.mark.slow
def test_a_model_that_is_not_there_is_one_message(endpoint: str, tmp_path: Path) -> None:
    done = lamatext(tmp_path, endpoint, "predict", "hf:ana/none", "--text", "a film")

    assert done.returncode == 2
    assert "hf:ana/none: the Hub refused or could not be reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [("export", "--hub", "me/model"), ("predict", "--text", "a")])
def test_a_hub_that_cannot_be_reached_is_one_message(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    pytest.importorskip("huggingface_hub")
    name, *options = command
    model = str(save(tmp_path / "model")) if name == "export" else "hf:me/model"

    answer = lamatext(tmp_path, "http://127.0.0.1:1", name, model, *options)

    assert answer.returncode == 2
    assert "me/model: the Hub refused or could not be reached" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_a_fitted_classifier_can_be_uploaded(endpoint: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    code = (
        "from tests.trained_model import trained\n"
        "from lamatext import TextClassifier\n"
        "print(trained().push_to_hub('ana/fitted'))\n"
        "loaded = TextClassifier.load('hf:ana/fitted')\n"
        "assert (loaded.predict(['a film']) == trained().predict(['a film'])).all()\n"
    )
    root = str(Path(__file__).parents[2])
    done = run(tmp_path, endpoint, "-c", f"import sys; sys.path.insert(0, {root!r})\n{code}")

    assert done.stdout == "hf:ana/fitted\n", done.stderr


@pytest.mark.parametrize("address", ["hf:reviews", "hf:a/b/c", "hf:../x", "hf:a/b@"])
def test_an_address_that_is_none_is_a_config_error(address: str) -> None:
    with pytest.raises(ConfigError, match="expected hf:OWNER/NAME"):
        local_folder(address)


def test_a_name_that_is_none_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected OWNER/NAME"):
        push_to_hub(tmp_path, "reviews")


def test_a_folder_that_is_no_model_is_not_uploaded(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a saved model"):
        push_to_hub(tmp_path, "ana/reviews")


def test_a_missing_folder_that_could_be_on_the_hub_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ModelError, match=r"A model on the Hub is hf:ana/reviews\."):
        Predictor.load("ana/reviews")


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    with pytest.raises((MissingExtraError, ImportError)):
        local_folder("hf:ana/reviews")
