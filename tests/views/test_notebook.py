"""What a notebook shows: one line and HTML of explanations and models, and the progress of fit."""

import sys
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lamatext.classifier import TextClassifier
from lamatext.progress import SILENT
from lamatext.views import progress_display
from lamatext.views.notebook import class_names, notebook_html
from lamatext.views.progress_display import NotebookProgress, ProgressDisplay, fit_progress
from tests.corpora import TINY, reviews
from tests.explain.models import make_explanation
from tests.trained_model import predictor, trained


class FakeDisplay:
    """Stands in for IPython: keeps the HTML that a cell shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, html: str, *, display_id: bool) -> "FakeDisplay":
        assert display_id
        self.update(html)
        return self

    def update(self, html: str) -> None:
        self.shown.append(html)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeDisplay:
    """Pretend to run in the kernel of a notebook."""
    cell = FakeDisplay()
    shell = SimpleNamespace(kernel=object())
    ipython: Any = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        sys.modules,
        "IPython.display",
        SimpleNamespace(HTML=str, display=cell.display),
    )
    return cell


def test_an_explanation_is_one_line_with_its_reasons() -> None:
    explanation = predictor().explain("a wonderful\nfilm\x1b[31m " + "x" * 300)

    line = repr(explanation)

    assert line.startswith(f"Explanation({explanation.predicted} ")
    assert "for: " in line
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 300


def test_a_text_without_words_is_flagged() -> None:
    empty = predictor().explain(" ")
    unknown = replace(empty, text="\u200b")

    assert "; empty text; " in repr(empty)
    assert "The text is empty: its prediction" in notebook_html(empty)
    assert empty.as_dict()["empty"] is True
    assert "the model knows none of its words" in repr(unknown)
    assert "The model knows none of the words in this text: its prediction" in notebook_html(
        replace(unknown, spans=[(0, 0)] * len(unknown.spans))
    )
    film = predictor().explain("a film")
    foreign = replace(film, contributions=np.zeros_like(film.contributions))
    assert "knows none of the words in this text: its" in notebook_html(foreign)
    assert not any(note in notebook_html(film) for note in ("knows none", "is empty"))
    assert "empty" not in film.as_dict()


def test_the_html_of_an_explanation_starts_with_its_reasons_and_escapes_them() -> None:
    explanation = make_explanation("<b>film</b> dull")

    html = explanation._repr_html_()

    assert html.index("for") < html.index("Hover over a word")
    assert html.index("<details>") > html.index("Hover over a word")
    assert "<b>film" not in html


def test_models_are_shown_by_their_facts() -> None:
    classifier = trained()

    assert repr(classifier).startswith("TextClassifier, fitted (classes 2: neg, pos; texts 120; ")
    assert "validation accuracy " in repr(classifier)
    assert repr(predictor()).startswith("Predictor(classes 2: neg, pos; words ")
    assert "neg, pos" in predictor()._repr_html_()
    bundle = classifier._repr_mimebundle_()
    assert bundle["text/plain"] == repr(classifier)
    assert "<td" in bundle["text/html"]
    assert repr(TextClassifier(epochs=3)) == "TextClassifier(epochs=3)"
    assert "TextClassifier" in TextClassifier(epochs=3)._repr_mimebundle_()["text/plain"]


@pytest.mark.filterwarnings("ignore:.*too few to hold out")
def test_a_score_on_the_training_texts_is_not_called_validation() -> None:
    texts, labels = reviews(4)

    shown = repr(TextClassifier(settings=TINY, device="cpu").fit(texts, labels))

    assert "; score on the training texts " in shown
    assert "validation accuracy" not in shown
    assert "on 12 texts" in repr(trained())  # a tenth of 120


@pytest.mark.filterwarnings("ignore:.*too few to hold out")
def test_a_score_on_many_copies_of_the_training_texts_is_not_called_validation() -> None:
    texts, labels = reviews(4)

    shown = repr(TextClassifier(settings=TINY, device="cpu").fit(10 * texts, 10 * labels))

    assert "; score on the training texts " in shown
    assert "validation accuracy" not in shown


def test_the_scores_of_a_cross_validation_are_called_so() -> None:
    classifier = copy(trained())

    classifier.metrics_ = {"test": {"accuracy": 0.9, "folds": 5}}
    assert "cross-validation accuracy 90.0 %" in repr(classifier)
    classifier.metrics_ = {"test": {"micro_f1": 0.9}}
    assert "test micro-F1 0.900" in repr(classifier)


def test_many_classes_are_shortened_and_labels_are_escaped() -> None:
    assert class_names(list(range(12))).endswith("8, 9 and 2 more")
    classes = np.array(["<script>", "b"])

    html = replace(predictor(), classes_=classes)._repr_html_()

    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_fit_shows_a_progress_bar_in_a_notebook(notebook: FakeDisplay) -> None:
    texts, labels = reviews(40)

    TextClassifier(settings=TINY, device="cpu").fit(texts, labels)

    assert any("<progress" in html and "epoch 1/2" in html for html in notebook.shown)
    assert any("validation accuracy" in html for html in notebook.shown)
    assert notebook.shown[-1] == ""


def test_fit_is_silent_in_a_notebook_if_asked(notebook: FakeDisplay) -> None:
    texts, labels = reviews(40)

    TextClassifier(settings=TINY, device="cpu", verbose=False).fit(texts, labels)

    assert notebook.shown == []


def test_outside_a_notebook_verbose_decides(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_progress(None) as silent, fit_progress(False) as also_silent:
        assert silent is also_silent is SILENT
    with fit_progress(True) as progress:
        assert isinstance(progress, ProgressDisplay)
        progress.note("epoch 1/2")
    assert "epoch 1/2" in capsys.readouterr().err


def test_the_bar_of_a_notebook_advances_and_escapes(notebook: FakeDisplay) -> None:
    with NotebookProgress() as progress:
        progress.stage("<b>reading", 10)
        progress.advance(4)
        progress.note("done")

    assert 'value="0" max="10"' in notebook.shown[1]
    assert 'value="4" max="10"' in notebook.shown[-2]
    assert all("<b>" not in html for html in notebook.shown)


def test_the_time_left_is_printed_ever_more_rarely_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr("lamatext.views.progress_display.time.monotonic", lambda: clock["now"])

    with ProgressDisplay() as progress:
        for now in range(0, 200, 10):
            clock["now"] = float(now)
            progress.time_left(200.0 - now)

    lines = capsys.readouterr().err.split("\n")
    assert lines[:-1] == [
        "about 3 min left",
        "about 3 min left",
        "about 2 min left",
        "about 40 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, ""), (2, "about 5 s left"), (89, "about 90 s left"), (8000, "about 2.2 h left")],
)
def test_the_time_left_is_rounded(seconds: float, text: str) -> None:
    assert progress_display.format_time_left(seconds) == text
