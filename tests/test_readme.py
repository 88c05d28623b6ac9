"""The examples of the README that are marked ``<!-- test: run -->`` run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import reviews, write_csv

README = Path(__file__).parents[1] / "README.md"
MARKED = re.compile(r"<!-- test: run -->\n```(\w+)\n(.*?)```", re.DOTALL)
BLOCKS = MARKED.findall(README.read_text(encoding="utf-8"))

pytestmark = pytest.mark.slow


def test_the_readme_has_python_and_shell_examples() -> None:
    assert {language for language, _ in BLOCKS} >= {"python", "sh"}


@pytest.mark.parametrize(("language", "code"), BLOCKS, ids=[kind for kind, _ in BLOCKS])
def test_an_example_runs(language: str, code: str, tmp_path: Path) -> None:
    for name, seed in (("reviews.csv", 0), ("held-out.csv", 1), ("new.csv", 2)):
        write_csv(tmp_path / name, 120, seed=seed)
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    if language == "python":
        texts, labels = reviews(120)
        script = f"texts, labels = {texts!r}, {labels!r}\n{code}"
        command = [sys.executable, "-W", "error::UserWarning:lamatext", "-c", script]
    else:
        command = ["bash", "-euo", "pipefail", "-c", code]

    process = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert process.returncode == 0, process.stderr
