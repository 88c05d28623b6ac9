"""Only one process at a time may write to a folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from lamatext.atomic_write import locked_folder
from lamatext.errors import ConfigError
from lamatext.pipeline import prepare_run_folder
from tests.trained_model import trained

HOLD = """
import sys, time
from pathlib import Path
from lamatext.atomic_write import locked_folder
with locked_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(ConfigError, match="run: another process is writing to it"):
            locked_folder(tmp_path / "run").__enter__()
        other.kill()

    with locked_folder(tmp_path / "run"):
        pass


def test_a_second_training_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        prepare_run_folder(tmp_path / "run", resume=False),
        pytest.raises(ConfigError, match="another process is writing to it"),
        prepare_run_folder(tmp_path / "run", resume=False, force=True),
    ):
        pass


def test_a_second_save_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    model = trained()
    with (
        locked_folder(tmp_path / "model" / ".unfinished"),
        pytest.raises(ConfigError, match="another process is writing to it"),
    ):
        model.save(tmp_path / "model")

    model.save(tmp_path / "model")
    assert not (tmp_path / "model" / ".unfinished").exists()
