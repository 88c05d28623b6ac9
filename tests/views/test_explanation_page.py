import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.dataset import Dataset
from lamatext.metrics import score
from lamatext.pipeline import score_saved_model
from lamatext.views.explanation_page import explanation_page, write_test_page
from lamatext.views.formatting import probability, signed
from lamatext.views.notebook import notebook_html
from tests.corpora import topic_texts
from tests.explain.models import make_explanation
from tests.serve.saved import save
from tests.test_multi_label import fitted

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</p></article></main><img src=x onerror=alert(1)>",
    '"\'` onmouseover=alert(1) x="',
    "a & b &lt;i&gt; &#60;",
    "line\u2028separator\u2029and\r\nfeeds",
    "lone \ud800 surrogate \udfff",
    "\u202eright to left\u202c שלום مرحبا",
    "👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪 1️⃣",
    "nul \x00 escape \x1b[31m bell \x07 \x9f \ufffe",
    "$title {{ title }} {% raw %} {# x #} ${style} %s {0} <!-- -->",
    "javascript:alert(1) ]]> <![CDATA[",
]


class Reader(HTMLParser):
    """Collects the tags, and the text inside each ``p.text``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if ("class", "text") in attrs:
            self.inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def numbers(html: str) -> dict[str, list[dict[str, list[list[float]]]]]:
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', html)
    assert found
    values: dict[str, list[dict[str, list[list[float]]]]] = json.loads(found[1])
    return values


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_and_labels_stay_text(hostile: str) -> None:
    harmless = explanation_page(
        [make_explanation("a b", labels=("x", "y"))], "title", "s", truths=["z"]
    )
    explanation = make_explanation(hostile, labels=(hostile, hostile + "2"))

    html = explanation_page([explanation], hostile, hostile, truths=[hostile + "3"])

    html.encode("utf-8")
    reader, allowed = read(html), read(harmless)
    assert set(reader.tags) == set(allowed.tags)
    assert reader.attributes == allowed.attributes
    assert reader.tags.count("script") == 2
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", html)
    assert len(reader.texts[0]) == len(hostile)
    assert "".join(c for c in reader.texts[0] if c.isalpha()) == "".join(
        c for c in hostile if c.isalpha()
    )
    notebook = read(notebook_html(explanation))
    assert set(notebook.tags) <= {"div", "b", "bdi", "span", "small", "details", "summary"}
    assert notebook.attributes <= {"style", "title", "dir"}


def test_only_the_pages_own_script_may_run_and_nothing_is_fetched() -> None:
    html = explanation_page([make_explanation("a film")], "Title", "subtitle")

    script = html.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<img|src=|href=", html)


def test_the_page_holds_the_same_numbers() -> None:
    explanation = make_explanation("a thoughtful film")

    html = explanation_page([explanation], "Title", "subtitle")

    [text] = numbers(html)["texts"]
    assert explanation.weights is not None
    assert explanation.pooled is not None
    rows = np.vstack([explanation.relative, explanation.pooled, explanation.weights])
    np.testing.assert_allclose(np.array(text["rows"]), rows, rtol=1e-3)
    assert probability(explanation.probability) in html
    assert signed(explanation.top(1)[0].contribution) in html


def test_predictions_are_marked_correct_or_wrong() -> None:
    explanation = make_explanation("a film")
    other = "bad" if explanation.predicted == "good" else "good"

    html = explanation_page([explanation] * 3, "T", truths=[explanation.predicted, other, None])

    assert html.count("✓ correct") == 1
    assert html.count(f"✗ labelled <bdi>{other}</bdi>") == 1


def test_many_classes_are_chosen_from_a_list_and_the_improbable_ones_left_out() -> None:
    labels = tuple(f"class {c}" for c in range(40))
    explanation = make_explanation("a film", labels=labels)

    html = explanation_page([explanation], "T")

    assert "<select" in html
    rows = numbers(html)["texts"][0]["rows"]
    assert len(rows) == 40 + 1 + 3
    assert sum(row is not None for row in rows[:40]) == 12
    assert rows[explanation.best] is not None


def test_texts_without_attention_or_words_or_at_all_are_shown() -> None:
    assert 'aria-label="Attention"' not in explanation_page(
        [make_explanation("a film", heads=None)], "T"
    )
    assert "The text is empty: its prediction" in explanation_page([make_explanation("")], "T")
    assert explanation_page([], "Nothing")


def test_a_long_text_says_how_many_words_were_left_out_together() -> None:
    long = replace(make_explanation("a film", heads=None), window=40)

    assert "leaving out 40 words at a time" in explanation_page([long], "T")


def test_a_page_of_test_texts_shows_their_labels_and_the_accuracy(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", labels=["no", "yes"])
    texts = pa.chunked_array([pa.array(["a good film", "a bad film"] * 30, pa.large_string())])
    test = Dataset(texts, pa.chunked_array([pa.array(["yes", "no"] * 30)]), "/data/films.csv")
    scores = score(["no", "yes"], np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]]))

    write_test_page(folder, test, scores.as_dict(), tmp_path / "page.html")

    html = (tmp_path / "page.html").read_text()
    assert "<title>films.csv: 40 test texts" in html
    assert "/data" not in html
    assert "The model labels 50.0 % (9.5 to 90.5 %) of 2 test texts correctly." in html
    marked = html.count("✓ correct") + html.count("✗ labelled")
    assert html.count("<article ") == marked
    assert "films.csv: 40 test texts and " in html
    assert 40 < marked <= 60


def test_a_text_with_several_labels_names_the_label_of_its_words() -> None:
    explanation = replace(
        make_explanation("a fine film", labels=("art", "film", "war")),
        probabilities=np.array([0.8, 0.3, 0.2], np.float32),
        thresholds=np.array([0.9, 0.1, 0.1], np.float32),
    )

    page = explanation_page([explanation], "Topics", truths=[["war", "film"]])

    assert "Colors: <bdi>words for and against film</bdi>" in page
    assert "✓ correct" in page
    assert "minus the mean" not in page
    for threshold, percent in (("0.9000", "90.0 %"), ("0.1000", "10.0 %")):
        assert f'<i class="threshold" style="--t:{threshold}" title="threshold {percent}">' in page
    assert "is its threshold: from there on the label is predicted" in page
    assert page.count('class="best"') == 2
    assert "for film" in page or "against film" in page
    assert "film: all words" in page
    assert "Blue words support <bdi>film</bdi>" in notebook_html(explanation)
    one_label = explanation_page([make_explanation("a film")], "Reviews")
    assert "minus the mean" in one_label
    assert 'class="threshold"' not in one_label
    assert "is its threshold" not in one_label


def test_the_order_of_several_labels_is_no_mistake(tmp_path: Path) -> None:
    folder = fitted().save(tmp_path / "model")
    texts, labels = topic_texts(120, seed=4)
    backwards = Dataset(
        pa.chunked_array([pa.array(texts, pa.large_string())]),
        pa.chunked_array([pa.array([row[::-1] for row in labels], pa.list_(pa.string()))]),
        "topics.jsonl",
    )
    scores, _ = score_saved_model(folder, backwards)

    write_test_page(folder, backwards, scores.as_dict(), tmp_path / "page.html")

    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert scores.accuracy == 1
    assert "further mistake" not in html
    assert "The model has a micro-F1 of 1.000 (0.969 to 1.000) on 120 test texts." in html


def test_a_text_whose_words_the_network_does_not_know_has_a_note() -> None:
    film = make_explanation("a film")
    assert film.weights is not None
    unknown = replace(film, weights=np.zeros_like(film.weights))

    assert "The network knows none of the words" in explanation_page([unknown], "T")
    assert "The network knows none of the words" not in explanation_page([film], "T")
