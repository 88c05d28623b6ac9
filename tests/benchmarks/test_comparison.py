import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as command_line
from benchmarks import comparison
from benchmarks.comparison import (
    TARGETS,
    Comparison,
    SkippedError,
    Target,
    make_records,
    missed_targets,
    time_alternating,
    write_records,
)


def of_ratio(metric: str, ratio: float) -> Comparison:
    return Comparison(metric, ratio, ratio, ratio, 1.0, ratio, "ms")


def test_a_speedup_is_computed_round_by_round() -> None:
    result = Comparison.speedup("x", [1.0, 2.0, 4.0, 1.0, 1.0], [3.0, 2.0, 8.0, 4.0, 5.0])

    assert (result.low, result.ratio, result.high) == (2, 3, 4)
    assert (result.ours, result.baseline) == (1000, 4000)


def test_a_slowdown_is_the_inverse_of_a_speedup() -> None:
    assert Comparison.slowdown("x", [1.0], [4.0]).ratio == 0.25


def test_a_throughput_is_compared_as_ours_over_the_baselines() -> None:
    result = Comparison.throughput("x", ([2e6], [1e6]), "M words/s", scale=1e-6)

    assert (result.ratio, result.ours, result.baseline) == (2, 2, 1)


def test_contestants_alternate_and_the_first_round_does_not_count() -> None:
    order: list[str] = []

    seconds = time_alternating({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)

    assert order == ["a", "b"] * 3
    assert [len(times) for times in seconds.values()] == [2, 2]


@pytest.mark.parametrize(("ratio", "is_met"), [(1.9, False), (2.0, True), (2.1, True)])
def test_a_target_is_a_minimum_or_a_maximum(ratio: float, is_met: bool) -> None:
    assert Target(2).is_met(ratio) is is_met
    assert Target(2, at_most=True).is_met(ratio) is (ratio <= 2)


def test_only_ratios_on_the_wrong_side_of_their_target_are_missed() -> None:
    comparisons = [of_ratio("words/s, spaCy", 2.0), of_ratio("words/s, CountVectorizer", 2.0)]

    missed = missed_targets("tokenization", [*comparisons, of_ratio("no target", 0.0)])

    assert missed == [comparisons[0]]


def test_records_say_where_they_come_from(tmp_path: Path) -> None:
    path = write_records("tokenization", [of_ratio("words/s, spaCy", 2.0)], tmp_path)

    (record,) = json.loads(path.read_text())

    assert path.name == "tokenization.json"
    assert record["experiment"] == "tokenization"
    assert record["metric"] == "words/s, spaCy"
    assert record["target"] == "≥ 3"
    assert record.keys() >= {"value", "low", "high", "device", "threads", "versions", "commit"}


@pytest.mark.parametrize("name", command_line.BENCHMARKS)
def test_every_benchmark_has_targets_records_and_code(name: str) -> None:
    module, function = command_line.BENCHMARKS[name]
    records = json.loads((command_line.RECORDS / f"{name}.json").read_text(encoding="utf-8"))

    assert callable(getattr(import_module(f"benchmarks.{module}"), function))
    assert TARGETS[name].keys() <= {record["metric"] for record in records}


def test_every_target_belongs_to_a_benchmark() -> None:
    assert TARGETS.keys() == command_line.BENCHMARKS.keys()


class FakeModule:
    """Benchmark module that returns given comparisons, or skips."""

    def __init__(self, comparisons: list[Comparison] | None) -> None:
        self.comparisons = comparisons

    def measure(self) -> list[Comparison]:
        if self.comparisons is None:
            raise SkippedError("there is no such device here.")
        return self.comparisons


@pytest.mark.parametrize(
    ("ratio", "options", "status"),
    [(9.0, ["--check"], 0), (1.0, ["--check"], 1), (1.0, [], 0)],
)
def test_checking_fails_if_a_ratio_misses_its_target(
    ratio: float,
    options: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = FakeModule([of_ratio("words/s, spaCy", ratio)])
    monkeypatch.setattr(command_line, "import_module", lambda _: module)

    assert command_line.main(["tokenization", "--out", str(tmp_path), *options]) == status

    captured = capsys.readouterr()
    assert f"{ratio:.2f}" in captured.out
    assert ("Target missed: tokenization: words/s, spaCy." in captured.err) is (ratio < 3)
    assert (tmp_path / "tokenization.json").is_file()


def test_json_lists_the_records_of_all_benchmarks_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = {
        "benchmarks.memory": FakeModule([of_ratio("1M texts, 10k texts", 1.0)]),
        "benchmarks.gpu_training": FakeModule(None),
    }
    names = {"memory": ("memory", "measure"), "gpu_training": ("gpu_training", "measure")}
    monkeypatch.setattr(command_line, "BENCHMARKS", names)
    monkeypatch.setattr(command_line, "import_module", modules.__getitem__)

    assert command_line.main(["all", "--json", "--out", str(tmp_path)]) == 0

    captured = capsys.readouterr()
    assert [record["experiment"] for record in json.loads(captured.out)] == ["memory"]
    assert "gpu_training: skipped, there is no such device here." in captured.err


def test_the_attention_figure_is_drawn_with_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr("benchmarks.attention_scaling.draw", lambda _, folder: drawn.append(folder))
    monkeypatch.setattr("benchmarks.attention_scaling.measure", lambda: [of_ratio("x", 1.0)])

    command_line.main(["attention_scaling", "--out", str(tmp_path / "records")])

    assert drawn == [tmp_path / "figures"]


def test_an_unknown_name_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command_line.main(["speed"]) == 2

    assert (
        "unknown benchmark 'speed'. Known: training_step, training_processes"
        in capsys.readouterr().err
    )


def test_a_record_names_the_gpu_if_the_benchmark_ran_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "gpu_name", lambda: "a GPU")
    comparisons = [of_ratio("ratio", 1.0)]

    assert make_records("gpu_training", comparisons)[0]["device"] == "a GPU"
    assert make_records("training_step", comparisons)[0]["device"] != "a GPU"
