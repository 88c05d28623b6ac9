from pathlib import Path

import pytest

from tests.cli.conftest import Command

MODEL = str(Path(__file__).parents[1] / "fixtures" / "format-1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", MODEL, "data.csv", "--out", "data.csv"),
        ("clean", "data.csv", "--out", "data.csv", "--force"),
        ("clean", "data.csv", "--out", "suspects.csv", "--html", "./data.csv"),
    ],
    ids=["report", "clean", "clean --html"],
)
def test_a_page_or_a_list_never_replaces_the_data(
    arguments: tuple[str, ...],
    lamatext: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    content = "text,label\na good film,pos\na bad film,neg\n"
    Path("data.csv").write_text(content)

    answer = lamatext(*arguments)

    assert answer.status == 2
    assert "data.csv: is the input, which would be lost. Give another output file." in answer.err
    assert Path("data.csv").read_text() == content
