import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.cli import export as verb
from lamatext.errors import ConfigError, MissingExtraError, ModelError
from lamatext.runtime.parity import measure_parity
from lamatext.saved.quantization import Storage
from lamatext.serve.web_page import assets
from lamatext.views.web_export import MODULES, export_web
from tests.serve.node import needs_node, run
from tests.serve.saved import save
from tests.views.test_web_model import TEXTS

IN_THE_FILE = """
const html = readFileSync(given.file, "utf8");
const held = id => html.match(new RegExp(`id="${id}">([^<]*)<`))?.[1];
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const ngrams = held("ngrams");
const description = JSON.parse(held("model"));
const model = new Model(description, fromBase64(held("weights")), ngrams && fromBase64(ngrams));
const answers = [];
for (const text of given.texts) answers.push(await model.explain(text));
const long = Array.from({ length: 200 }, (_, t) => description.words[2 + (t % 40)]).join(" ");
const times = [];
for (let i = 0; i < 20; i++) {
  const start = process.cpuUsage(); // the processor's time, for others may be using it too
  await model.explain(long);
  times.push(process.cpuUsage(start).user / 1000);
}
tell({ answers, milliseconds: times.sort((a, b) => a - b)[10] });
"""


def largest_gaps(file: Path, folder: Path) -> tuple[float, float]:
    """How far the page is from Python on 200 odd texts: probabilities, weights of words."""
    answers = run(IN_THE_FILE, {"file": str(file), "texts": TEXTS})["answers"]
    predictor = Predictor.load(folder)
    probabilities, weights = [0.0], [0.0]
    for text, found in zip(TEXTS, answers, strict=True):
        expected = predictor.explain(text)
        assert expected.weights is not None
        probabilities.append(np.abs(found["probabilities"] - expected.probabilities).max())
        weights.append(np.abs(found["weights"] - expected.weights).max())
    return max(probabilities), max(weights)


@needs_node
@pytest.mark.parametrize(
    ("saved", "storage", "written", "tolerance"),
    [
        ("float32", "float32", "float32", 1e-5),
        ("float32", None, "float16", 1e-3),
        ("float16", None, "float16", 1e-5),
        ("int8", None, "int8", 1e-5),
        ("int8", "float32", "float32", 1e-5),
    ],
)
def test_the_file_says_what_python_says(
    tmp_path: Path, saved: Storage, storage: Storage | None, written: Storage, tolerance: float
) -> None:
    folder = save(tmp_path / "model", ngrams=True, storage=saved)

    found = export_web(folder, tmp_path / "model.html", storage=storage)

    assert found.storage == written
    assert max(largest_gaps(found.file, folder)) <= tolerance


@needs_node
def test_how_far_int8_is_from_a_model_in_float32_is_told_as_it_is(tmp_path: Path) -> None:
    folder, rounded = save(tmp_path / "model"), save(tmp_path / "rounded", storage="int8")

    found = export_web(folder, tmp_path / "model.html", storage="int8")

    assert found.parity is not None
    assert not found.parity.holds
    here = measure_parity(Predictor.load(rounded), Predictor.load(folder), TEXTS)
    probabilities, weights = largest_gaps(found.file, folder)
    assert probabilities == pytest.approx(here.probabilities, abs=1e-5)
    assert weights == pytest.approx(here.weights, abs=1e-5)


def test_halves_that_would_be_seen_are_not_the_default(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.runtime.parity.SMALL", 1e-9)

    found = export_web(folder, tmp_path / "page.html")

    assert (found.storage, found.parity) == ("float32", None)


def test_what_cannot_be_compared_is_written_as_saved_or_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr("lamatext.views.web_export.find_spec", lambda _: None)

    assert export_web(folder, tmp_path / "page.html").storage == "float32"
    with pytest.raises(MissingExtraError, match=r"comparing a page with its model.*train"):
        export_web(folder, tmp_path / "page.html", storage="int8")


@needs_node
@pytest.mark.slow
def test_a_text_of_200_words_takes_under_50_milliseconds(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 64, "heads": 15, "classifier_width": 128}
    folder = save(tmp_path / "model", ngrams=True, text={"width": 100}, **sizes)
    file = export_web(folder, tmp_path / "model.html").file

    told = run(IN_THE_FILE, {"file": str(file), "texts": []})

    assert told["milliseconds"] < 50


def test_nothing_is_fetched_and_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    folder = save(tmp_path / name.replace("/", "∕"), labels=["</script>", "<img onerror=x>"])

    html = export_web(folder, tmp_path / "page.html").file.read_text(encoding="utf-8")

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert not re.search(r"<(link|img|iframe|object|base)\b", html)
    assert not re.search(r'\bsrc="|url\(|@import|fetch\(|XMLHttpRequest|import\(', html)
    assert html.count("<script") == html.count("</script>") == 3
    assert "alert(1)</script>" not in html


def test_no_two_modules_use_one_name() -> None:
    told = r"^(?:export )?(?:async )?(?:const|let|function|class) ([A-Za-z]\w*)"
    names = [name for module in MODULES for name in re.findall(told, assets()[module], flags=re.M)]

    assert sorted(names) == sorted(set(names))


def test_every_module_of_the_page_comes_after_those_it_imports() -> None:
    for place, module in enumerate(MODULES):
        imported = re.findall(r'from "\./([\w.]+)"', assets()[module])
        assert set(imported) <= set(MODULES[:place])


def test_a_transformer_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = save(
        tmp_path / "model", "te", heads=2, transformer_positions=64, text={"max_words": 64}
    )

    with pytest.raises(ModelError, match="te is too large to run in a page"):
        export_web(folder, tmp_path / "page.html")
    with pytest.raises(ModelError, match="te has no ONNX graph"):
        verb.run(folder, out=tmp_path / "out")
    assert not (tmp_path / "page.html").exists()


def test_the_verb_writes_a_folder_and_a_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run(folder, out=tmp_path / "small", weights="int8", web=tmp_path / "page.html")

    said = capsys.readouterr().err
    assert "page.html: one page of" in said
    assert "Compared with the model, on 200 texts a probability differs by at most 0.0" in said
    assert "Without --weights the page stays nearer to the model." in said
    assert "small: weights in int8" in said
    assert "compared on 96 texts" in said
    assert json.loads((tmp_path / "small" / "config.json").read_text())["storage"] == "int8"
    assert (tmp_path / "page.html").is_file()


def test_a_page_with_the_models_own_weights_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run(folder, web=tmp_path / "page.html", weights="float32")

    assert "Its weights are the model's own." in capsys.readouterr().err


def test_the_verb_says_what_it_needs(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="export needs --out DIR"):
        verb.run(folder)
    with pytest.raises(ConfigError, match="--weights int4: expected float32, float16 or int8"):
        verb.run(folder, out=tmp_path / "small", weights="int4")
