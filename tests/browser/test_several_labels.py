"""The page of a model that gives a text several labels, on a server and as one file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from lamatext import Predictor
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.views.web_export import export_web
from tests.browser.conftest import serve
from tests.test_multi_label import LABELS, TEXTS, classifier, fitted

pytestmark = pytest.mark.browser

TEXT = "the actor is in the kitchen"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted().save(tmp_path_factory.mktemp("models") / "topics")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    yield from serve(create_app(load_models([folder])))


@pytest.fixture(params=["server", "file"])
def address(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> str:
    if request.param == "file":
        return export_web(folder, tmp_path / "topics.html", storage="float32").file.as_uri()
    address: str = request.getfixturevalue("server")
    return address


def test_the_page_shows_a_bar_with_a_threshold_for_each_label(
    address: str, folder: Path, open_page: Callable[..., Page]
) -> None:
    page = open_page(address)

    page.locator("textarea").first.fill(TEXT)

    expect(page.locator(".predicted").first).to_have_text("film, food")
    assert page.locator(".bars li").count() == 4
    assert page.locator(".bars .threshold").count() == 4
    expect(page.locator("#about-thresholds")).to_be_visible()
    assert page.locator(".bars li.best .name").all_inner_texts() == ["film", "food"]
    shown = page.locator(".bars .value").all_inner_texts()
    expected = Predictor.load(folder).predict_proba([TEXT])[0]
    assert [float(value.strip("<> %")) for value in shown] == pytest.approx(
        (100 * expected).tolist(), abs=0.11
    )


def test_every_one_of_a_dozen_labels_has_a_bar(
    tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    labels = [[f"{label} {n}" for label in found for n in range(3)] for found in LABELS]
    many = classifier().fit(TEXTS, labels).save(tmp_path / "many")
    page = open_page(export_web(many, tmp_path / "many.html").file.as_uri())

    assert page.locator(".bars li").count() == 12
    page.locator("textarea").first.fill(TEXT)

    expect(page.locator(".bars li.best")).not_to_have_count(0)
    assert page.locator(".bars li").count() == 12
    assert page.locator(".bars .threshold").count() == 12


def test_a_text_without_labels_says_so(address: str, open_page: Callable[..., Page]) -> None:
    page = open_page(address)

    page.locator("textarea").first.fill("two people in a town")

    expect(page.locator(".predicted").first).to_have_text("no label")


def test_the_words_are_listed_for_labels_that_are_named(
    address: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(address)

    page.locator("textarea").first.fill(TEXT)
    expect(page.locator(".predicted").first).to_have_text("film, food")

    titles = page.locator(".why dt").all_inner_texts()
    colors = page.locator(".shaded").first.inner_text()
    assert sorted(titles) == ["against film", "against food", "for film", "for food"]
    assert colors == f"Colors: words {titles[0].replace('for', 'for and against')}"


def test_another_label_can_be_explained(address: str, open_page: Callable[..., Page]) -> None:
    page = open_page(address)
    page.locator("textarea").first.fill(TEXT)
    expect(page.locator(".predicted").first).to_have_text("film, food")

    page.locator("#details summary").click()
    page.get_by_label("war", exact=True).press("Space")

    assert page.locator(".why dt").all_inner_texts() == ["for war", "against war"]
    expect(page.locator(".shaded").first).to_have_text("Colors: words for and against war")
    assert page.locator(".sums").first.inner_text().startswith("war: all words")
    assert "minus the mean" not in page.locator("#details").inner_text()
    page.locator(".w").nth(1).click()
    expect(page.locator(".figures").first).to_contain_text("Without actor: war")
