import errno
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from lamatext.cli import info, main
from lamatext.errors import ColumnChoiceError
from tests.cli.conftest import Command


def failing(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_an_error_of_the_machine_is_reported_in_one_sentence(
    number: int, lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(number, os.strerror(number), "some/file")
    monkeypatch.setattr(main, "app", failing(error))

    answer = lamatext("info", "model")

    assert answer.status == 2
    assert answer.err == f"lamatext: some/file: {os.strerror(number)}.\n"


def test_too_little_memory_is_reported_in_one_sentence(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "app", failing(MemoryError()))

    answer = lamatext("info", "model")

    assert answer.status == 2
    assert answer.err.startswith("lamatext: there is not enough memory")


def test_a_bug_keeps_its_traceback(lamatext: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError(errno.EIO, "odd"), ZeroDivisionError()):
        monkeypatch.setattr(main, "app", failing(error))
        with pytest.raises(type(error)):
            lamatext("info", "model")


def test_an_error_is_wrapped_at_words_on_a_terminal_and_suggested_commands_are_not(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = ["--text-column", "a long name of a column", "--label-column", "another long name"]
    error = ColumnChoiceError("reviews.csv: several columns could be the texts.", [choice])
    monkeypatch.setattr(main, "app", failing(error))
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes stderr for a terminal
    monkeypatch.setenv("COLUMNS", "40")

    answer = lamatext("info", "model")

    first, second, command = answer.err.splitlines()
    assert first == "lamatext: reviews.csv: several columns"
    assert second == "could be the texts."
    assert command.endswith("'another long name'")


def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = main._print_warning
        warnings.warn("be careful", stacklevel=1)

    assert capsys.readouterr().err == "lamatext: be careful\n"


def test_main_exits_with_the_status(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.is_dir()
    monkeypatch.setattr(sys, "argv", ["lamatext", "info", "nothere"])

    with pytest.raises(SystemExit) as caught:
        main.main()

    assert caught.value.code == 2


def test_every_command_has_a_name_and_an_example() -> None:
    for command in main.COMMANDS:
        assert command.NAME
        assert command.EXAMPLES.startswith("lamatext ") or "lamatext data" in command.EXAMPLES
    assert info in main.COMMANDS


def test_the_help_names_both_forms_of_a_flag_with_its_default_and_units(lamatext: Command) -> None:
    serve = lamatext("serve", "--help").out
    predict = " ".join(lamatext("predict", "--help").out.split())

    assert "--page, --no-page\n" in serve
    assert "--watch, --no-watch\n" in serve
    assert " ".join(serve.split()).count("[default: on]") == 2
    assert "--idle-timeout SECONDS" in serve
    assert "\n        %" not in lamatext("predict", "--help").out
    assert "of DATA" not in predict


def test_the_synopsis_of_a_command_with_several_models_has_no_braces(lamatext: Command) -> None:
    lines = lamatext("serve", "--help").out.splitlines()

    assert lines[lines.index("SYNOPSIS") + 1].strip() == "lamatext serve MODEL... [OPTION]..."
