"""Run the web page's JavaScript in node, for parity tests with Python."""

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import pytest

STATIC = files("lamatext.views").joinpath("static")
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: apt install nodejs")


def run_javascript(script: str, data: object) -> Any:
    """Run an ES module and return the value it prints.

    The module can use ``data``, ``load(name)``, which imports a module of the web page, and
    ``print(value)``.
    """
    assert NODE is not None
    prelude = f"""
    import {{ readFileSync }} from "node:fs";
    const data = JSON.parse(readFileSync(0, "utf8"));
    const print = value => process.stdout.write(JSON.stringify(value));
    const load = name => import("file://{STATIC}/" + name);
    """
    process = subprocess.run(
        [NODE, "--input-type=module", "--eval", prelude + script],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)
