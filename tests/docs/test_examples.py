"""The commands and Python examples of the documentation run, and its links resolve."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from re import DOTALL, findall
from urllib.request import urlopen

import pytest

from lamatext import TextClassifier
from tests.corpora import reviews, write_csv, write_topics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = (
    *(
        "index.md",
        "train.md",
        "clean.md",
        "compare.md",
        "explain.md",
        "production.md",
        "reproduce.md",
    ),
    *("scale.md", "attention.md"),
)
BLOCK = re.compile(r"(?:<!-- test: (\w+) -->\n)?```(sh|python)\n(.*?)```", DOTALL)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Return mark, language and code of each block of a page, in order."""
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the model that several guide pages start from."""
    folder = tmp_path_factory.mktemp("guide") / "reviews"
    return TextClassifier(random_state=0, epochs=5).fit(*reviews(120)).save(folder)


@pytest.fixture
def folder(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with the files and the model that the examples read."""
    for name, seed in (("reviews.csv", 0), ("held-out.csv", 1), ("new.csv", 2)):
        write_csv(tmp_path / name, 120, seed=seed)
    write_topics(tmp_path / "topics.jsonl", 240)
    shutil.copytree(model, tmp_path / "runs" / "reviews")
    scripts = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDE)
def test_the_examples_of_a_guide_page_run_in_order(page: str, folder: Path) -> None:
    names: dict[str, object] = {}
    if any("--out runs/reviews\n" in code for _, _, code in blocks(page)):
        shutil.rmtree(folder / "runs" / "reviews")  # the page trains it
    with free_port() as port:
        for mark, language, code in blocks(page):
            code = code.replace("localhost:8000", f"localhost:{port}")
            if mark == "serve":
                start_server(code.strip(), port, folder)
            elif mark != "skip" and language == "sh":
                run_shell(code, folder)
            elif mark != "skip":
                exec(compile(code, f"docs/{page}", "exec"), names)


def run_shell(code: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=ROOT if "python -m" in code else folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"


_servers: list["subprocess.Popen[bytes]"] = []


def start_server(command: str, port: int, folder: Path) -> None:
    process = subprocess.Popen([*command.split(), "--port", str(port)], cwd=folder)
    _servers.append(process)
    for _ in range(100):
        try:
            urlopen(f"http://localhost:{port}/readyz").close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{command}: not ready after 20 s")


@contextmanager
def free_port() -> Iterator[int]:
    """Yield a free port for the server example and stop the server afterwards."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    yield port
    for process in _servers:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    _servers.clear()


@pytest.mark.parametrize("page", GUIDE)
def test_every_guide_page_has_examples_that_run(page: str) -> None:
    assert [mark for mark, _, _ in blocks(page) if mark != "skip"]


def test_the_attention_example_is_ten_lines_and_runs() -> None:
    ((_, _, code),) = [block for block in blocks("attention.md") if block[1] == "python"]

    exec(compile(code, "docs/attention.md", "exec"), {})

    assert len([line for line in code.splitlines() if line]) == 10


def test_the_layer_imports_torch_but_not_the_training_stack() -> None:
    heavy = ["numba", "gensim", "sklearn", "pyarrow", "pydantic", "transformers", "onnxruntime"]
    program = (
        "import sys; from lamatext.nn import LowRankAttention\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stderr == ""
    assert run.stdout.strip() == "[]"


def test_every_system_and_setting_of_the_model_page_exists() -> None:
    from lamatext.settings import MODEL_NAMES, setting_names

    page = (DOCS / "model.md").read_text(encoding="utf-8")

    systems = page.split("## The models")[1].split("## Settings")[0]
    assert set(findall(r"\n\| `([a-z][a-z-]+)` \|", systems)) == set(MODEL_NAMES)
    assert set(findall(r"`(model\.\w+)`", page)) <= set(setting_names())


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_of_a_page_resolve(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (DOCS / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_source_files_that_a_page_names_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in findall(r"`((?:\w+/)+[a-z_]+\.(?:py|cu|c|json|toml))`", text):
        places = (ROOT, ROOT / "src" / "lamatext")
        assert any((place / name).is_file() for place in places), f"{page}: {name}"
