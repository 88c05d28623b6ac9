"""The report in chromium, at the size of a desktop and of a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


class Visit:
    """An open page with its console messages, errors, dialogs and requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: self.messages.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture(params=["desk", "phone"])
def visit(request: pytest.FixtureRequest, report_file: Path, chromium: Browser) -> Iterator[Visit]:
    size = {"desk": (1200, 900), "phone": (375, 700)}[request.param]
    page = chromium.new_page(viewport={"width": size[0], "height": size[1]})
    visit = Visit(page)
    page.goto(report_file.as_uri())
    yield visit
    page.close()


def test_a_confusion_cell_opens_and_closes_its_examples(visit: Visit) -> None:
    page = visit.page
    cells = page.locator(".confusion a")
    assert cells.count() >= 2
    assert page.locator(".panel:visible").count() == 0

    wrong = page.locator(".confusion a[class^=miss]").first
    wrong.focus()
    page.keyboard.press("Enter")

    panel = page.locator(".panel:visible")
    assert panel.count() == 1
    assert "predicted as" in panel.locator("h3").inner_text()
    assert panel.locator("mark").count() > 0
    panel.get_by_text("close").click()
    assert page.locator(".panel:visible").count() == 0


def test_hostile_texts_are_shown_as_text(visit: Visit) -> None:
    page = visit.page

    assert page.get_by_text("<script>alert(2)</script>").count() > 0
    assert page.locator("img, script").count() == 0


def test_the_page_sends_no_request_and_has_no_error(visit: Visit, report_file: Path) -> None:
    visit.page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")

    assert visit.messages == []
    assert visit.requests == [report_file.as_uri()]


def test_the_page_is_not_wider_than_the_screen(visit: Visit) -> None:
    page = visit.page
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")

    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert overflow <= 0


def test_the_policy_allows_the_style_sheet(visit: Visit) -> None:
    body = visit.page.locator("body")

    assert body.evaluate("body => getComputedStyle(body).maxWidth") == "928px"
