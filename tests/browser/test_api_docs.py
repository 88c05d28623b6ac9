"""The API documentation page in chromium: it sends requests and loads nothing from elsewhere."""

from pathlib import Path

import pytest

from tests.browser.conftest import Open

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("phone", [False, True])
def test_the_documentation_sends_a_request_and_shows_the_answer(
    phone: bool, open_page: Open, server: str, shots: Path
) -> None:
    page = open_page(f"{server}docs", phone=phone, dark=phone, wait_for="form.try")
    form = page.locator('form[data-path="/predict"]')

    form.get_by_role("button", name="all options").click()
    assert '"top_k": 2' in form.locator("textarea").input_value()
    form.get_by_role("button", name="Send").click()
    answer = form.locator(".answer", has_text='"hash"')
    answer.wait_for()

    assert answer.inner_text().startswith("200 OK")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    page.screenshot(path=shots / f"docs-{'phone' if phone else 'wide'}.png", full_page=True)
