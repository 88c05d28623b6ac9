"""Every page by screenshot at two widths and in both colour schemes, with measured layout."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from lamatext.data.dataset import Dataset, EvaluationData
from lamatext.metrics import Scores
from lamatext.pipeline import choose_test_examples, score_saved_model
from lamatext.saved.model_io import add_metrics
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.views.explanation_page import explanation_page, write_test_page
from lamatext.views.html_templates import REPORT_STYLE, SHARED_STYLE, asset
from lamatext.views.report.collect import collect_findings
from lamatext.views.report.report_page import write_report
from lamatext.views.web_export import export_web
from tests.browser.conftest import serve
from tests.browser.page_checks import SCHEMES, WIDTHS, check_page, checked_page
from tests.corpora import reviews
from tests.serve.saved import save
from tests.trained_model import trained
from tests.views.test_report_page import dataset

pytestmark = [
    pytest.mark.browser,
    pytest.mark.parametrize("scheme", SCHEMES),
    pytest.mark.parametrize("width", WIDTHS),
]


@pytest.fixture(scope="module")
def test_texts() -> Dataset:
    texts, labels = reviews(60, seed=5)
    labels[:6] = ["pos" if label == "neg" else "neg" for label in labels[:6]]
    return dataset(texts, labels)


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, test_texts: Dataset) -> Path:
    folder = trained().save(tmp_path_factory.mktemp("models") / "reviews")
    scores, _ = score_saved_model(folder, test_texts)
    metrics = {"test": scores.as_dict(), "examples": choose_test_examples(test_texts, 4)}
    add_metrics(folder, metrics)
    return folder


LONG = "Donaudampfschifffahrtsgesellschaftskapitänswitwenrentenversicherung" * 2
HOSTILE_LABELS = ["<img src=x onerror=alert(1)>", LONG, "שלום עולם \u202eevil", "🎉 party"]


def test_long_and_hostile_labels_stay_on_the_pages(
    width: int, scheme: str, tmp_path: Path, chromium: Browser, shots: Path
) -> None:
    folder = save(tmp_path / "model", labels=HOSTILE_LABELS)
    texts, _ = reviews(40, seed=5)
    data = dataset([*texts, "x" * 300], [HOSTILE_LABELS[row % 4] for row in range(41)])
    findings = collect_findings(folder, EvaluationData(data, None, "41 texts"))
    write_report(findings, tmp_path / "report.html")
    explanations = list(findings.explanations.values())[:4]
    several = [replace(one, thresholds=np.zeros(4, np.float32)) for one in explanations]
    page_of_several = explanation_page(several, "Several labels")
    (tmp_path / "several.html").write_text(page_of_several, encoding="utf-8")
    for name in ("report", "several"):
        with checked_page(chromium, width, scheme) as page:
            page.goto((tmp_path / f"{name}.html").as_uri())
            check_page(page, shots / f"hostile-{name}-{width}-{scheme}.png")


def test_the_browser_file_has_its_input_first_and_nothing_jumps(
    width: int, scheme: str, trained_folder: Path, chromium: Browser, shots: Path
) -> None:
    file = export_web(trained_folder, shots / "web.html").file
    with checked_page(chromium, width, scheme) as page:
        page.goto(file.as_uri())
        page.wait_for_selector("#actions:not([hidden])")

        expect(page.locator("#message")).to_contain_text("60 test texts correctly · saved on")
        assert page.locator("textarea").bounding_box()["y"] < 300  # type: ignore[index]
        check_page(page, shots / f"web-empty-{width}-{scheme}.png")
        places = "['.examples', '.verdict', '.bars', '.why'].map(s => document.querySelector(s)"
        places += ".getBoundingClientRect().top)"
        before = page.evaluate(places)
        assert page.locator(".examples span").inner_text() == "Examples from the test texts:"
        page.locator(".examples button").nth(1).click()
        expect(page.locator(".probability")).to_contain_text("%")
        assert page.evaluate(places) == before
        assert page.locator(".examples button").nth(1).inner_text() in page.input_value("#text-1")
        check_page(page, shots / f"web-example-{width}-{scheme}.png")
        expect(page.locator(".by-head")).to_be_hidden()
        page.locator("#details summary").click()
        expect(page.locator(".by-head")).to_be_visible()
        check_page(page, shots / f"web-details-{width}-{scheme}.png")


def test_the_served_page_loads_without_a_jump(
    width: int, scheme: str, server: str, chromium: Browser, shots: Path
) -> None:
    with checked_page(chromium, width, scheme) as page:
        page.route("**/models/*", lambda route: (page.wait_for_timeout(700), route.continue_()))  # type: ignore[func-returns-value]
        page.goto(server)
        page.locator("#text-1").fill("a good film, not dull")  # before the model is there
        page.wait_for_selector("#actions:not([hidden])")

        expect(page.locator(".probability")).to_contain_text("%")
        check_page(page, shots / f"serve-{width}-{scheme}.png")


@pytest.fixture(scope="module")
def scored_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with two models, of which the second has the longer summary."""
    folder = tmp_path_factory.mktemp("scored")
    scores = {"accuracy": 0.8312, "accuracy_interval": [0.8145, 0.8467], "texts": 20_000}
    add_metrics(save(folder / "first"), {"test": {"accuracy": 0.9161, "texts": 1200}})
    add_metrics(save(folder / "second"), {"test": {**scores, "folds": 5}})
    yield from serve(create_app(load_models([folder / "first", folder / "second"])))


