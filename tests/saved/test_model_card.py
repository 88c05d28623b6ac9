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
