import base64
import hashlib
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lamatext import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.evaluation import EvaluationData
from lamatext.explain.faithfulness import Faithfulness
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import METRICS, read_json
from lamatext.views.charts import spread
from lamatext.views.formatting import summed
from lamatext.views.markup import Html, interval, join, many, marked, tag, text_item
from lamatext.views.report.collect import Findings, gather
from lamatext.views.report.examples import choose, doubtful_labels
from lamatext.views.report.reason_check import checked_reasons
from lamatext.views.report.report_page import report_page, write_report
from tests.corpora import reviews
from tests.explain.models import make_explanation
from tests.fused import predictor, trained
from tests.nn.tiny_bert import save_bert
from tests.serve.saved import WORDS, save

BOARD = [
    {"model": "lama-ctx", "accuracy": 0.95, "macro_f1": 0.9, "calibration_error": 0.02,
     "bytes": 2_900_000, "texts_per_second": 2146.0, "seconds": 109.0},
    {"model": "TF-IDF + LR", "accuracy": 0.75, "macro_f1": 0.7, "calibration_error": 0.05,
     "bytes": 700_000, "texts_per_second": 14896.0, "seconds": 1.0},
]  # fmt: skip
TRANSFORMER: dict[str, Any] = {"heads": 2, "positions": 256, "text": {"max_words": 256}}
HOSTILE = [
    "<script>alert(1)</script> good film",
    "</p></li></section><img src=x onerror=alert(1)> bad",
    "</style><style>*{display:none}</style>",
    '"\'` onmouseover=alert(1) x="',
    "a & b &lt;i&gt; $title ${style} %s {0} <!-- -->",
    "\u202eright to left\u202c lone \ud800 nul \x00 \x1b[31m",
    "",
]


def corpus(texts: list[str], labels: list[str], source: str = "made.csv") -> Dataset:
    whole = [text.encode("utf-8", "replace").decode() for text in texts]
    return Dataset(
        pa.chunked_array([pa.array(whole, pa.large_string())]),
        pa.chunked_array([pa.array(labels, pa.string())]),
        source,
    )


class Reader(HTMLParser):
    """Collects tags, attributes, where links lead, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A fused model of two classes, with a baseline; every fifth label is wrong."""
    folder = tmp_path_factory.mktemp("report") / "two"
    trained().save(folder, metrics={"leaderboard": BOARD})
    texts, labels = reviews(60, seed=5)
    turned = [
        {"pos": "neg", "neg": "pos"}[label] if row % 5 == 0 else label
        for row, label in enumerate(labels)
    ]
    learnt = corpus(*reviews(120))
    return gather(folder, EvaluationData(corpus(texts, turned), learnt, "60 texts"))


@cache
def odd_corpus(labels: tuple[str, ...], count: int) -> Dataset:
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(WORDS, 9)) for _ in range(count)]
    return corpus(texts, [labels[row % len(labels)] for row in range(count)])


def made(folder: Path, labels: list[str], name: str = "lama-ctx", count: int = 20) -> Findings:
    """The findings on a model with random weights."""
    save(folder, name, labels=labels, **TRANSFORMER if name == "te" else {})
    return gather(folder, EvaluationData(odd_corpus(tuple(labels), count), None, f"{count} texts"))


def test_the_page_tells_the_numbers(two: Findings) -> None:
    page = Reader(report_page(two))

    scores = two.scores
    assert f"{100 * scores.accuracy:.1f} %" in page.text
    assert f"{scores.macro_f1:.3f}" in page.text
    assert f"off by {100 * scores.calibration_error:.1f} points" in page.text
    for row in scores.classes:
        assert f"{row.precision:.3f}{row.recall:.3f}{row.f1:.3f}" in page.text.replace("\n", "")
    for i, counts in enumerate(scores.confusion):
        for j, count in enumerate(counts):
            assert (f"cell-{i}-{j}" in page.ids) == (count > 0)
    assert two.faithfulness.verdict() in page.text
    assert "lama-ctx is ahead of TF-IDF + LR by 20.0 points." in page.text
    assert "14,896" in page.text
    assert "Predictor.load(" in page.text


