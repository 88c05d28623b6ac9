"""The model card shows labels literally, whatever characters they contain."""

from typing import Any

import pytest
from markdown_it import MarkdownIt

from lamatext.recipes import load_recipe
from lamatext.saved.model_card import model_card

LABELS = [
    "plain",
    "pos & <b>good</b>",
    "a`b",
    "``",
    "_x_ *y* #z [l](m)",
    "<script>alert(1)</script>",
]


@pytest.fixture
def config() -> dict[str, Any]:
    recipe = load_recipe("default").model_dump()
    return {"recipe": recipe, "lamatext": "0", "labels": LABELS, "data": {"source": "texts.csv"}}


def test_labels_are_shown_literally(config: dict[str, Any]) -> None:
    card = model_card(config, {})

    parsed = MarkdownIt().parse(card)
    shown = [
        part.content
        for token in parsed
        for part in token.children or []
        if part.type == "code_inline"
    ]
    assert shown[1 : 1 + len(LABELS)] == LABELS
    assert "<script>" not in MarkdownIt().render(card)


def test_scores_are_a_table_with_one_row_per_model(config: dict[str, Any]) -> None:
    row = {"model": "lamatext", "accuracy": 0.91234, "macro_f1": 0.9, "bytes": 2_500_000}
    baseline = {**row, "model": "fastText", "accuracy": 0.5}
    leaderboard = [{**scores, "texts_per_second": 1234.5} for scores in (row, baseline)]

    card = model_card(config, {"leaderboard": leaderboard})

    assert "| lamatext | 0.9123 | 0.9000 | 2.5 MB | 1,234 |" in card
    assert "| fastText | 0.5000 |" in card


def test_examples_are_shown_literally_with_their_labels(config: dict[str, Any]) -> None:
    card = model_card(config, {"examples": [{"text": "<b>a</b> *film*\n# x", "label": "a`b"}]})

    assert "<li>&lt;b&gt;a&lt;/b&gt; *film* # x (<code>a`b</code>)</li>" in html_of(card)


def html_of(card: str) -> str:
    html: str = MarkdownIt().render(card)
    return html.replace("&#60;", "&lt;").replace("&#62;", "&gt;")
