"""The leaderboard: jobs, ties, and tables made from the records."""

import re
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.__main__ import main
from benchmarks.accuracy_jobs import RECORDS, AccuracyJob, job_record
from benchmarks.costs import MODELS
from benchmarks.leaderboard import EXPERIMENT, METRICS, RECIPES, load_row_recipe
from benchmarks.leaderboard_tables import (
    DATASETS,
    EXTRA_DATASETS,
    PAGE,
    README,
    TITLES,
    Leaderboard,
    accuracy_table,
    costs_table,
    dataset_table,
    leaderboard_blocks,
    read_leaderboard,
    readme_table,
)
from benchmarks.recipe_ablation import FULL, mean_difference, values_by_seed
from lamatext.baselines import BASELINES
from paper.markdown import fill_blocks, read_blocks
from paper.records import Record, Records
from tests.paper.tiny_datasets import write_datasets


def scores(model: str, accuracies: dict[str, list[float]]) -> list[Record]:
    return [
        Record(EXPERIMENT, dataset, model, metric, value, seed, device="cpu")
        for dataset, values in accuracies.items()
        for seed, value in enumerate(values)
        for metric in METRICS
        if metric in ("accuracy", "macro_f1", "calibration_error")
    ]


def costs(model: str, dataset: str, *, size: float, latency: float) -> list[Record]:
    values = {"bytes": size, "latency_ms": latency, "texts_per_second": 10.0, "seconds": 70.0}
    return [
        Record("costs", dataset, model, metric, value, device="A processor, 2 cores")
        for metric, value in values.items()
    ]


def minilm(accuracy: float) -> list[Record]:
    """MiniLM as the paper's protocol records it."""
    return [
        Record(
            "accuracy", dataset, "bert", metric, accuracy, 0, seconds=33.0,
            device="NVIDIA H200, TF32", config={"model.pretrained": "minilm"},
        )
        for dataset in DATASETS
        for metric in ("accuracy", "macro_f1", "calibration_error", "validation_accuracy")
    ]  # fmt: skip


def test_the_table_shows_means_over_seeds_with_the_best_in_bold() -> None:
    ours = {name: [0.9, 0.88] for name in DATASETS}
    theirs = {name: [0.7] for name in DATASETS} | {"r8": [0.95]}
    board = Leaderboard([*scores("default", ours), *scores("tfidf", theirs)])

    lines = accuracy_table(board).splitlines()

    assert lines[2].count("**0.8900**") == len(DATASETS) - 1
    assert "| 0.8900 |" in lines[2]
    assert "**0.9500**" in lines[3]


def test_models_within_the_spread_of_the_seeds_are_bold_together() -> None:
    board = Leaderboard(
        [
            *scores("default", {"r8": [0.90, 0.92]}),  # standard deviation 0.014
            *scores("tfidf", {"r8": [0.90]}),
            *scores("fasttext", {"r8": [0.89]}),
            *scores("minilm", {"r8": [0.91]}),
        ]
    )

    assert board.best_models("r8") == ["default", "tfidf", "minilm"]
    assert not board.within_spread("tfidf", "fasttext", "r8")


def test_the_paper_s_records_fill_two_rows_and_the_training_time_of_minilm(tmp_path: Path) -> None:
    Records(tmp_path / "own").add(
        [
            *scores("default", {name: [0.8] for name in DATASETS}),
            *costs("default", "mr", size=2.7e6, latency=0.75),
            *costs("minilm", "mr", size=90.7e6, latency=85.1)[:2],
        ]
    )
    Records(tmp_path / "paper").add(minilm(0.9))

    board = read_leaderboard(tmp_path / "own", tmp_path / "paper")

    ours, theirs = dataset_table(board, "mr").splitlines()[2:]
    assert ours.endswith("| 0.8000 | 2.7 MB | 10 | 0.75 ms | 70 s, CPU |")
    assert theirs.endswith("| 0.9000 (raw) | 90.7 MB | – | 85.1 ms | 33 s, NVIDIA H200 |")
    assert readme_table(board).splitlines()[2].endswith("| 2.7 MB | 0.75 ms |")


