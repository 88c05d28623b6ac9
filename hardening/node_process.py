"""A node process that runs functions of the web page's JavaScript, one JSON line per call."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

from hardening.fuzz_target import FindingError

SCRIPT = Path(__file__).parent / "node_calls.mjs"


class NodeError(Exception):
    """An error that the web page's JavaScript threw, with its name in JavaScript."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class NodeProcess:
    """A running node process with the JavaScript modules of the web page."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise FileNotFoundError("node is not installed: apt install nodejs")
        static = files("lamatext.views").joinpath("static")
        self.process = subprocess.Popen(
            [node, str(SCRIPT), str(static)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def call(self, name: str, value: object) -> Any:
        """Call a JavaScript function in node; raise NodeError if it throws."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"call": name, "value": value}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise FindingError(f"node ended: {self.process.stderr.read()[-500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise NodeError(answer["error"], answer["message"])
        return answer["value"]

    def close(self) -> None:
        """End the node process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
