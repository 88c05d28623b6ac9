import sys
from pathlib import Path

import pytest

from lamatext.errors import DataError
from tests.cli.conftest import Command
from tests.cli.test_commands import SMALL

MODEL = str(Path(__file__).parents[1] / "fixtures" / "format-1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", MODEL, "data.csv", "--out", "data.csv"),
        ("clean", "data.csv", "--out", "data.csv", "--force"),
        ("clean", "data.csv", "--out", "suspects.csv", "--html", "./data.csv"),
        ("predict", MODEL, "data.csv", "--out", "data.csv", "--force"),
        ("predict", MODEL, "d*.csv", "--out", "data.csv", "--force"),
        ("report", MODEL, ".", "--out", "data.csv", "--force"),
        ("explain", MODEL, "data.csv", "--html", "data.csv"),
        ("compare", "data.csv", "--json", "data.csv"),
        ("compare", MODEL, "--recipe", "data.csv", "--html", "data.csv", "--force"),
        ("train", MODEL, "--out", "run", "--recipe", "data.csv", "--html", "data.csv", "--force"),
        ("compare", MODEL, "--test", "data.csv", "--html", "data.csv", "--force"),
        ("train", MODEL, "--out", "run", "--test", "data.csv", "--report", "data.csv", "--force"),
        *(
            ("train", MODEL, "--out", "run", option, "data.csv", "--html", "data.csv", "--force")
            for option in ("--unlabelled", "--validation", "--without", "--teacher")
        ),
        (
            "train",
            "texts.csv",
            "--out",
            "run",
            "--from",
            MODEL,
            "--old-data",
            "data.csv",
            "--html",
            "data.csv",
            "--force",
        ),
    ],
    ids=" ".join,
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
    assert "data.csv: is an input, which would be lost. Give another output file." in answer.err
    assert Path("data.csv").read_text() == content


def test_another_file_in_the_folder_of_the_data_can_be_replaced(
    lamatext: Command, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for label in ("pos", "neg"):
        (data / label).mkdir(parents=True)
        (data / label / "1.txt").write_text(f"a {label} film")
    page = data / "page.html"
    page.write_text("old")

    again = lamatext("report", MODEL, str(data), "--out", str(page), "--force")
    lost = lamatext("report", MODEL, str(data), "--out", str(data / "pos" / "1.txt"), "--force")

    assert again.status == 0
    assert page.read_text() != "old"
    assert "is an input, which would be lost" in lost.err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("predict", MODEL, "data.csv", "--out"), "old.csv"),
        (("predict", MODEL, "--text", "good", "--out"), "old.csv"),
        (("explain", MODEL, "data.csv", "--out"), "old.jsonl"),
        (("explain", MODEL, "--text", "good", "--html"), "old.html"),
        (("report", MODEL, "data.csv", "--out"), "old.html"),
        (("export", MODEL, "--web"), "old.html"),
        (("export", MODEL, "--onnx"), "old.onnx"),
        (("clean", "data.csv", "--out"), "old.csv"),
        (("clean", "data.csv", "--out", "new.csv", "--html"), "old.html"),
        (("compare", "data.csv", "--html"), "old.html"),
        (("compare", "data.csv", "--json"), "old.json"),
        (("train", "data.csv", "--out", "run", "--html"), "old.html"),
        (("train", "data.csv", "--out", "run", "--report"), "old.html"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:1]),
)
def test_no_command_replaces_a_file_without_force(
    arguments: tuple[str, ...],
    name: str,
    lamatext: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("text,label\na good film,pos\na bad film,neg\n")
    Path(name).write_text("precious")

    answer = lamatext(*arguments, name)

    assert answer.status == 2
    assert f"{name}: already exists. Replace it with --force, or give another file." in answer.err
    assert Path(name).read_text() == "precious"


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "model", "--onnx", "model/config.json"),
        ("export", "model", "--web", "./model/vocab.txt"),
        ("explain", "model", "--text", "good", "--html", "model/metrics.json"),
        ("report", "model", "reviews.csv", "--out", "model/README.md"),
        ("compare", "reviews.csv", "--with", "tfidf,model", "--html", "model/config.json"),
        ("train", "reviews.csv", "--out", "run", "--teacher", "model", "--html", "model/vocab.txt"),
    ],
    ids=lambda arguments: arguments[-1],
)
def test_no_output_replaces_a_file_of_a_model(
    arguments: tuple[str, ...], lamatext: Command, place: Path
) -> None:
    before = {path.name: path.read_bytes() for path in (place / "model").iterdir()}

    answer = lamatext(*arguments, "--force")

    assert answer.status == 2
    assert "is a file of a model, which would be lost. Give another output file." in answer.err
    assert {path.name: path.read_bytes() for path in (place / "model").iterdir()} == before


