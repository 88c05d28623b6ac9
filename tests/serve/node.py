"""JavaScript run by node, beside the Python it must agree with."""

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import pytest

STATIC = files("lamatext.views").joinpath("static")
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: apt install nodejs")


def run(script: str, given: object) -> Any:
    """What ``script``, a module in which ``given`` is known and ``tell`` answers, says."""
    assert NODE is not None
    prelude = f"""
    import {{ readFileSync }} from "node:fs";
    const given = JSON.parse(readFileSync(0, "utf8"));
    const tell = value => process.stdout.write(JSON.stringify(value));
    const load = name => import("file://{STATIC}/" + name);
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", prelude + script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
