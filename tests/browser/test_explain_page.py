"""The page of explanations in chromium: a switch for each part of the model."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lamatext.views.explanation_page import explanation_page
from lamatext.views.formatting import summed
from tests.trained_model import predictor

pytestmark = pytest.mark.browser


def strengths(tab: Page) -> list[float]:
    """The signed shade of each word."""
    found: list[float] = tab.locator(".w").evaluate_all(
        "all => all.map(w => (w.dataset.k === 'n' ? -1 : 1) * w.style.getPropertyValue('--s'))"
    )
    return found


def test_the_parts_of_the_model_are_shaded_one_by_one_and_add_up(
    tmp_path: Path, chromium: Browser
) -> None:
    explanation = predictor().explain("a wonderful film, a superb story of two people")
    (tmp_path / "why.html").write_text(explanation_page([explanation], "Why"), encoding="utf-8")
    messages: list[str] = []

    tab = chromium.new_page()
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.goto((tmp_path / "why.html").as_uri())
    both = strengths(tab)
    tab.get_by_text("Details and attention").click()
    shown = []
    for name in ("network", "n-grams"):
        tab.get_by_text(name, exact=True).first.click()
        shown.append(strengths(tab))
    tab.locator(".w").nth(1).click()
    figures = tab.locator(".figures").inner_text()
    other = tab.locator("[data-class]").nth(1 - explanation.best)
    sums_of_best = tab.locator(".sums").inner_text()
    other.click()
    sums_of_other = tab.locator(".sums").inner_text()
    tab.get_by_text("predicted", exact=True).click()
    tab.get_by_text("all", exact=True).click()
    again = strengths(tab)
    tab.close()

    assert messages == []
    assert again == both
    assert shown[0] != both
    for whole, network, grams in zip(both, *shown, strict=True):
        # A full shade may stand for more.
        assert 1 in (abs(network), abs(grams)) or network + grams == pytest.approx(whole, abs=0.003)
    assert "(network " in figures
    assert "n-grams " in figures
    assert sums_of_best == summed(explanation, explanation.best)
    assert sums_of_other == summed(explanation, 1 - explanation.best)