def test_force_replaces_an_output_file(lamatext: Command, place: Path) -> None:
    (place / "old.csv").write_text("old")

    answer = lamatext("predict", "model", "reviews.csv", "--out", "old.csv", "--force")

    assert answer.status == 0, answer.err
    assert len((place / "old.csv").read_text().splitlines()) == 61


def test_a_refused_prediction_leaves_no_folder_behind(lamatext: Command, place: Path) -> None:
    (place / "broken.csv").write_text("id,text\n" + "1,2,3\n" * 5)

    answer = lamatext("predict", "model", "broken.csv", "--out", "p.csv")

    assert answer.status == 2
    assert not (place / "p.csv.partial").exists()


@pytest.mark.parametrize(
    ("arguments", "stop_at"),
    [
        (
            ("predict", MODEL, "data.csv", "--out", "new/out.csv"),
            "lamatext.runtime.prediction_parts.PartFolder.delete",
        ),
        (
            ("export", MODEL, "--out", "new/copy", "--web", "new/page.html"),
            "lamatext.runtime.model_export.export_folder",
        ),
    ],
    ids=["predict", "export"],
)
def test_a_command_that_ended_between_its_outputs_is_repeated_without_force(
    arguments: tuple[str, ...],
    stop_at: str,
    lamatext: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("text,label\na good film,pos\na bad film,neg\n")
    with monkeypatch.context() as patch:
        patch.setattr(stop_at, stop)
        with pytest.raises(ZeroDivisionError):
            lamatext(*arguments)
    first = [path for path in Path("new").iterdir() if path.is_file() and path.name[0] != "."]

    repeated = lamatext(*arguments)

    assert len(first) == 1
    assert repeated.status == 0, repeated.err
    assert not [path for path in Path("new").iterdir() if path.name[0] == "."]
    assert not list(Path("new").glob("*.partial"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "reviews.csv", "--out", "run", "--html", "reviews.csv/a.html"),
        ("train", "reviews.csv", "--out", "run", "--report", "reviews.csv/b/a.html"),
        ("compare", "reviews.csv", "--html", "reviews.csv/a.html"),
        ("compare", "reviews.csv", "--json", "reviews.csv/a.json"),
        ("clean", "reviews.csv", "--out", "reviews.csv/a.csv"),
        ("report", "model", "reviews.csv", "--out", "reviews.csv/a.html"),
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written_is_an_error_before_any_work(
    arguments: tuple[str, ...], lamatext: Command, place: Path
) -> None:
    answer = lamatext(*arguments)

    assert answer.status == 2
    assert f"{arguments[-1]}: cannot be written: " in answer.err
    assert "Training" not in answer.err
    assert sorted(path.name for path in place.iterdir()) == ["model", "reviews.csv"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "model", "reviews.csv", "--out", "page"),
        ("explain", "model", "reviews.csv", "--html", "page.csv"),
        ("export", "model", "--web", "page"),
    ],
)
def test_a_page_has_a_name_that_browsers_recognize(
    arguments: tuple[str, ...], lamatext: Command
) -> None:
    answer = lamatext(*arguments)

    assert answer.status == 2
    assert f"Name it {arguments[-1]}.html." in answer.err


def test_a_model_whose_page_cannot_be_written_is_said_to_be_saved(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DataError("page.html: cannot be written: No space left on device.")

    monkeypatch.setattr("lamatext.views.explanation_page.write_test_page", fail)
    arguments = ["train", "reviews.csv", "--out", "run", "--html", "page.html", *SMALL]
    monkeypatch.setattr(sys, "argv", ["lamatext", *arguments])

    answer = lamatext(*arguments)

    assert answer.status == 2
    assert "No space left on device. The model is complete and saved in run." in answer.err
    assert f"lamatext {' '.join(arguments)} --resume" in answer.err