def test_it_finds_the_labels_that_were_turned(two: Findings) -> None:
    turned = set(range(0, 60, 5))

    found = two.chosen.doubtful

    assert len(turned & set(found)) >= 0.8 * len(found)
    page = report_page(two)
    assert "Labels that may be wrong" in page
    assert "✗ labelled " in page


def test_every_link_leads_to_a_place_on_the_page_and_ids_are_used_once(two: Findings) -> None:
    page = Reader(report_page(two))

    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert all(link.startswith("#") for link in page.links)


def test_nothing_runs_and_the_only_style_is_the_one_that_the_policy_names(two: Findings) -> None:
    html = report_page(two)

    found = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert found
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in html
    page = Reader(html)
    assert "script" not in page.tags
    assert "style" not in page.attributes
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html


def test_hostile_texts_labels_and_names_stay_text(two: Findings, tmp_path: Path) -> None:
    harmless = Reader(report_page(two))
    labels = [f"{text or 'empty'} {number}" for number, text in enumerate(HOSTILE)]
    labels = [label.encode("utf-8", "replace").decode() for label in labels]
    folder = save(tmp_path / '<b>"x"', labels=labels)
    texts = corpus(HOSTILE * 2, labels * 2, source=HOSTILE[1])

    html = report_page(gather(folder, EvaluationData(texts, texts, "texts")))

    html.encode("utf-8")
    page = Reader(html)
    assert page.tags <= harmless.tags
    assert page.attributes <= harmless.attributes
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in html
    assert "LEARNT" not in html


def test_sixty_classes_are_told_by_their_confusions(tmp_path: Path) -> None:
    labels = [f"class {number}" for number in range(60)]

    found = made(tmp_path / "sixty", labels, count=180)
    html = report_page(found)

    page = Reader(html)
    assert len(html) < 2_000_000
    assert "the commonest mistakes first" in page.text
    assert len(found.chosen.cells) == 30
    assert "cell-0-1" not in page.ids
    assert "Texts of each of the 60 classes" in page.text


@pytest.mark.parametrize("name", ["avg", "cnn", "te"])
def test_a_model_without_attention_and_without_baselines_is_told_too(
    tmp_path: Path, name: str
) -> None:
    found = made(tmp_path / name, ["no", "yes"], name)

    page = Reader(report_page(found))

    assert "attention" not in found.faithfulness.orders
    assert "Where the heads look" not in page.text
    assert "None was trained beside this model." in page.text
    assert "No learning curve was kept" in page.text
    assert "most contributing words" in page.text


def test_a_transformer_is_explained_on_fewer_texts_and_by_more_words_at_a_time(
    tmp_path: Path,
) -> None:
    found = made(tmp_path / "te", ["no", "yes"], "te", count=150)

    assert found.words.texts == 1000 // 18
    assert found.faithfulness.texts == 30
    assert checked_reasons(tmp_path / "te", found.texts).texts == 30
    long = "a good film " * 60
    assert Predictor.load(tmp_path / "te").explain(long).window == 3
    assert TextClassifier.load(tmp_path / "te").explain(long).window == 3


def test_a_pretrained_encoder_is_told_too(tmp_path: Path) -> None:
    settings = {"model.pretrained": save_bert(tmp_path / "tiny"), "training.epochs": 1}
    classifier = TextClassifier("bert", settings=settings, device="cpu").fit(*reviews(40))
    folder = classifier.save(tmp_path / "model")

    found = gather(folder, EvaluationData(corpus(*reviews(20, seed=5)), None, "20 texts"))

    page = Reader(report_page(found))
    assert "A bert model" in page.text
    assert "attention" not in found.faithfulness.orders
    assert "integrated gradients" in found.faithfulness.orders


