"""Fixtures of the browser tests: chromium, a server, an exported page, a folder for screenshots."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from lamatext.data.dataset import EvaluationData
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.serve.server import open_listener
from lamatext.views.report.collect import collect_findings
from lamatext.views.report.report_page import write_report
from lamatext.views.web_export import export_web
from tests.corpora import reviews
from tests.serve.saved import save
from tests.trained_model import trained
from tests.views.test_report_page import BOARD, dataset

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.is_file():
        pytest.skip(f"{CHROMIUM} is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for screenshots: $LAMATEXT_SHOTS, or a temporary one."""
    path = os.environ.get("LAMATEXT_SHOTS")
    folder = Path(path) if path else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "reviews", ngrams=True)


@pytest.fixture(scope="session")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with two models, the second without attention."""
    other = save(tmp_path_factory.mktemp("others") / "plain", "bigru")
    yield from serve(create_app(load_models([model, other])))


@pytest.fixture(scope="session")
def web_page(model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a page exported as one HTML file."""
    file = tmp_path_factory.mktemp("web") / "reviews.html"
    return export_web(model, file, storage="float32").file.as_uri()


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a hostile text among its mistakes."""
    folder = tmp_path_factory.mktemp("report")
    trained().save(folder / "model", metrics={"leaderboard": BOARD})
    texts, labels = reviews(40, seed=5)
    texts[0] = "<img src=https://example.org/x onerror=alert(1)> dull <script>alert(2)</script>"
    labels[0] = "pos"
    data = EvaluationData(dataset(texts, labels), dataset(*reviews(120)), "40 texts")
    findings = collect_findings(folder / "model", data)
    write_report(findings, folder / "page.html", title="Film reviews")
    return folder / "page.html"


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Open]:
    """Open pages and wait until they are ready; fail on errors and on requests to other hosts."""
    errors: list[str] = []
    contexts = []

    def open_page(
        address: str,
        *,
        dark: bool = False,
        phone: bool = False,
        wait_for: str = "#actions:not([hidden])",
    ) -> Page:
        context = chromium.new_context(
            color_scheme="dark" if dark else "light",
            viewport={"width": 390, "height": 844} if phone else {"width": 1100, "height": 900},
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console", lambda entry: errors.append(entry.text) if entry.type == "error" else None
        )
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(address.split("#")[0].rsplit("/", 1)[0])
                else errors.append(f"request to {request.url}")
            ),
        )
        page.goto(address)
        page.wait_for_selector(wait_for)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors


def serve(app: object) -> Iterator[str]:
    """Run a server in a thread and yield its address."""
    listener = open_listener("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        sleep(0.05)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join(20)
