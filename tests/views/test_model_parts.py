"""Views of a model with a network and n-grams: every view shows the share of each part."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from lamatext.runtime.predictor import Predictor
from lamatext.views.explanation_page import explanation_page
from lamatext.views.formatting import NGRAMS_ALONE, parted, signed, summed
from lamatext.views.notebook import notebook_html
from lamatext.views.terminal_explanation import show_explanation
from tests.serve.saved import save
from tests.trained_model import predictor

TEXTS = [
    "A wonderful film, never DULL: two people xyzzy 👍🏽",
    "boring " * 600,
    "nothing-known-here-qqq",
    "",
    " \n",
]

TRANSFORMER: dict[str, Any] = {"heads": 2, "transformer_positions": 256, "text": {"max_words": 256}}


@pytest.mark.parametrize("text", TEXTS)
def test_network_ngrams_and_base_add_up_to_the_logits(text: str) -> None:
    model = predictor()

    explanation = model.explain(text)

    assert explanation.parts is not None
    both = explanation.parts["network"] + explanation.parts["n-grams"]
    words = model.encoder.tokenizer.words(text)  # type: ignore[attr-defined]
    logits = model.logits_of_words([words])[0]
    np.testing.assert_allclose(both.sum(axis=1) + explanation.base, logits, atol=1e-4)
    np.testing.assert_allclose(both, explanation.contributions, atol=1e-6)
    np.testing.assert_allclose(explanation.probabilities, model.predict_proba([text])[0], atol=1e-5)


def test_a_word_that_the_network_did_not_read_has_neither_weight_nor_network_contribution() -> None:
    explanation = predictor().explain("a wonderful xyzzy film")

    assert explanation.words == ["a", "wonderful", "xyzzy", "film"]
    assert explanation.parts is not None
    assert explanation.weights is not None
    assert not explanation.weights[:, 2].any()
    assert not explanation.parts["network"][:, 2].any()
    np.testing.assert_allclose(explanation.weights.sum(axis=1), 1, atol=1e-5)


def test_shares_add_up_to_the_contribution_of_all_words() -> None:
    explanation = predictor().explain(TEXTS[0])

    for column, label in enumerate(explanation.labels):
        total = float(explanation.relative[column].sum())
        assert sum(explanation.shares(label).values()) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_the_numbers_that_are_shown_add_up_to_the_logit(text: str) -> None:
    explanation = predictor().explain(text)
    relative = explanation.logits - explanation.logits.mean()

    for column in range(len(explanation.labels)):
        found = re.findall(r"[+−]\d+\.\d{2}", summed(explanation, column))
        words, grams, network, rest, score = (float(one.replace("−", "-")) for one in found)
        assert grams + network == pytest.approx(words, abs=0.021)
        assert words + rest == pytest.approx(score, abs=0.021)
        assert score == pytest.approx(float(relative[column]), abs=0.01)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_terminal_shows_the_share_of_each_part(terminal: bool) -> None:
    explanation = predictor().explain(TEXTS[0])
    file = io.StringIO()

    show_explanation(
        explanation,
        Console(file=file, force_terminal=terminal, width=200, color_system=None),
        heads=True,
    )

    assert f"({parted(explanation.shares())})" in file.getvalue()
    assert summed(explanation, explanation.best) in file.getvalue()


def test_page_notebook_and_json_hold_the_same_shares() -> None:
    explanation = predictor().explain(TEXTS[0])
    shares = parted(explanation.shares())

    html = explanation_page([explanation], "Why")

    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', html)
    assert found
    numbers = json.loads(found[1])["texts"][0]
    assert shares in html
    assert shares in notebook_html(explanation)
    assert summed(explanation, explanation.best) in html
    assert numbers["sums"] == [summed(explanation, c) for c in range(len(explanation.labels))]
    assert 'name="part" value="-1" checked' in html
    as_dict = json.loads(explanation.to_json())
    assert list(as_dict["parts"]) == ["network", "n-grams"]
    for number, name in enumerate(as_dict["parts"]):
        part = np.array(as_dict["parts"][name])
        np.testing.assert_allclose(numbers["parts"][number], part - part.mean(axis=0), atol=1e-3)


def test_a_model_of_one_part_has_no_switch() -> None:
    from tests.explain.models import make_explanation

    explanation = make_explanation("a b c")

    assert 'name="part"' not in explanation_page([explanation], "Why")
    assert explanation.shares() == {}
    assert "network" not in notebook_html(explanation)
    assert "; constant " in notebook_html(explanation)
    assert signed(0.5) == "+0.50"


@pytest.mark.parametrize("name", ["lama-ctx", "bigru", "te"])
def test_a_network_with_weight_0_is_in_no_view(tmp_path: Path, name: str) -> None:
    sizes = TRANSFORMER if name == "te" else {}
    model = Predictor.load(save(tmp_path / "model", name, ngrams=True, network_weight=0, **sizes))
    file = io.StringIO()

    explanation = model.explain("a good film")

    assert not model.uses_network
    assert explanation.weights is None
    assert explanation.parts is None
    assert explanation.method == "contribution"
    total = explanation.contributions.sum(axis=1) + explanation.base
    np.testing.assert_allclose(model.probabilities(total[None])[0], explanation.probabilities)
    np.testing.assert_allclose(explanation.probabilities, model.predict_proba(["a good film"])[0],
                               atol=1e-6)  # fmt: skip
    show_explanation(explanation, Console(file=file, width=200), heads=True)
    assert file.getvalue().endswith(f"\n{NGRAMS_ALONE}\n")
    html = explanation_page([explanation], "Why")
    assert html.count(NGRAMS_ALONE) == 1
    assert 'class="row by-head"' not in html
    assert 'name="part"' not in html
    assert "ttention" not in notebook_html(explanation)


@pytest.mark.parametrize("text", TEXTS)
def test_every_view_accepts_unusual_texts(text: str) -> None:
    explanation = predictor().explain(text)

    explanation_page([explanation], "Why")
    notebook_html(explanation)
    show_explanation(explanation, Console(file=io.StringIO(), force_terminal=True), heads=True)
