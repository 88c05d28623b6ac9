import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lamatext import TextClassifier
from lamatext.data.dataset import Dataset, EvaluationData
from lamatext.explain.faithfulness import measure_faithfulness
from lamatext.metrics import MultiLabelScores
from lamatext.runtime.predictor import Predictor
from lamatext.saved.model_io import add_metrics
from lamatext.views.formatting import NGRAMS_ALONE
from lamatext.views.report.collect import (
    Findings,
    choose_examples,
    collect_findings,
    doubtful_labels,
    marked_words,
)
from lamatext.views.report.report_page import report_page, write_report
from tests.corpora import reviews, topic_texts
from tests.explain.models import make_explanation
from tests.nn.tiny_bert import save_bert
from tests.serve.saved import WORDS, save
from tests.test_multi_label import fitted
from tests.trained_model import trained

BOARD = [
    {"model": "lama-ctx", "accuracy": 0.95, "macro_f1": 0.9, "calibration_error": 0.02,
     "bytes": 2_900_000, "texts_per_second": 2146.0, "seconds": 109.0},
    {"model": "TF-IDF + LR", "accuracy": 0.75, "macro_f1": 0.7, "calibration_error": 0.05,
     "bytes": 700_000, "texts_per_second": 14896.0, "seconds": 1.0},
]  # fmt: skip
TRANSFORMER: dict[str, Any] = {"heads": 2, "transformer_positions": 256, "text": {"max_words": 256}}
HOSTILE = [
    "<script>alert(1)</script> good film",
    "</p></li></section><img src=x onerror=alert(1)> bad",
    "</style><style>*{display:none}</style>",
    '"\'` onmouseover=alert(1) x="',
    "a & b &lt;i&gt; $title ${style} %s {0} <!-- -->",
    "\u202eright to left\u202c lone \ud800 nul \x00 \x1b[31m",
    "",
]


