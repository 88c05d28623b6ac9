"""The files in ``deploy/``: the systemd unit and the Containerfile agree with the command line."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from lamatext.cli.main import app

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "lamatext.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"


def option_names() -> set[str]:
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in serve.params for name in parameter.opts}


def options_in(arguments: list[str]) -> set[str]:
    return {argument for argument in arguments if argument.startswith("--")}


def test_the_unit_runs_a_command_with_options_that_exist() -> None:
    line = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)[0]
    program, command, *arguments = shlex.split(line)

    assert (Path(program).name, command) == ("lamatext", "serve")
    assert options_in(arguments) <= option_names()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "lamatext.service"
    program = shutil.which("true")
    unit.write_text(UNIT.read_text().replace("/opt/lamatext/bin/lamatext", str(program)))

    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_image_copies_files_that_exist_and_runs_a_command_that_exists() -> None:
    text = CONTAINERFILE.read_text()
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    entrypoint = json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0])

    assert copied
    assert all((ROOT / name).exists() for name in copied)
    assert entrypoint[:2] == ["/opt/lamatext/bin/lamatext", "serve"]
    assert options_in(entrypoint) <= option_names()
    assert (
        options_in(shlex.split(text.split("/models/reviews")[1].split("\n")[0])) <= option_names()
    )
