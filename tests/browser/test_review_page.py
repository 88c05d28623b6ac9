"""The page to review suspect labels in chromium: decisions, filters, keys and downloads."""

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset
from lamatext.data.suspects_file import leave_out_suspects
from lamatext.suspect_labels import find_suspects, suspect_rows
from lamatext.views import review_page
from lamatext.views.review_page import write_review_page
from tests.browser.conftest import Open
from tests.corpora import reviews

pytestmark = pytest.mark.browser
OPTIONS = ReadOptions(max_bad_rows=0.5, keep_lines=True)
HOSTILE = '<img src=x onerror=alert(1)> "quoted", </script> dull'
READY = "article.current"


def write_data(folder: Path, more: dict[int, str]) -> Path:
    """A CSV with flipped labels, a hostile text, a text of two lines, and a row without label."""
    texts, labels = reviews(80)
    for row in (12, 33, 50):
        labels[row] = {"neg": "pos", "pos": "neg"}[labels[row]]
    texts[33] = f"{HOSTILE} {texts[33]}"
    texts[12] = f"{texts[12]}\nand a second line"
    labels[40] = ""
    for row, label in more.items():
        labels[row] = label
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        rows = zip(range(80), texts, labels, strict=True)
        csv.writer(file).writerows([("id", "text", "label"), *rows])
    return folder / "reviews.csv"


def write_page(folder: Path, more: dict[int, str] | None = None) -> Path:
    data = load_dataset(str(write_data(folder, more or {})), OPTIONS)
    with find_suspects(data, partial_folder=folder / "partial") as search:
        write_review_page(search, data, suspect_rows(search, data), OPTIONS, folder / "review.html")
    return folder / "review.html"


@pytest.fixture(scope="module")
def review(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("review"))


def card(page: Page, text: str) -> Locator:
    return page.locator("article").filter(has_text=text)


def download(page: Page, name: str) -> tuple[str, str]:
    """Click a download button; return the name and the content of the file."""
    with page.expect_download() as started:
        page.locator(f"#{name}").click()
    saved = started.value
    return saved.suggested_filename, Path(saved.path()).read_text(encoding="utf-8")


def test_the_corrected_data_has_new_labels_and_lacks_removed_texts(
    review: Path, open_page: Open
) -> None:
    page = open_page(review.as_uri(), wait_for=READY)
    card(page, "onerror").get_by_role("button", name="Relabel as").click()
    card(page, "second line").get_by_role("button", name="Remove").click()
    counter = page.locator("output").inner_text()
    name, content = download(page, "corrected")

    with (review.parent / "reviews.csv").open(encoding="utf-8", newline="") as file:
        expected = list(csv.reader(file))
    expected[34][2] = {"neg": "pos", "pos": "neg"}[expected[34][2]]
    del expected[13]
    assert name == "reviews-corrected.csv"
    assert list(csv.reader(io.StringIO(content, newline=""))) == expected
    assert ": 1 relabelled, 1 removed" in counter


@pytest.mark.parametrize(
    ("encoding", "separator", "name"),
    [("cp1252", ";", "a.csv"), ("utf-16", "\t", "a.tsv"), ("utf-8-sig", ",", "a.csv")],
)
def test_the_corrected_data_has_the_encoding_and_separator_of_the_data(
    encoding: str, separator: str, name: str, open_page: Open, tmp_path: Path
) -> None:
    texts, labels = reviews(40)
    labels[5] = {"neg": "pos", "pos": "neg"}[labels[5]]
    rows = [
        ("id", "text", "label"),
        *zip(range(40), (f"{t} – 5 €; ü" for t in texts), labels, strict=True),
    ]
    with (tmp_path / name).open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    data = load_dataset(str(tmp_path / name), OPTIONS)
    with find_suspects(data, partial_folder=tmp_path / "partial") as search:
        out = tmp_path / "review.html"
        write_review_page(search, data, suspect_rows(search, data), OPTIONS, out)

    page = open_page(out.as_uri(), wait_for=READY)
    with page.expect_download() as started:
        page.locator(".save [data-download=corrected]").click()

    assert started.value.suggested_filename == name.replace(".", "-corrected.")
    assert Path(started.value.path()).read_bytes() == (tmp_path / name).read_bytes()


