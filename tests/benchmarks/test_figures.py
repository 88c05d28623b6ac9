import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command_line
from benchmarks import figures
from benchmarks.figures import BARS, Bar, Figure, SkippedError, in_turns, missed, write


def figure(what: str, ratio: float) -> Figure:
    return Figure(what, ratio, ratio, ratio, 1.0, ratio, "ms")


def test_a_ratio_is_taken_turn_by_turn() -> None:
    found = Figure.faster("x", [1.0, 2.0, 4.0, 1.0, 1.0], [3.0, 2.0, 8.0, 4.0, 5.0])

    assert (found.low, found.ratio, found.high) == (2, 3, 4)
    assert (found.ours, found.theirs) == (1000, 4000)


def test_contestants_run_in_turns_and_the_first_turn_does_not_count() -> None:
    order: list[str] = []

    seconds = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)

    assert order == ["a", "b"] * 3
    assert [len(times) for times in seconds.values()] == [2, 2]


@pytest.mark.parametrize(("ratio", "holds"), [(1.9, False), (2.0, True), (2.1, True)])
def test_a_bar_is_a_least_or_a_most(ratio: float, holds: bool) -> None:
    assert Bar(2).holds(ratio) is holds
    assert Bar(2, at_most=True).holds(ratio) is (ratio <= 2)


def test_only_ratios_on_the_wrong_side_of_their_bar_are_missed() -> None:
    found = [figure("words/s, spaCy", 2.0), figure("words/s, CountVectorizer", 2.0)]

    assert missed("prepare", [*found, figure("no bar", 0.0)]) == [found[0]]


def test_records_say_where_they_come_from(tmp_path: Path) -> None:
    path = write("prepare", [figure("words/s, spaCy", 2.0)], tmp_path)

    (record,) = json.loads(path.read_text())

    assert path.name == "prepare.json"
    assert record["metric"] == "words/s, spaCy"
    assert record["bar"] == "≥ 3"
    assert record.keys() >= {"value", "low", "high", "device", "threads", "versions", "commit"}


def test_every_bar_is_of_a_benchmark_that_can_be_named() -> None:
    assert BARS.keys() <= set(command_line.NAMES)


class Module:
    """Stands for a benchmark."""

    def __init__(self, found: list[Figure] | None) -> None:
        self.found = found

    def figures(self) -> list[Figure]:
        if self.found is None:
            raise SkippedError("there is no such device here.")
        return self.found


@pytest.mark.parametrize(
    ("ratio", "options", "status"),
    [(9.0, ["--check"], 0), (1.0, ["--check"], 1), (1.0, [], 0)],
)
def test_checking_fails_where_a_ratio_is_under_its_bar(
    ratio: float,
    options: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = Module([figure("words/s, spaCy", ratio)])
    monkeypatch.setattr(command_line, "import_module", lambda _: module)

    assert command_line.main(["prepare", "--out", str(tmp_path), *options]) == status

    shown = capsys.readouterr()
    assert f"{ratio:.2f}" in shown.out
    assert ("Under its bar: prepare: words/s, spaCy." in shown.err) is (ratio < 3)
    assert (tmp_path / "prepare.json").is_file()


def test_json_lists_the_records_of_all_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = {"memory": Module([figure("1M texts, 10k texts", 1.0)]), "gpu": Module(None)}

    def find(name: str) -> Module:
        leaf = name.rpartition(".")[2]
        if leaf not in modules:
            raise ModuleNotFoundError(name=name)
        return modules[leaf]

    monkeypatch.setattr(command_line, "import_module", find)

    assert command_line.main(["all", "--json", "--out", str(tmp_path)]) == 0

    shown = capsys.readouterr()
    assert [record["experiment"] for record in json.loads(shown.out)] == ["bench-memory"]
    assert "gpu: skipped, there is no such device here." in shown.err
    assert "train: skipped, this lamatext has no such benchmark yet." in shown.err


def test_an_unknown_name_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command_line.main(["speed"]) == 2

    assert "unknown benchmark 'speed'. Known: train, sizes, prepare" in capsys.readouterr().err


def test_a_record_names_the_gpu_where_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "gpu", lambda: "a GPU")
    found = [figure("ratio", 1.0)]

    assert figures.records("gpu", found)[0]["device"] == "a GPU"
    assert figures.records("train", found)[0]["device"] != "a GPU"
