"""The pages of compare and tune by screenshot at two widths and in both colour schemes."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from lamatext.views.comparison_display import write_comparison_page
from tests.browser.page_checks import SCHEMES, WIDTHS, check_page, checked_page
from tests.test_comparison import made_up_comparison
from tests.views.test_tuning_page import write_page

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_comparison_page_fits_and_can_be_read(
    width: int, scheme: str, chromium: Browser, shots: Path
) -> None:
    file = shots / "comparison.html"
    write_comparison_page(made_up_comparison(), file)
    with checked_page(chromium, width, scheme) as page:
        page.goto(file.as_uri())

        expect(page.locator(".verdict-line").first).to_contain_text("lamatext is ahead of TF-IDF")
        expect(page.locator("#leaderboard svg.dots")).to_have_count(2)
        check_page(page, shots / f"comparison-{width}-{scheme}.png")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_tuning_page_fits_and_can_be_read(
    width: int, scheme: str, chromium: Browser, shots: Path
) -> None:
    write_page(shots)
    with checked_page(chromium, width, scheme) as page:
        page.goto((shots / "tuning.html").as_uri())

        expect(page.locator("svg.chart")).to_have_count(2)
        page.locator("summary").first.click()
        expect(page.locator("#trials .numbers")).to_have_count(8)
        check_page(page, shots / f"tuning-{width}-{scheme}.png")
