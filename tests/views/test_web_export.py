import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.cli import export as verb
from lamatext.errors import ConfigError, ModelError
from lamatext.runtime.parity import measure_parity
from lamatext.saved.quantization import Storage
from lamatext.views.html_templates import static_files
from lamatext.views.web_export import MODULES, export_web
from tests.serve.javascript import needs_node, run_javascript
from tests.serve.saved import save
from tests.views.test_web_model import TEXTS

RUN_EXPORTED_MODEL = """
const html = readFileSync(data.file, "utf8");
const embedded = id => html.match(new RegExp(`id="${id}">([^<]*)<`))?.[1];
const { Model } = await load("model.js");
const { fromBase64 } = await load("weights.js");
const ngrams = embedded("ngrams");
const description = JSON.parse(embedded("model"));
const model = new Model(description, fromBase64(embedded("weights")), ngrams && fromBase64(ngrams));
const explanations = [];
for (const text of data.texts) explanations.push(await model.explain(text));
const textOf = (length) =>
  Array.from({ length }, (_, t) => description.words[2 + (t % 40)]).join(" ");
const times = [];
for (const text of [textOf(20), textOf(200)]) {
  const repeated = [];
  for (let i = 0; i < 20; i++) {
    const start = process.cpuUsage(); // processor time: other processes may be running
    await model.explain(text);
    repeated.push(process.cpuUsage(start).user);
  }
  times.push(repeated.sort((a, b) => a - b)[10]);
}
print({ explanations, ratio: times[1] / times[0] });
"""


def largest_differences(file: Path, folder: Path) -> tuple[float, float]:
    """Largest difference to Python in a probability and in a word weight, on 200 texts."""
    data = {"file": str(file), "texts": TEXTS}
    explanations = run_javascript(RUN_EXPORTED_MODEL, data)["explanations"]
    predictor = Predictor.load(folder)
    probabilities, weights = [0.0], [0.0]
    for text, actual in zip(TEXTS, explanations, strict=True):
        expected = predictor.explain(text)
        assert expected.weights is not None
        probabilities.append(np.abs(actual["probabilities"] - expected.probabilities).max())
        weights.append(np.abs(actual["weights"] - expected.weights).max())
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
def test_the_exported_page_gives_the_explanations_of_python(
    tmp_path: Path, saved: Storage, storage: Storage | None, written: Storage, tolerance: float
) -> None:
    folder = save(tmp_path / "model", ngrams=True, storage=saved)

    export = export_web(folder, tmp_path / "model.html", storage=storage)

    assert export.storage == written
    assert max(largest_differences(export.file, folder)) <= tolerance


@needs_node
def test_the_difference_between_int8_and_float32_is_reported(tmp_path: Path) -> None:
    folder, rounded = save(tmp_path / "model"), save(tmp_path / "rounded", storage="int8")

    export = export_web(folder, tmp_path / "model.html", storage="int8")

    assert export.parity is not None
    assert not export.parity.holds
    expected = measure_parity(Predictor.load(rounded), Predictor.load(folder), TEXTS)
    probabilities, weights = largest_differences(export.file, folder)
    assert probabilities == pytest.approx(expected.probabilities, abs=1e-5)
    assert weights == pytest.approx(expected.weights, abs=1e-5)


def test_float16_is_not_the_default_if_it_changes_predictions(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.runtime.parity.INVISIBLE", 1e-9)

    export = export_web(folder, tmp_path / "page.html")

    assert (export.storage, export.parity) == ("float32", None)


@needs_node
@pytest.mark.slow
def test_the_time_of_an_explanation_grows_with_the_words_not_with_their_square(
    tmp_path: Path,
) -> None:
    sizes: dict[str, Any] = {"hidden_size": 64, "heads": 15, "classifier_width": 128}
    folder = save(tmp_path / "model", ngrams=True, text={"vector_width": 100}, **sizes)
    file = export_web(folder, tmp_path / "model.html").file

    timing = run_javascript(RUN_EXPORTED_MODEL, {"file": str(file), "texts": []})

    assert timing["ratio"] < 30  # of 200 words to 20: 10 if proportional, 100 if quadratic


def test_the_page_fetches_nothing_and_allows_only_its_own_script(tmp_path: Path) -> None:
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


def test_no_two_javascript_modules_declare_the_same_name() -> None:
    declaration = r"^(?:export )?(?:async )?(?:const|let|function|class) ([A-Za-z]\w*)"
    names = [
        name
        for module in MODULES
        for name in re.findall(declaration, static_files()[module], flags=re.M)
    ]

    assert sorted(names) == sorted(set(names))


def test_every_javascript_module_comes_after_those_it_imports() -> None:
    for index, module in enumerate(MODULES):
        imported = re.findall(r'from "\./([\w.]+)"', static_files()[module])
        assert set(imported) <= set(MODULES[:index])


def test_a_transformer_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = save(
        tmp_path / "model", "te", heads=2, transformer_positions=64, text={"max_words": 64}
    )

    with pytest.raises(ModelError, match="te is too large to run in a web page"):
        export_web(folder, tmp_path / "page.html")
    with pytest.raises(ModelError, match="te has no ONNX graph"):
        verb.run(folder, out=tmp_path / "out")
    assert not (tmp_path / "page.html").exists()


def test_the_command_writes_a_folder_and_a_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run(folder, out=tmp_path / "small", weights="int8", web=tmp_path / "page.html")

    messages = capsys.readouterr().err
    assert "page.html: one page of" in messages
    assert "Compared with the model, on 200 texts a probability differs by at most 0.0" in messages
    assert "Without --weights the page is closer to the model." in messages
    assert "small: weights in int8" in messages
    assert "Compared on 200 texts" in messages
    assert json.loads((tmp_path / "small" / "config.json").read_text())["storage"] == "int8"
    assert (tmp_path / "page.html").is_file()


def test_the_command_reports_unchanged_weights(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run(folder, web=tmp_path / "page.html", weights="float32")

    assert "It predicts what the model predicts." in capsys.readouterr().err


def test_the_command_names_missing_and_wrong_options(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="export needs --out DIR"):
        verb.run(folder)
    with pytest.raises(ConfigError, match="--weights int4: expected float32, float16 or int8"):
        verb.run(folder, out=tmp_path / "small", weights="int4")


def test_the_page_is_written_without_the_serve_extra(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('fastapi', 'starlette', 'uvicorn'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from lamatext.views.web_export import export_web\n"
        "export_web(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "assert not any(name.startswith('lamatext.serve') for name in sys.modules)\n"
    )
    fixture = Path(__file__).parents[1] / "fixtures" / "format-1"

    subprocess.run([sys.executable, "-c", code, fixture, tmp_path / "page.html"], check=True)

    assert (tmp_path / "page.html").is_file()