def test_the_bar_of_a_phone_has_the_downloads_and_leaves_most_of_the_screen(
    review: Path, open_page: Open, shots: Path
) -> None:
    page = open_page(review.as_uri(), phone=True, wait_for=READY)

    buttons = page.locator(".save button")
    box = page.locator(".filters").bounding_box()
    page.screenshot(path=shots / "review-phone.png")
    assert buttons.count() == 2
    assert all(buttons.nth(n).is_visible() for n in range(2))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert box is not None
    assert box["height"] < 844 / 6


def test_the_removed_texts_are_a_list_for_training_without_them(
    review: Path, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(review.as_uri(), wait_for=READY)
    card(page, "second line").get_by_role("button", name="Remove").click()
    name, content = download(page, "removed")
    (tmp_path / name).write_text(content, encoding="utf-8")

    data = load_dataset(str(review.parent / "reviews.csv"), OPTIONS)
    rest = leave_out_suspects(data, tmp_path / name)
    assert len(rest) == len(data) - 1
    assert not any("second line" in text for text in rest.texts.to_pylist())


def test_keys_decide_undo_and_go_on_to_the_next_undecided_text(
    review: Path, open_page: Open
) -> None:
    page = open_page(review.as_uri(), wait_for=READY)
    decisions = "all => all.map(article => article.dataset.decision ?? '')"
    articles = page.locator("article")
    for key in "krx":
        page.keyboard.press(key)
    decided = articles.evaluate_all(decisions)
    page.keyboard.press("p")
    page.keyboard.press("u")
    undone = articles.evaluate_all(decisions)
    page.reload()
    page.wait_for_selector(READY)
    reloaded = articles.evaluate_all(decisions)

    assert decided[:3] == ["keep", "relabel", "remove"]
    assert undone.count("") == decided.count("") + 1
    assert reloaded == undone


def test_cards_are_filtered_by_class_and_by_decision(review: Path, open_page: Open) -> None:
    page = open_page(review.as_uri(), wait_for=READY)
    everything = page.locator("article:visible").count()
    page.keyboard.press("k")
    page.get_by_text("decided", exact=True).click()
    decided = page.locator("article:visible").count()
    page.get_by_text("undecided", exact=True).click()
    undecided = page.locator("article:visible").count()
    page.locator("[name=class]").select_option("pos")
    shown = page.locator("article:visible").evaluate_all(
        "all => all.map(article => [article.dataset.label, article.dataset.suggestion])"
    )

    assert (decided, undecided) == (1, everything - 1)
    assert all("pos" in pair for pair in shown)


def test_another_label_than_the_suggested_one_can_be_chosen(
    open_page: Open, tmp_path: Path
) -> None:
    page = open_page(write_page(tmp_path, {20: "other", 21: "other"}).as_uri(), wait_for=READY)
    select = card(page, "second line").locator("select")
    select.focus()
    select.select_option("other")
    _, content = download(page, "corrected")

    corrected = {row[0]: row[2] for row in csv.reader(io.StringIO(content, newline=""))}
    assert corrected["12"] == "other"


def test_large_data_is_not_in_the_page(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_page, "MAX_CHARACTERS", 100)

    page = open_page(write_page(tmp_path).as_uri(), wait_for=READY)

    assert page.locator("#corrected").count() == 0
    assert "this page does not hold it" in page.locator(".downloads").inner_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_the_review_page_fits_the_screen(
    review: Path, open_page: Open, shots: Path, *, phone: bool, dark: bool
) -> None:
    page = open_page(review.as_uri(), phone=phone, dark=dark, wait_for=READY)
    page.keyboard.press("r")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=shots / f"review-{phone}-{dark}.png", full_page=True)

    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
