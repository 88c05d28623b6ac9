"""The web page in a browser, on a server and exported as one HTML file."""

from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from lamatext import Predictor
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.views.formatting import NGRAMS_ALONE, parted, probability, summed
from lamatext.views.web_export import export_web
from tests.browser.conftest import Open, serve
from tests.serve.saved import save, validation_facts

pytestmark = pytest.mark.browser

TEXT = "A good film, not dull: the café is wonderful! 👍🏽 東京"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</textarea></p><svg/onload=alert(1)>",
    "&lt;b&gt; \" ' ` ${alert(1)} {{7*7}}",
    "javascript:alert(1) \u202e txet \x00 \u2028",
]


@pytest.fixture(params=["server", "web_page"])
def address(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(request.param)
    return address


def type_text(page: Page, text: str, place: int = 1) -> None:
    page.fill(f"#text-{place}", text)
    page.wait_for_function(
        "([text, place]) => document.querySelectorAll('.text')[place - 1]?.textContent === text",
        arg=[text, place],
    )


def open_details(page: Page) -> None:
    page.locator("#details summary").click()


def shading(page: Page) -> list[str]:
    shades: list[str] = page.eval_on_selector_all(
        ".w", "words => words.map(word => word.dataset.k + word.style.getPropertyValue('--s'))"
    )
    return shades


def test_typing_shows_the_prediction_of_python(
    address: str, open_page: Open, model: Path, shots: Path
) -> None:
    page = open_page(address)
    expect(page.locator("#about-ngrams")).to_be_hidden()
    expected = Predictor.load(model).explain(TEXT)

    type_text(page, TEXT)

    expect(page.locator(".predicted")).to_have_text(str(expected.predicted))
    expect(page.locator(".probability")).to_have_text(probability(expected.probability))
    bars = page.locator(".bars .value").all_inner_texts()
    assert [float(bar.rstrip(" %")) for bar in bars] == pytest.approx(
        100 * expected.probabilities, abs=0.06
    )
    assert page.locator(".text .w").all_inner_texts() == [word for word in expected.words if word]
    page.screenshot(path=shots / f"{address.split(':')[0]}-typed.png", full_page=True)


def test_every_keystroke_updates_the_prediction(address: str, open_page: Open) -> None:
    page = open_page(address)
    seen = set()

    page.locator("#text-1").focus()
    for key in "a good film":
        page.keyboard.type(key)
        page.wait_for_timeout(40)
        seen.add(page.locator(".bars").inner_text())

    assert len(seen) >= 3


def test_choosing_an_attention_head_changes_the_colors(
    address: str, open_page: Open, shots: Path
) -> None:
    page = open_page(address)
    type_text(page, TEXT)
    by_contribution = shading(page)

    open_details(page)
    page.get_by_label("mean", exact=True).press("Space")
    by_mean = shading(page)
    page.get_by_label("2", exact=True).press("Space")
    by_head = shading(page)

    assert all(word.startswith("a") for word in by_mean + by_head)
    assert len({tuple(by_contribution), tuple(by_mean), tuple(by_head)}) == 3
    page.screenshot(path=shots / f"{address.split(':')[0]}-head.png", full_page=True)


def test_choosing_a_part_of_the_model_shows_its_contributions(
    address: str, open_page: Open, model: Path, shots: Path
) -> None:
    page = open_page(address)
    type_text(page, TEXT)
    explanation = Predictor.load(model).explain(TEXT)
    best, t = explanation.best, explanation.words.index("wonderful")
    own = {name: float(part[best, t]) for name, part in explanation.relative_parts.items()}
    seen = [shading(page)]
    open_details(page)

    for name in ("network", "n-grams"):
        page.get_by_label(name, exact=True).press("Space")
        seen.append(shading(page))
    page.click(".w:text-is('wonderful')")

    expect(page.locator(".figures")).to_contain_text(f"({parted(own)})")
    expect(page.locator(".sums")).to_have_text(summed(explanation, best))
    assert len(set(map(tuple, seen))) == 3
    page.screenshot(path=shots / f"{address.split(':')[0]}-part.png", full_page=True)
    page.get_by_label("bad", exact=True).press("Space")
    expect(page.locator(".sums")).to_have_text(summed(explanation, 0))
    page.click("#share")
    again = open_page(page.url)
    expect(again.get_by_label("n-grams", exact=True)).to_be_checked()


def test_clicking_a_word_shows_the_prediction_without_it(
    address: str, open_page: Open, model: Path
) -> None:
    page = open_page(address)
    type_text(page, TEXT)
    predictor = Predictor.load(model)
    best = int(predictor.predict_proba([TEXT])[0].argmax())
    without = predictor.predict_proba([TEXT.replace("wonderful", " ")])[0][best]

    page.click(".w:text-is('wonderful')")

    expect(page.locator(".figures")).to_contain_text("Without wonderful")
    expect(page.locator(".figures")).to_contain_text(f"→ {probability(without)}")
    page.click(".w:text-is('wonderful')")
    expect(page.locator(".figures")).to_contain_text("Click a word")


def test_words_can_be_selected_with_the_keyboard(address: str, open_page: Open) -> None:
    page = open_page(address)
    page.keyboard.press("Tab")
    page.locator("#text-1").focus()
    page.keyboard.type("a good film")
    page.wait_for_selector(".w:text-is('film')")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "text"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")

    expect(page.locator(".figures")).to_contain_text("Without good")
    page.keyboard.press("Escape")
    expect(page.locator(".figures")).to_contain_text("Click a word")


def test_the_class_is_announced_to_screen_readers(address: str, open_page: Open) -> None:
    page = open_page(address)

    type_text(page, "a good film")

    expect(page.locator("#announcement")).to_contain_text("percent")


def test_two_texts_can_be_compared_side_by_side(address: str, open_page: Open, shots: Path) -> None:
    page = open_page(address)
    type_text(page, "a good film")

    page.get_by_role("button", name="Compare two texts").click()
    type_text(page, "a dull mess", place=2)

    left, right = (panel.bounding_box() for panel in page.locator(".panel").all())
    assert left is not None
    assert right is not None
    assert right["x"] > left["x"] + left["width"]
    assert page.locator(".predicted").count() == 2
    page.screenshot(path=shots / f"{address.split(':')[0]}-two.png", full_page=True)


def test_two_models_can_be_compared_on_one_text(server: str, open_page: Open, shots: Path) -> None:
    page = open_page(server)
    type_text(page, "a good film")

    page.get_by_role("button", name="Compare two models").click()
    page.wait_for_function("() => document.querySelectorAll('.result:not([hidden])').length === 2")
    page.fill("#text-2", "a dull mess")

    expect(page.locator("#text-1")).to_have_value("a dull mess")
    expect(page.locator("#title")).to_have_text("reviews · plain")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.text')]"
        ".every(text => text.textContent === 'a dull mess')"
    )
    page.screenshot(path=shots / "models.png", full_page=True)