def test_costs_are_shown_as_a_range_over_the_data_sets() -> None:
    board = Leaderboard(
        [
            *scores("default", {"r8": [0.9], "mr": [0.8]}),
            *costs("default", "r8", size=3e6, latency=0.5),
            *costs("default", "mr", size=2e6, latency=1.5),
        ]
    )

    row = costs_table(board).splitlines()[2]

    assert row.endswith("| 2.0 to 3.0 MB | 10 | 0.50 to 1.5 ms | 70 s, CPU |")


def test_only_the_probabilities_of_the_default_recipe_are_shown_as_calibrated() -> None:
    ours, theirs = {"r8": [0.9]}, {"r8": [0.8]}
    board = Leaderboard([*scores("default", ours), *scores("lama-ctx", theirs)])

    first, second = dataset_table(board, "r8").splitlines()[2:]

    assert "raw" not in first
    assert second.count("(raw)") == 1


def test_a_data_set_in_a_folder_is_recorded_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "r52"
    folder.mkdir()

    assert job_record(EXPERIMENT, AccuracyJob(str(folder), "tfidf"), "accuracy").dataset == "r52"
    assert AccuracyJob("hf:someone/r52", "tfidf").dataset_name == "hf:someone/r52"


def test_each_recipe_of_the_leaderboard_is_loaded_with_its_seed() -> None:
    assert [load_row_recipe(model, 7).seed for model in RECIPES] == [7, 7]
    assert load_row_recipe("default", 0).ngrams.enabled
    assert not load_row_recipe("lama-ctx", 0).ngrams.enabled


def test_fill_blocks_replaces_only_the_text_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- begin: x -->\nold\n<!-- end -->\nb\n<!-- begin: y -->\n1\n<!-- end -->"
    )

    fill_blocks(page, {"x": r"new \1"})

    assert page.read_text() == (
        "a\n<!-- begin: x -->\nnew \\1\n<!-- end -->\nb\n<!-- begin: y -->\n1\n<!-- end -->"
    )
    assert read_blocks(page.read_text()) == {"x": r"new \1", "y": "1"}


def test_the_leaderboard_page_shows_what_the_records_give() -> None:
    blocks = read_blocks(PAGE.read_text(encoding="utf-8"))

    assert blocks == leaderboard_blocks(), "run python -m benchmarks tables"


def test_the_readme_shows_what_the_records_give() -> None:
    blocks = read_blocks(README.read_text(encoding="utf-8"))

    assert blocks["results"] == readme_table(read_leaderboard()), "run python -m benchmarks tables"


@pytest.mark.parametrize(
    ("one", "other", "dataset", "tied"),
    [
        ("default", "minilm", "r8", True),
        ("default", "tfidf-svc", "r8", True),
        ("default", "tfidf-chars", "r8", False),
        ("default", "minilm", "news", True),
        ("default", "tfidf-chars", "news", False),
        ("default", "tfidf-svc", "news", False),
        ("default", "minilm", "imdb", False),
        ("default", "minilm", "clothing", False),
        ("default", "minilm", "mr", False),
    ],
)
def test_ties_that_the_pages_name_are_ties_in_the_records(
    one: str, other: str, dataset: str, tied: bool
) -> None:
    assert read_leaderboard().within_spread(one, other, dataset) == tied