RECORD_STATES = """
window.tops = new Set(), window.messages = new Set();
const record = () => {
  const panels = document.getElementById("panels");
  if (panels) window.tops.add(panels.getBoundingClientRect().top + scrollY);
  if (panels) window.messages.add(document.getElementById("message").textContent.slice(0, 13));
  requestAnimationFrame(record);
};
record();
"""


def test_the_input_stays_in_its_place_while_models_load(
    width: int, scheme: str, scored_models: str, chromium: Browser, shots: Path
) -> None:
    for one in (width, 320) if width < 400 else (width,):
        with checked_page(chromium, one, scheme) as page:
            page.add_init_script(RECORD_STATES)
            page.route("**/models/*", lambda route: (sleep(0.3), route.continue_()))  # type: ignore[func-returns-value]
            page.goto(scored_models)
            expect(page.locator("#message")).to_contain_text("Labels 91.6 %")
            page.locator("select.model").select_option("second")
            expect(page.locator("#message")).to_contain_text("(cross-validation) · saved on")

            page.wait_for_function("messages.size >= 3")  # recorded in the next animation frame
            texts = ["Loading the m", "Labels 91.6 %", "Labels 83.1 %"]
            assert page.evaluate("[...messages]") == texts
            assert len(page.evaluate("[...tops]")) == 1
            check_page(page, shots / f"serve-models-{one}-{scheme}.png")


def test_the_examples_page_filters_mistakes_and_classes(
    width: int,
    scheme: str,
    trained_folder: Path,
    test_texts: Dataset,
    chromium: Browser,
    shots: Path,
) -> None:
    scores, _ = score_saved_model(trained_folder, test_texts)
    assert isinstance(scores, Scores)
    file = shots / "examples.html"
    write_test_page(trained_folder, test_texts, scores.as_dict(), file)
    wrong = sum(map(sum, scores.confusion)) - sum(row[i] for i, row in enumerate(scores.confusion))
    with checked_page(chromium, width, scheme) as page:
        page.goto(file.as_uri())
        check_page(page, shots / f"examples-{width}-{scheme}.png")
        articles = page.locator("article:visible")
        total = articles.count()

        page.locator("[name=outcome][value=mistake]").focus()
        page.keyboard.press("Space")
        assert 6 <= articles.count() == wrong < total
        assert page.locator("article:visible .wrong").count() == wrong
        assert page.locator("output").inner_text() == f"{wrong} texts"
        page.get_by_label("Class", exact=False).first.select_option("pos")
        assert articles.count() == wrong  # with two classes, every mistake is between them
        page.locator("[name=outcome][value=correct]").focus()
        page.keyboard.press("Space")
        assert set(articles.locator("h2").all_inner_texts()) == {"pos"}
        check_page(page, shots / f"examples-correct-{width}-{scheme}.png")


def test_six_key_figures_are_in_equal_rows(
    width: int, scheme: str, chromium: Browser, shots: Path
) -> None:
    style = "".join(map(asset, (SHARED_STYLE, REPORT_STYLE)))
    tiles = "<div><dt>micro-F1: every label of a text counts equally</dt><dd>0.724</dd></div>" * 6
    (shots / "tiles.html").write_text(
        f'<style>{style}</style><body class="report"><dl class="figures-row">{tiles}</dl>'
    )
    with checked_page(chromium, width, scheme) as page:
        page.goto((shots / "tiles.html").as_uri())
        tops = page.evaluate(
            "[...document.querySelectorAll('dt')].map(d => d.parentElement.offsetTop)"
        )

    assert sorted(map(tops.count, set(tops))) == ([3, 3] if width > 544 else [2, 2, 2])


def test_the_report_shows_mistakes_and_cut_axes(
    width: int,
    scheme: str,
    report_file: Path,
    chromium: Browser,
    shots: Path,
) -> None:
    with checked_page(chromium, width, scheme) as page:
        page.goto(report_file.as_uri())
        check_page(page, shots / f"report-{width}-{scheme}.png")

        assert page.title() == "Film reviews"
        assert page.locator("#mistakes .texts li:visible").count() > 0
        assert page.locator("#mistakes details").count() == 0
        assert page.locator("#baselines .dots circle").count() == 2
        assert page.locator("#baselines .ends text").first.text_content() == "50 %"
        assert page.locator("#calibration path.interval").count() >= 1
