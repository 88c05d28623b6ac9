"""The installation of ``make setup``: steps instead of the output of pip, unless it fails."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / ".ci" / "install_packages.py"


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_step_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "empty-project"\nversion = "1"\n')
    source = ("--editable", str(tmp_path), "--no-build-isolation", "--no-index")

    done = install("--dry-run", *source)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "  step 1 of 4: reading pyproject.toml"
    assert "Obtaining" not in done.stdout + done.stderr


def test_if_pip_fails_its_last_lines_are_shown() -> None:
    done = install("./no-such-folder")

    assert done.returncode != 0
    assert "ERROR" in done.stderr