def dataset(texts: list[str], labels: list[str], source: str = "made.csv") -> Dataset:
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
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A fused model of two classes, with a baseline; every fifth label is wrong."""
    folder = tmp_path_factory.mktemp("report") / "two"
    trained().save(folder, metrics={"leaderboard": BOARD})
    texts, labels = reviews(60, seed=5)
    swapped = [
        {"pos": "neg", "neg": "pos"}[label] if row % 5 == 0 else label
        for row, label in enumerate(labels)
    ]
    train = dataset(*reviews(120))
    return collect_findings(folder, EvaluationData(dataset(texts, swapped), train, "60 texts"))


@cache
def random_dataset(labels: tuple[str, ...], count: int) -> Dataset:
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(WORDS, 9)) for _ in range(count)]
    return dataset(texts, [labels[row % len(labels)] for row in range(count)])


def unseen(texts: Dataset) -> EvaluationData:
    return EvaluationData(texts, None, f"{len(texts)} texts")


def findings_of(
    folder: Path, labels: list[str], name: str = "lama-ctx", count: int = 20
) -> Findings:
    """The findings on a model with random weights."""
    save(folder, name, labels=labels, **TRANSFORMER if name == "te" else {})
    return collect_findings(folder, unseen(random_dataset(tuple(labels), count)))


def test_the_page_shows_the_numbers(findings: Findings) -> None:
    page = Reader(report_page(findings))

    scores = findings.one_label
    assert f"{100 * scores.accuracy:.1f} %" in page.text
    assert f"{scores.macro_f1:.3f}" in page.text
    assert f"off by {100 * scores.calibration_error:.1f} points" in page.text
    for row in scores.classes:
        assert f"{row.precision:.3f}{row.recall:.3f}{row.f1:.3f}" in page.text.replace("\n", "")
    for i, counts in enumerate(scores.confusion):
        for j, count in enumerate(counts):
            assert (f"cell-{i}-{j}" in page.ids) == (count > 0)
    assert findings.faithfulness.verdict() in page.text
    assert "lama-ctx is ahead of TF-IDF + LR by 20.0 points." in page.text
    assert "14,896" in page.text
    assert "Predictor.load(" in page.text


def test_the_labels_that_were_swapped_are_found(findings: Findings) -> None:
    swapped = set(range(0, 60, 5))

    found = findings.examples.doubtful

    assert len(swapped & set(found)) >= 0.8 * len(found)
    page = report_page(findings)
    assert "Labels that may be wrong" in page
    assert "✗ labelled " in page


def test_every_link_has_a_target_on_the_page_and_ids_are_unique(findings: Findings) -> None:
    page = Reader(report_page(findings))

    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert all(link.startswith("#") for link in page.links)


def test_there_is_no_script_and_the_policy_allows_only_the_pages_style_sheet(
    findings: Findings,
) -> None:
    html = report_page(findings)

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


def test_hostile_texts_labels_and_names_stay_text(findings: Findings, tmp_path: Path) -> None:
    harmless = Reader(report_page(findings))
    labels = [f"{text or 'empty'} {number}" for number, text in enumerate(HOSTILE)]
    labels = [label.encode("utf-8", "replace").decode() for label in labels]
    folder = save(tmp_path / '<b>"x"', labels=labels)
    texts = dataset(HOSTILE * 2, labels * 2, source=HOSTILE[1])

    html = report_page(collect_findings(folder, EvaluationData(texts, None, "texts", is_seen=True)))

    html.encode("utf-8")
    page = Reader(html)
    assert page.tags <= harmless.tags
    assert page.attributes <= harmless.attributes
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in html
    assert "TRAINED" not in html


def test_of_sixty_classes_the_most_frequent_confusions_are_listed(tmp_path: Path) -> None:
    labels = [f"class {number}" for number in range(60)]

    found = findings_of(tmp_path / "sixty", labels, count=180)
    html = report_page(found)

    page = Reader(html)
    assert len(html) < 2_000_000
    assert "the most frequent mistakes first" in page.text
    assert len(found.examples.cells) == 30
    assert "cell-0-1" not in page.ids
    assert "Texts per class, 60 classes" in page.text
    assert "Scores per class, 60 classes, the weakest first" in page.text


@pytest.mark.parametrize("name", ["avg", "cnn", "te"])
def test_a_model_without_attention_and_without_baselines_is_reported(
    tmp_path: Path, name: str
) -> None:
    found = findings_of(tmp_path / name, ["no", "yes"], name)

    page = Reader(report_page(found))

    assert "attention" not in found.faithfulness.orders
    assert "What the attention heads look at" not in page.text
    assert "No baseline was trained with this model." in page.text
    assert "Learning curves" not in page.text
    assert "most contributing words" in page.text


def test_of_a_network_with_weight_0_the_report_shows_neither_curve_nor_attention(
    findings: Findings, tmp_path: Path
) -> None:
    folder = save(tmp_path / "model", labels=["neg", "pos"], ngrams=True, network_weight=0)
    add_metrics(folder, {"history": findings.metrics["history"]})
    data = EvaluationData(findings.scored, None, "60 texts")

    html = report_page(collect_findings(folder, data))

    page = Reader(html)
    assert "learning" in Reader(report_page(findings)).ids
    assert "learning" not in page.ids
    assert page.text.count(NGRAMS_ALONE) == 1
    assert html.partition("<main>")[2].count("ttention") == 1
    assert "Integrated gradients" not in page.text
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_a_transformer_is_explained_on_fewer_texts_and_with_wider_occlusions(
    tmp_path: Path,
) -> None:
    found = findings_of(tmp_path / "te", ["no", "yes"], "te", count=150)

    assert found.top_words.texts == 1000 // 18
    assert found.faithfulness.texts == 30
    texts = found.scored.texts.to_pylist()
    assert measure_faithfulness(Predictor.load(tmp_path / "te"), texts).texts == 30
    long = "a good film " * 60
    assert Predictor.load(tmp_path / "te").explain(long).window == 3
    assert TextClassifier.load(tmp_path / "te").explain(long).window == 3


def test_a_pretrained_encoder_is_reported(tmp_path: Path) -> None:
    settings = {"model.pretrained": save_bert(tmp_path / "tiny"), "training.epochs": 1}
    classifier = TextClassifier("bert", settings=settings, device="cpu").fit(*reviews(40))
    folder = classifier.save(tmp_path / "model")

    found = collect_findings(folder, unseen(dataset(*reviews(20, seed=5))))

    page = Reader(report_page(found))
    assert "A bert model" in page.text
    assert "attention" not in found.faithfulness.orders
    assert "integrated gradients" in found.faithfulness.orders


def test_writing_the_report_leaves_the_models_folder_alone(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    findings = collect_findings(folder, unseen(random_dataset(("bad", "good"), 12)))
    write_report(findings, tmp_path / "deep" / "page.html")

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert (tmp_path / "deep" / "page.html").read_text().startswith("<!doctype html>")


def test_scores_on_the_training_texts_are_no_headline(findings: Findings) -> None:
    page = report_page(replace(findings, is_seen=True, metrics={}))

    assert "the scored texts are the training texts, so the scores mean little" in page
    header = page[page.index("<header>") : page.index("</header>")]
    assert "These are training texts." in header
    assert f"{100 * findings.scores.accuracy:.1f} %" not in header
    assert f"{findings.scores.macro_f1:.3f}" not in header


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        (
            {"accuracy": 0.81, "accuracy_interval": [0.7, 0.9], "folds": 5},
            "an accuracy of 81.0 % (95 % interval 70.0 to 90.0 %) in 5-fold cross-validation.",
        ),
        (
            {"micro_f1": 0.81, "micro_f1_interval": [0.7, 0.9]},
            "a micro-F1 of 0.810 (95 % interval 0.700 to 0.900) on its test texts.",
        ),
    ],
)
def test_a_report_on_training_texts_gives_the_score_of_the_training_run(
    findings: Findings, test: dict[str, object], sentence: str
) -> None:
    page = report_page(replace(findings, is_seen=True, metrics={"test": test}))

    assert f"When it was trained, it reached {sentence}" in page


def test_the_training_texts_are_named_by_their_own_file(findings: Findings) -> None:
    train = replace(findings.data, source="train.csv")

    page = report_page(replace(findings, data=train))

    assert "The training texts of train.csv" in page
    assert "What the model was trained on." in page


def test_the_data_section_says_that_it_shows_the_scored_texts_if_the_training_texts_are_unknown(
    findings: Findings,
) -> None:
    page = report_page(replace(findings, train=None))

    assert "The texts that this report scores" in page
    assert "The scored texts of made.csv" in page
    assert "What the model was trained on" not in page
    assert ">training texts</th>" not in page


def test_concerns_about_the_data_are_listed(findings: Findings) -> None:
    data = replace(findings.data, in_both=6, test_rows=60, duplicates=12)

    page = report_page(replace(findings, data=data, conflicts=2))

    assert (
        "Please note: 6 of 60 scored texts are also training texts; "
        "10.0 % of the texts are duplicates; 2 texts with different labels." in page
    )
    assert "No problems were found." in report_page(findings)


@pytest.mark.parametrize(
    ("shared", "scored", "concern"),
    [(1, 3_554, ""), (1, 60, "1 of 60 scored texts is also a training text")],
)
def test_few_training_texts_among_the_scored_ones_are_no_concern(
    findings: Findings, shared: int, scored: int, concern: str
) -> None:
    data = replace(findings.data, in_both=shared, test_rows=scored)

    page = Reader(report_page(replace(findings, data=data))).text

    assert ("also a training text" in page) == bool(concern)
    assert concern in page


def test_the_same_findings_give_the_same_page(findings: Findings) -> None:
    assert report_page(findings) == report_page(findings)


def test_doubtful_labels_are_ranked_by_their_margin() -> None:
    truth = np.array([0, 0, 0, 1, 1, 1])
    yes = np.array([0.1, 0.2, 0.95, 0.9, 0.8, 0.02])

    found = doubtful_labels(truth, np.stack([1 - yes, yes], axis=1))

    assert found == [5, 2]


def test_a_cell_has_few_examples_and_the_most_confident_come_first() -> None:
    draw = np.random.default_rng(0)
    yes = draw.random(5000)
    truth = draw.integers(0, 2, 5000)

    found = choose_examples(truth, np.stack([1 - yes, yes], axis=1), limit=400)

    assert sorted(found.cells) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for (i, j), rows in found.cells.items():
        assert len(rows) == 8
        assert all(truth[row] == i and (yes[row] > 0.5) == bool(j) for row in rows)
        sure = [max(yes[row], 1 - yes[row]) for row in rows]
        assert sure == sorted(sure, reverse=True)
    assert not set(found.doubtful) & set(found.mistakes)


def test_a_model_without_mistakes_is_reported_as_such(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", labels=["no", "yes"])
    texts = random_dataset(("no", "yes"), 10).texts.to_pylist()
    predicted = Predictor.load(folder).predict(texts).tolist()

    page = Reader(report_page(collect_findings(folder, unseen(dataset(texts, predicted)))))

    assert "There are no mistakes." in page.text
    assert "The model made no mistakes on these texts." in page.text


def test_without_mistakes_there_is_no_legend_for_a_list_of_confusions(tmp_path: Path) -> None:
    labels = [f"class {number}" for number in range(60)]
    folder = save(tmp_path / "sixty", labels=labels)
    texts = random_dataset(tuple(labels), 60).texts.to_pylist()
    predicted = Predictor.load(folder).predict(texts).tolist()

    page = report_page(collect_findings(folder, unseen(dataset(texts, predicted))))

    assert "There are no mistakes." in page
    assert "Words in <mark" not in page


def test_the_page_is_titled_after_the_model_and_names_the_data(findings: Findings) -> None:
    named = report_page(replace(findings, folder=Path("runs/tickets")))

    assert "<h1><bdi>tickets</bdi></h1>" in named
    assert f", scored on {findings.scored.source}: " in named
    assert "<h1><bdi>Ours</bdi></h1>" in report_page(findings, title="Ours")


def test_both_learning_curves_have_their_numbers_as_a_table(findings: Findings) -> None:
    page = report_page(findings)

    for head in ("validation accuracy", "training loss"):
        assert f'<th scope="col">epoch</th><th scope="col">{head}</th>' in page


def test_a_long_text_is_shown_around_its_strongest_words() -> None:
    text = "wonderful " + "film " * 300 + "dull end"
    explanation = make_explanation(text)
    explanation.contributions[:] = 0
    explanation.contributions[1, [0, 301]] = 2, -1

    marked = marked_words(explanation, 1)

    shown = "".join(characters for characters, _ in marked)
    assert shown.startswith("wonderful film")
    assert shown.endswith("film dull end")
    assert " … " in shown
    assert len(shown.split()) < 100
    assert [pair for pair in marked if pair[1]] == [("wonderful", "p4"), ("dull", "n2")]


def test_a_report_on_several_labels_shows_their_scores(tmp_path: Path) -> None:
    board = [
        {
            **{"model": name, "accuracy": 0.5, "macro_f1": 0.6, "micro_f1": 0.7, "bytes": 9},
            **{"mean_average_precision": 0.8, "texts_per_second": 5.0, "seconds": 1.0},
            "hamming_loss": 0.0123,
            "labels": [{"label": "film", "texts": 17, "f1": f1}],
        }
        for name, f1 in (("lamatext", 0.911), ("fastText", 0.922))
    ]
    folder = fitted().save(tmp_path / "model", metrics={"leaderboard": board})
    texts, labels = topic_texts(60, seed=3)
    labels[0] = ["war"]  # a mistake to show
    column = pa.chunked_array([pa.array(labels, pa.list_(pa.string()))])
    scored = Dataset(pa.chunked_array([texts], pa.large_string()), column, "topics.jsonl")

    findings = collect_findings(folder, unseen(scored))
    page = report_page(findings)

    scores = findings.scores
    assert isinstance(scores, MultiLabelScores)
    assert f"{scores.micro_f1:.3f}" in page
    assert f"{scores.mean_average_precision:.3f}" in page
    assert "average precision" in page
    assert "<td>0.0123</td>" in page
    assert "<td>17</td><td>0.911</td><td>0.922</td>" in page
    assert "Confusion matrix" not in page
    assert "labelled <bdi>war</bdi>" in page
    assert re.search(
        r" · <bdi>war</bdi> [<0-9. ]+ %; shaded: words for and against <bdi>war</bdi></p>", page
    )
    assert "support the label that is named above them" in page
    assert '<th scope="col">decisions</th>' in page