def test_a_shared_link_restores_texts_and_view(address: str, open_page: Open) -> None:
    page = open_page(address)
    type_text(page, TEXT)
    page.get_by_role("button", name="Compare two texts").click()
    type_text(page, "100% & #more=+", place=2)
    open_details(page)
    page.get_by_label("3", exact=True).press("Space")

    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Link copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page(link)

    assert link == page.url
    expect(other.locator("#text-1")).to_have_value(TEXT)
    expect(other.locator("#text-2")).to_have_value("100% & #more=+")
    expect(other.get_by_label("3", exact=True)).to_be_checked()


@pytest.mark.parametrize("text", HOSTILE)
def test_html_in_a_text_is_shown_as_text(address: str, open_page: Open, text: str) -> None:
    page = open_page(f"{address}#text={quote(text)}")
    expect(page.locator("#text-1")).to_have_value(text)

    for word in page.locator(".w").all()[:6]:
        word.click()

    assert page.locator(".text").text_content() == text
    assert page.locator(".text *:not(.w)").count() == 0
    assert page.locator("img, svg, iframe").count() == 0
    assert page.locator("script").count() == (1 if address.startswith("http") else 4)


def test_html_in_a_label_is_shown_as_text(address: str, open_page: Open) -> None:
    page = open_page(address)

    type_text(page, "a good film")

    assert "<b>so</b>" in page.locator(".bars .name").all_inner_texts()
    assert page.locator(".bars b, .views b b").count() == 0


def test_an_empty_text_has_no_prediction(address: str, open_page: Open) -> None:
    page = open_page(address)
    type_text(page, "a good film")

    page.fill("#text-1", "  \n ")

    expect(page.locator(".predicted")).to_have_text("–")
    assert set(page.locator(".bars .value").all_inner_texts()) == {"–"}
    expect(page.locator(".text")).to_be_empty()
    for place in (".text", ".figures"):
        expect(page.locator(place)).to_be_hidden()
    type_text(page, "a good film")
    expect(page.locator(".text")).to_be_visible()


def test_the_page_fits_the_width_of_a_phone(address: str, open_page: Open, shots: Path) -> None:
    page = open_page(address, phone=True)
    type_text(page, f"{TEXT} {'long' * 60}")

    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=shots / f"{address.split(':')[0]}-phone.png", full_page=True)


def test_the_page_follows_the_dark_color_scheme(address: str, open_page: Open, shots: Path) -> None:
    page = open_page(address, dark=True)
    type_text(page, TEXT)

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 19, 22)"
    page.screenshot(path=shots / f"{address.split(':')[0]}-dark.png", full_page=True)


