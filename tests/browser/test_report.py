"""The report as a person sees it: in chromium, at a desk and on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lamatext.evaluation import EvaluationData
from lamatext.views.report.report_page import write_report
from tests.corpora import reviews
from tests.fused import trained
from tests.test_report import BOARD, corpus

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    trained().save(folder / "model", metrics={"leaderboard": BOARD})
    texts, labels = reviews(40, seed=5)
    texts[0] = "<img src=https://example.org/x onerror=alert(1)> dull <script>alert(2)</script>"
    labels[0] = "pos"
    held = EvaluationData(corpus(texts, labels), corpus(*reviews(120)), "40 texts")
    write_report(folder / "model", held, folder / "page.html")
    return folder / "page.html"


class Visit:
    """A page, and whatever it should not do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture(params=["desk", "phone"])
def visit(request: pytest.FixtureRequest, report: Path, chromium: Browser) -> Iterator[Visit]:
    size = {"desk": (1200, 900), "phone": (375, 700)}[request.param]
    page = chromium.new_page(viewport={"width": size[0], "height": size[1]})
    visit = Visit(page)
    page.goto(report.as_uri())
    yield visit
    page.close()


def test_a_confusion_cell_opens_its_texts_and_closes_them(visit: Visit) -> None:
    page = visit.page
    cells = page.locator(".confusion a")
    assert cells.count() >= 2
    assert page.locator(".panel:visible").count() == 0

    wrong = page.locator(".confusion a[class^=miss]").first
    wrong.focus()
    page.keyboard.press("Enter")

    panel = page.locator(".panel:visible")
    assert panel.count() == 1
    assert "taken for" in panel.locator("h3").inner_text()
    assert panel.locator("mark").count() > 0
    panel.get_by_text("close").click()
    assert page.locator(".panel:visible").count() == 0


def test_hostile_texts_are_read_as_text(visit: Visit) -> None:
    page = visit.page

    assert page.get_by_text("<script>alert(2)</script>").count() > 0
    assert page.locator("img, script").count() == 0


def test_nothing_is_asked_for_and_nothing_goes_wrong(visit: Visit, report: Path) -> None:
    visit.page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")

    assert visit.said == []
    assert visit.asked == [report.as_uri()]


def test_the_page_is_never_wider_than_its_screen(visit: Visit) -> None:
    page = visit.page
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")

    ngrams = page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert ngrams <= 0


def test_the_styles_are_let_in_by_the_policy(visit: Visit) -> None:
    body = visit.page.locator("body")

    assert body.evaluate("body => getComputedStyle(body).maxWidth") == "928px"