def test_the_report_keeps_with_the_model_how_far_its_reasons_hold(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    held = EvaluationData(odd_corpus(("bad", "good"), 12), None, "12 texts")

    found = write_report(folder, held, tmp_path / "deep" / "page.html")

    kept = read_json(folder / METRICS)["faithfulness"]
    assert kept["verdict"] == found.faithfulness.verdict()
    assert "Can its reasons be trusted?" in (folder / "README.md").read_text()
    assert Predictor.load(folder).predict(["good"]).shape == (1,)
    assert (tmp_path / "deep" / "page.html").read_text().startswith("<!doctype html>")


def test_a_page_that_knows_its_texts_were_learnt_says_so(two: Findings) -> None:
    texts = two.held.texts
    from dataclasses import replace

    found = replace(two, held=EvaluationData(texts, texts, "texts"))

    assert "the scored texts are those that it learnt from" in report_page(found)


def test_the_same_findings_make_the_same_page(two: Findings) -> None:
    assert report_page(two) == report_page(two)
    assert isinstance(two.faithfulness, Faithfulness)


def test_doubtful_labels_are_ranked_by_their_margin() -> None:
    truth = np.array([0, 0, 0, 1, 1, 1])
    yes = np.array([0.1, 0.2, 0.95, 0.9, 0.8, 0.02])

    found = doubtful_labels(truth, np.stack([1 - yes, yes], axis=1))

    assert found == [5, 2]


def test_texts_behind_a_cell_are_few_and_the_surest_come_first() -> None:
    draw = np.random.default_rng(0)
    yes = draw.random(5000)
    truth = draw.integers(0, 2, 5000)

    found = choose(truth, np.stack([1 - yes, yes], axis=1), most=400)

    assert sorted(found.cells) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for (i, j), rows in found.cells.items():
        assert len(rows) == 8
        assert all(truth[row] == i and (yes[row] > 0.5) == bool(j) for row in rows)
        sure = [max(yes[row], 1 - yes[row]) for row in rows]
        assert sure == sorted(sure, reverse=True)
    assert not set(found.doubtful) & set(found.mistakes)


def test_no_mistake_is_told_as_such(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", labels=["no", "yes"])
    texts = odd_corpus(("no", "yes"), 10).texts.to_pylist()
    said = Predictor.load(folder).predict(texts).tolist()

    page = Reader(
        report_page(gather(folder, EvaluationData(corpus(texts, said), None, "10 texts")))
    )

    assert "There is no mistake." in page.text
    assert "The model made no mistake here." in page.text


def test_a_text_tells_the_share_of_each_part_of_the_model() -> None:
    explanation = predictor().explain("a wonderful film")

    shown = Reader(text_item(explanation, list(map(str, explanation.labels)), 0)).text

    assert summed(explanation, explanation.best) in shown
    assert "of this, n-grams " in shown


def test_a_long_text_is_shown_around_its_strongest_words() -> None:
    text = "wonderful " + "film " * 300 + "dull end"
    explanation = make_explanation(text)
    explanation.contributions[:] = 0
    explanation.contributions[1, [0, 301]] = 2, -1

    shown = Reader(marked(explanation, 1)).text

    assert shown.startswith("wonderful film")
    assert shown.endswith("film dull end")
    assert " … " in shown
    assert len(shown.split()) < 100
    assert '<mark class="p4">wonderful</mark>' in marked(explanation, 1)
    assert '<mark class="n2">dull</mark>' in marked(explanation, 1)


@pytest.mark.parametrize(
    ("values", "ends"), [([0.5, 0.6], (0.49, 0.61)), ([0.97], (0.873, 1.0)), ([0.0, 1.0], (0, 1))]
)
def test_an_axis_of_shares_ends_at_all_of_them(
    values: list[float], ends: tuple[float, float]
) -> None:
    axis = spread("right answers", values, "{:.1%}", most=1.0)

    assert (axis.low, axis.high) == pytest.approx(ends)


def test_markup_escapes_what_is_not_markup() -> None:
    made = tag("p", "<b>", tag("i", "x"), class_='"><b>', aria_label=None)

    assert made == '<p class="&quot;&gt;&lt;b&gt;">&lt;b&gt;<i>x</i></p>'
    assert join(["<", Html("<br>")], "") == "&lt;<br>"
    assert many(1, "text") == "1 text"
    assert many(2, "class", "classes") == "2 classes"


def test_an_interval_holds_the_share_and_narrows() -> None:
    low, high = interval(0.8, 100)
    closer = interval(0.8, 10_000)

    assert low == pytest.approx(0.711, abs=0.001)  # worked out by hand
    assert high == pytest.approx(0.867, abs=0.001)
    assert low < closer[0] < 0.8 < closer[1] < high
    assert interval(1.0, 5)[1] == 1.0
