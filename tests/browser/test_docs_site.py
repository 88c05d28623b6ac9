"""The built documentation site opens from disk, fits a phone and makes no external request."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in strict mode."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", ["index", "train", "performance", "reference"])
def test_a_page_opens_from_disk_without_external_requests(
    name: str, width: int, site: Path, chromium: Browser, shots: Path
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    requests: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request.url))

    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_selector("article h1")
    page.wait_for_timeout(500)  # late requests of scripts
    page.screenshot(path=shots / f"docs-{name}-{width}.png", full_page=name != "reference")

    assert len(requests) > 2  # the page, its style sheet, its script
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert [url for url in failed if "search" not in url] == []  # search needs a web server
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert page.evaluate(broken) == []
    context.close()
