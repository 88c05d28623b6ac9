"""The list of trials, and the choice of heads."""

from pathlib import Path

from paper.protocol import HEADS, SEEDS, TRAINED, chosen_heads, finals, trials
from paper.published import DATASETS, accuracy
from paper.records import Results
from paper.trial import Trial


def all_folds(dataset: str = "r8", model: str = "lama-ctx") -> list[Trial]:
    return [
        Trial("heads", dataset, model, 0, fold, (("model.heads", each),))
        for fold in range(3)
        for each in HEADS
    ]


def record_folds(results: Results, best: int) -> None:
    for trial in all_folds():
        score = 0.9 if dict(trial.values)["model.heads"] == best else 0.8
        results.add([trial.record("valid_accuracy", score)])


def test_the_heads_with_the_best_mean_over_all_folds_are_chosen(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert chosen_heads(results.of("heads"), "r8", "lama-ctx") is None

    record_folds(results, best=10)

    assert chosen_heads(results.of("heads"), "r8", "lama-ctx") == 10


def test_the_final_runs_wait_for_the_choice(tmp_path: Path) -> None:
    results = Results(tmp_path)
    before = {trial.model for trial in finals(results, "r8")}

    record_folds(results, best=10)

    after = [trial for trial in finals(results, "r8") if trial.model == "lama-ctx"]
    assert not {"lama-ctx", "san"} & before
    assert [(trial.seed, trial.values) for trial in after] == [
        (seed, (("model.heads", 10),)) for seed in SEEDS
    ]


def test_every_system_runs_three_seeds_where_nothing_is_chosen(tmp_path: Path) -> None:
    found = list(finals(Results(tmp_path), "news"))

    assert len(found) == len(set(found)) == len(TRAINED) * 3


def test_every_trial_has_a_recipe(tmp_path: Path) -> None:
    for trial in trials(Results(tmp_path)):
        assert trial.recipe.model.name == trial.model


def test_the_published_figures_stand_where_the_paper_has_them() -> None:
    assert accuracy("lama-ctx", "r8") == 0.973
    assert accuracy("lama-encoder", "imdb") == 0.830
    assert accuracy("bert", "clothing-polarity") == 0.97
    assert accuracy("lama-ctx", "mr") is None
    assert accuracy("lama-encoder", "news") is None
    assert len(DATASETS) == 7
