"""lamatext opens no network connection unless it is asked to: an audit hook sees every attempt."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import write_csv

MODEL = str(Path(__file__).parent / "fixtures" / "format-1")

# Python reports these operations to the hook, whichever library calls them. Each one raises an
# error, and is printed in case the library ignores it. "socket.bind" is not among them: urllib3
# binds a socket when it is imported, to see whether the machine has IPv6, and sends nothing.
GUARD = """
import sys
NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
           "socket.sendto", "socket.sendmsg", "urllib.Request", "http.client.connect"}
def refuse(event, arguments):
    if event in NETWORK:
        print("NETWORK", event, arguments, flush=True)
        raise OSError("a network connection was opened")
sys.addaudithook(refuse)
"""

RUNS = {
    "every module is imported": """
import pkgutil, importlib, lamatext
for module in pkgutil.walk_packages(lamatext.__path__, "lamatext."):
    compiled = ("._network", "._lookup", "._tokenizer")
    if not module.name.endswith(("_cuda", "_triton", "__main__", *compiled)):
        importlib.import_module(module.name)
""",
    "a model predicts and explains": """
from lamatext import Predictor
model = Predictor.load({model!r})
model.predict(["a superb film"])
model.explain("a superb film")
""",
    "the commands read a model": """
from lamatext.cli.main import run
assert run(["predict", {model!r}, "reviews.csv", "--out", "labels.csv"]) == 0
assert run(["explain", {model!r}, "--text", "a superb film", "--html", "page.html"]) == 0
assert run(["evaluate", {model!r}, "reviews.csv"]) == 0
assert run(["info", {model!r}]) == 0
assert run(["data"]) == 0
assert run(["export", {model!r}, "--web", "web.html"]) == 0
""",
    "a model is trained and reported": """
from lamatext.cli.main import run
assert run(["train", "reviews.csv", "--out", "run", "--set", "training.epochs=1"]) == 0
assert run(["report", "run", "reviews.csv", "--out", "report.html"]) == 0
""",
}


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    write_csv(folder / "reviews.csv", 60)
    environment = {**os.environ, "LAMATEXT_DATA": ""}
    return subprocess.run(
        [sys.executable, "-c", GUARD + code.format(model=MODEL)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_no_network_connection_is_opened_unless_asked(name: str, tmp_path: Path) -> None:
    done = run_python(RUNS[name], tmp_path)

    assert done.returncode == 0, done.stderr
    assert "NETWORK" not in done.stdout


def test_the_guard_sees_a_connection(tmp_path: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"

    done = run_python(code, tmp_path)

    assert done.returncode == 1
    assert "NETWORK socket.getaddrinfo" in done.stdout


def test_the_telemetry_of_onnx_runtime_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    from lamatext import Predictor

    calls: list[None] = []
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: calls.append(None))
    monkeypatch.setattr("lamatext.runtime.onnx_engine.compiled_library", lambda: None)

    Predictor.load(MODEL)

    assert calls