def test_a_long_text_without_attention_is_explained_after_typing_stops(
    server: str, open_page: Open
) -> None:
    page = open_page(f"{server}#model=plain")

    type_text(page, "a good film , not dull ! " * 30)
    type_text(page, "a dull mess " * 60)

    expect(page.locator(".note")).to_have_text("")
    assert page.locator(".by-head").count() == 0


def test_a_model_without_javascript_implementation_runs_on_the_server(
    tmp_path: Path, open_page: Open
) -> None:
    folder = save(tmp_path / "te", "te", heads=2, transformer_positions=64, text={"max_words": 64})
    expected = Predictor.load(folder).explain(TEXT)
    server = serve(create_app(load_models([folder])))

    page = open_page(next(server))
    type_text(page, TEXT)
    page.click(".w:text-is('wonderful')")

    expect(page.locator(".predicted")).to_have_text(str(expected.predicted))
    expect(page.locator(".figures")).to_contain_text("Without wonderful")
    expect(page.locator("#privacy")).to_contain_text("sent to the server")
    next(server, None)


@pytest.mark.parametrize("name", ["lama-ctx", "te"])  # in the browser and on the server
def test_the_page_of_a_model_that_decides_by_ngrams_alone_says_so_and_shows_no_attention(
    name: str, tmp_path: Path, open_page: Open
) -> None:
    sizes: dict[str, Any] = {"heads": 2, "transformer_positions": 64, "text": {"max_words": 64}}
    folder = save(tmp_path / name, name, ngrams=True, network_weight=0, **sizes)
    expected = Predictor.load(folder).explain(TEXT)
    server = serve(create_app(load_models([folder])))

    page = open_page(next(server))
    type_text(page, TEXT)
    open_details(page)

    expect(page.locator("#about-ngrams")).to_have_text(NGRAMS_ALONE)
    expect(page.locator("#details-title")).to_have_text("Details")
    for place in (".by-head", ".by-part"):
        assert page.locator(place).count() == 0
    for place in ("#about-attention", "#about-parts"):
        expect(page.locator(place)).to_be_hidden()
    expect(page.locator(".sums")).to_have_text(summed(expected, expected.best))
    next(server, None)


def test_the_page_asks_for_the_api_key(model: Path, chromium: Browser) -> None:
    server = serve(create_app(load_models([model]), api_key="secret"))
    page = chromium.new_page()
    page.goto(next(server))

    page.fill("#secret", "wrong")
    page.get_by_role("button", name="Continue").click()
    page.fill("#secret", "secret")
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector("#actions:not([hidden])")
    type_text(page, TEXT)

    expect(page.locator(".predicted")).not_to_be_empty()
    page.close()
    next(server, None)


def test_many_classes_keep_their_rows_while_a_text_is_typed(
    tmp_path: Path, open_page: Open
) -> None:
    folder = save(tmp_path / "many", labels=[f"class {number:02}" for number in range(30)])
    page = open_page(export_web(folder, tmp_path / "many.html").file.as_uri())
    rows = "[...document.querySelectorAll('.bars li')].map(row => row.dataset.class)"
    seen = []
    for text in ("a good film", "a good film , not", "a good film , not dull", "the mess"):
        type_text(page, text)
        seen.append(page.evaluate(rows))

    assert all(len(set(classes)) == 8 for classes in seen)
    assert len(set(map(tuple, seen))) > 1
    for before, after in pairwise(seen):
        kept = set(before) & set(after)
        assert all(before.index(one) == after.index(one) for one in kept)


@pytest.mark.parametrize("on_server", [True, False], ids=["remote model", "exported page"])
def test_an_unsure_text_and_an_outlier_are_named(
    on_server: bool, open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = save(tmp_path / "strict", ngrams=True, facts=validation_facts(threshold=1.0))
    if on_server:
        monkeypatch.setattr("lamatext.serve.registry.runs_in_page", lambda _: False)
        addresses = serve(create_app(load_models([strict])))
        page = open_page(next(addresses))
    else:
        addresses = iter(())
        file = export_web(strict, tmp_path / "strict.html", storage="float32").file
        page = open_page(file.as_uri())
    type_text(page, "quux zonk")

    expect(page.locator(".predicted")).to_have_text("unsure")
    expect(page.locator(".probability")).to_contain_text("perhaps ")
    expect(page.locator(".note")).to_contain_text("Unusual text: more unusual than ")
    for _ in addresses:
        pass


def test_a_model_that_cannot_be_loaded_is_named_instead_of_the_old_score(
    chromium: Browser, server: str
) -> None:
    page = chromium.new_page()
    page.goto(server)
    page.wait_for_selector("#actions:not([hidden])")
    page.route("**/models/plain", lambda route: route.fulfill(status=503, json={"detail": "gone"}))

    page.locator("select.model").select_option("plain")

    expect(page.locator("#message")).to_have_text("gone")
    page.close()