def prose(path: Path) -> str:
    """Return a page without its generated blocks and code, with single spaces."""
    page = path.read_text(encoding="utf-8")
    page = re.sub(r"<!-- begin: [\w-]+ -->\n.*?<!-- end -->|```.*?```", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", page)


def over_datasets(board: Leaderboard, model: str, metric: str) -> list[float]:
    return [value for name in DATASETS if (value := board.mean(model, name, metric)) is not None]


def test_the_leaderboard_page_quotes_the_records_and_nothing_else() -> None:
    board, values = read_leaderboard(), values_by_seed(Records(RECORDS))
    sizes = [
        mean(mean(values[change, name, "bytes"].values()) for name in DATASETS) / 1e6
        for change in (FULL, "stored as float32")
    ]
    quotes = [
        f"model of {min(over_datasets(board, 'minilm', 'bytes')) / 1e6:.1f} MB or more and takes "
        f"{min(over_datasets(board, 'minilm', 'latency_ms')):.1f} ms or more per text; the default "
        f"recipe takes at most {max(over_datasets(board, 'default', 'bytes')) / 1e6:.1f} MB and "
        f"{max(over_datasets(board, 'default', 'latency_ms')):.2f} ms",
        "leaving out the network raises the log-loss by "
        f"{mean_difference(values, 'without the network', 'log_loss'):.4f} and leaving out the "
        f"n-grams by {mean_difference(values, 'without n-grams', 'log_loss'):.4f}",
        f"first five data sets from {sizes[0]:.1f} to {sizes[1]:.1f} MB",
    ]
    text = prose(PAGE)

    for quote in quotes:
        assert quote in text
        text = text.replace(quote, "")
    assert re.findall(r"(?<![\w.])\d*\.\d+", text) == ["0.02"]
    assert 100 * abs(mean_difference(values, "stored as float32", "accuracy")) < 0.02


def test_the_readme_s_comparisons_follow_from_the_records() -> None:
    board = read_leaderboard()

    assert not re.findall(r"\d\.\d{2,}", prose(README).partition("## How good is it")[2][:1200])
    for name in DATASETS:
        from_scratch = [model for model in TITLES if model not in ("minilm", "student")]
        own = {model: board.mean(model, name, "accuracy") or 0 for model in from_scratch}
        best = max(own, key=lambda model: own[model])
        assert best == "default"
        for metric in ("bytes", "latency_ms"):
            theirs, ours = (board.mean(model, name, metric) for model in ("minilm", "default"))
            assert ours is not None
            assert theirs is not None
            assert theirs > 10 * ours
    for name in ("imdb", "clothing", "mr"):
        theirs, ours = (board.mean(model, name, "accuracy") or 0 for model in ("minilm", "default"))
        assert theirs > ours
        assert not board.within_spread("minilm", "default", name)


def test_on_the_extra_data_sets_the_default_recipe_leads_by_more_than_the_spread() -> None:
    board = read_leaderboard()

    assert all(board.best_models(name) == ["default"] for name in EXTRA_DATASETS)
    assert all(len(board.values("default", name, "accuracy")) == 3 for name in EXTRA_DATASETS)


def test_every_accuracy_record_in_the_repository_has_code_that_measures_it() -> None:
    for record in Records(RECORDS).of(EXPERIMENT):
        assert record.model in (*RECIPES, *BASELINES)
        assert record.config == {}
    for record in Records(RECORDS).of("costs"):
        assert record.model in MODELS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_the_command_trains_each_row_once_and_records_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    command = ["leaderboard", "--datasets", "r8", "--seeds", "1", "--baselines", "tfidf"]
    command += ["--device", "cpu", "--records", str(tmp_path / "records")]

    assert [main(command), main(command)] == [0, 0]

    records = Records(tmp_path / "records").of(EXPERIMENT)
    accuracies = {r.model: (r.seed, r.number) for r in records if r.metric == "accuracy"}
    assert accuracies == {"default": (1, 1.0), "tfidf": (None, 1.0)}
    assert len(records) == 2 * len(METRICS)
    assert capsys.readouterr().out.count(": done") == 2


def test_the_tables_command_updates_both_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAGE", "README"):
        source = {"PAGE": PAGE, "README": README}[name]
        text = re.sub(r"\| \*\*lamatext\*\*.*", "stale", source.read_text(encoding="utf-8"))
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(f"benchmarks.leaderboard_tables.{name}", tmp_path / name)

    assert main(["tables"]) == 0

    assert (tmp_path / "PAGE").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "README").read_text(encoding="utf-8") == README.read_text(encoding="utf-8")
