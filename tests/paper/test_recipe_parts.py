"""One part of the default recipe changed at a time, on texts held out of the training part."""

from pathlib import Path

import pytest

from lamatext.data.sources import load_dataset
from lamatext.pipeline import split_dataset
from lamatext.recipes import load_recipe
from paper.pool import Job, run_pool
from paper.recipe_parts import (
    CHANGES,
    EXPERIMENT,
    NO_NETWORK,
    SCORES,
    WHOLE,
    WITHDRAWN,
    changed,
    jobs,
    run_change,
    score_ngrams,
)
from paper.records import Record, Results
from tests.paper.made import write_sets

pytestmark = pytest.mark.filterwarnings("ignore:.*texts in its.*")


@pytest.fixture(autouse=True)
def _sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training parts alone: a job that asks for a test part fails."""
    write_sets(tmp_path / "data", train=80)
    for path in (tmp_path / "data").glob("*/test.parquet"):
        path.unlink()
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))


def test_a_change_leaves_every_other_setting_as_the_default_recipe_has_it() -> None:
    for name, values in CHANGES.items():
        recipe = changed(Job("r8", name, 3))
        whole = load_recipe("default").with_values({**WITHDRAWN, "seed": 3})

        assert recipe == whole.with_values(values)
        assert (recipe == whole) == (not values)


def test_what_was_withdrawn_is_out_of_the_default_recipe() -> None:
    default = load_recipe("default")

    for name, value in WITHDRAWN.items():
        assert default.with_values({name: value}) != default


def test_of_each_set_and_seed_the_whole_recipe_comes_first() -> None:
    found = list(jobs(["imdb", "r8"], [0, 1]))

    assert found[:2] == [Job("imdb", WHOLE, 0), Job("imdb", WHOLE, 1)]
    assert Job("imdb", "the first words alone", 0) in found
    assert Job("r8", "the first words alone", 0) not in found


def test_a_set_in_a_folder_is_known_by_its_name_and_some_changes_can_be_asked_for(
    tmp_path: Path,
) -> None:
    without, added = "without n-grams of characters", "with n-grams of characters"
    folder = tmp_path / "r52"
    folder.mkdir()

    found = list(jobs([str(folder), "r8"], [0], [without, added]))

    assert found == [
        Job(str(folder), WHOLE, 0),
        Job(str(folder), without, 0),
        Job("r8", WHOLE, 0),
        Job("r8", added, 0),
    ]


def test_a_job_is_scored_on_texts_of_the_training_part(tmp_path: Path) -> None:
    results = Results(tmp_path)

    run_change(results, Job("r8", "stored in float32", 0), "cpu")

    found = {record.metric: record for record in results.of(EXPERIMENT)}
    assert found.keys() == {*SCORES, "bytes"}
    assert found["accuracy"].number == 1.0
    assert found["bytes"].number > 10_000
    assert found["accuracy"].config == {"storage": "float32"}


def test_a_change_that_has_a_record_is_not_trained_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add([Record(EXPERIMENT, "no-such-set", WHOLE, "accuracy", 0.5, 0)])

    run_change(results, Job("no-such-set", WHOLE, 0), "cpu")

    assert len(results.of(EXPERIMENT)) == 1


def test_the_ngrams_alone_tell_the_classes_apart_and_know_how_surely() -> None:
    recipe = changed(Job("r8", NO_NETWORK, 0))

    scores, size = score_ngrams(recipe, split_dataset(load_dataset("r8"), None, None, recipe))

    assert scores.accuracy == 1.0
    assert scores.log_loss < 0.2
    assert 1_000 < size < 100_000


@pytest.mark.slow
def test_a_pool_gives_each_job_a_folder_and_goes_on_after_one_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    todo = [Job("no-such-set", NO_NETWORK, 0), Job("r8", NO_NETWORK, 0), Job("r8", NO_NETWORK, 1)]

    run_pool(run_change, todo, tmp_path / "parts", device="cpu", workers=2)

    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        "r8-without-the-network-0",
        "r8-without-the-network-1",
    ]
    assert "no-such-set" in capsys.readouterr().out
