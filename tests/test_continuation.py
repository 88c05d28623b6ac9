"""Continuing a saved model: new words and classes, old scores, ancestors, errors, resuming."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext.classifier import TextClassifier
from lamatext.cli.main import run
from lamatext.continuation import ScoreChange, measure_changes
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import are_shared
from lamatext.data.sources import load_dataset
from lamatext.errors import ConfigError, DataError
from lamatext.evaluation import find_start_model, load_evaluation_data
from lamatext.pipeline import DataSources, StartModel, read_splits, split_dataset, train_and_score
from lamatext.progress import SILENT
from lamatext.recipes import continue_recipe, resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, model_hash, saved_recipe
from lamatext.settings import Recipe
from tests.corpora import TINY, reviews, topic_texts, write_csv
from tests.nn.tiny_bert import save_bert

SETTINGS: dict[str, object] = {**TINY, "ngrams.enabled": True, "ngrams.characters": False}
FOOD = ("soup", "bread", "cake", "salad", "noodles", "cheese", "pepper", "onion")


def food_texts(count: int) -> list[str]:
    """Texts of a class and with words that the reviews lack."""
    draw = np.random.default_rng(5)
    return [" ".join(draw.choice(FOOD, draw.integers(4, 9))) for _ in range(count)]


def small(**parameters: object) -> TextClassifier:
    return TextClassifier(recipe="default", settings=SETTINGS, **parameters)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def _test_sets_of_a_few_texts() -> Iterator[None]:
    """Hold out test sets that are usually too small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 5)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with old.csv, a model trained on it, new.csv, and the continued model ``new``."""
    folder = tmp_path_factory.mktemp("continued")
    write_csv(folder / "old.csv", 200)
    write_csv(folder / "new.csv", 120, seed=3)
    write_csv(folder / "test.csv", 60, seed=4)
    recipe = resolve_recipe(values=SETTINGS)
    splits = read_splits(DataSources(str(folder / "old.csv")), recipe)
    train_and_score(splits, recipe, folder / "old", SILENT)
    continue_training(folder, "new")
    return folder


def continue_training(folder: Path, out: str, start: str = "old") -> list[ScoreChange]:
    source = folder / start
    config = load_config(source)
    recipe = continue_recipe(saved_recipe(source, config), {}, again="ancestors" in config)
    test = str(folder / "test.csv")
    model = find_start_model(source, None).model
    splits = read_splits(DataSources(str(folder / "new.csv"), test=test, start=model), recipe)
    return list(train_and_score(splits, recipe, folder / out, SILENT).changes)


def test_the_model_to_continue_stays_and_the_new_one_names_it(place: Path) -> None:
    parent = model_hash(place / "old", load_config(place / "old"))

    ancestors = load_config(place / "new")["ancestors"]

    assert [ancestor["hash"] for ancestor in ancestors] == [parent]
    assert "ancestors" not in load_config(place / "old")
    assert parent[:16] in (place / "new" / "README.md").read_text()


def test_info_names_the_ancestor_and_the_scores_before_and_after(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = model_hash(place / "old", load_config(place / "old"))

    assert run(["info", str(place / "new")]) == 0

    shown = capsys.readouterr().out
    assert f"continues: the model with the hash {parent[:16]}, trained on {place}" in shown
    assert shown.count(", then ") == 2


def test_scores_before_and_after_are_those_of_the_two_models(place: Path) -> None:
    changes = json.loads((place / "new" / "metrics.json").read_text())["continuation"]
    old, new = changes
    held_out = load_evaluation_data(place / "old", str(place / "old.csv")).texts

    truth = held_out.require_labels().to_pylist()
    accuracy = {
        name: np.mean(Predictor.load(place / name).predict(held_out.texts.to_pylist()) == truth)
        for name in ("old", "new")
    }

    assert old["is_old"]
    assert not new["is_old"]
    assert old["texts"] == len(held_out) == 20
    assert old["before"] == pytest.approx(accuracy["old"])
    assert old["after"] == pytest.approx(accuracy["new"])
    assert new["texts"] == 60
    assert new["before_interval"][0] <= new["before"] <= new["before_interval"][1]


def test_evaluate_never_scores_a_continued_model_on_the_training_texts_of_its_ancestor(
    place: Path,
) -> None:
    found = load_evaluation_data(place / "new", str(place / "old.csv"))

    assert "held out" in found.about
    assert len(found.texts) == 20


def test_a_model_can_be_continued_again_and_is_scored_on_the_data_of_all_ancestors(
    place: Path,
) -> None:
    changes = continue_training(place, "third", start="new")

    ancestors = load_config(place / "third")["ancestors"]
    rates = [
        saved_recipe(place / name, load_config(place / name)).training.learning_rate
        for name in ("new", "third")
    ]
    assert len(ancestors) == 2
    assert [Path(change.data).name for change in changes] == ["test.csv", "old.csv", "test.csv"]
    assert rates[0] == rates[1]  # lowered once, not each time


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("deleted", "no such file"),
        ("changed", "has changed since the model was trained"),
        ("shorter", "not the file that the model was trained on"),
    ],
)
def test_the_reason_is_given_if_the_old_test_data_cannot_be_found(
    place: Path, tmp_path: Path, change: str, reason: str
) -> None:
    shutil.copytree(place / "old", tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    config["data"]["source"] = str(tmp_path / "old.csv")
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    lines = (place / "old.csv").read_text().splitlines(keepends=True)
    if change == "changed":
        lines[1:] = [line.replace("film", "novel") for line in lines[1:]]
    if change != "deleted":
        kept = lines[:-1] if change == "shorter" else lines
        (tmp_path / "old.csv").write_text("".join(kept))

    search = find_start_model(tmp_path / "old", None)

    assert not search.model.tests
    assert not search.model.seen
    assert reason in search.untested[0]
    assert reason in search.unknown[0]


def test_old_data_that_the_model_was_trained_on_is_refused(place: Path) -> None:
    with pytest.raises(DataError, match=r"--old-data .*trained on all of these texts"):
        find_start_model(place / "new", str(place / "new.csv"))


@pytest.fixture
def grown(place: Path, tmp_path: Path) -> Path:
    """A file of the old texts and as many new ones."""
    new = write_csv(tmp_path / "new.csv", 200, seed=7).read_text().split("\n", 1)[1]
    (tmp_path / "grown.csv").write_text((place / "old.csv").read_text() + new)
    return tmp_path / "grown.csv"


def start_of(place: Path) -> StartModel:
    return find_start_model(place / "old", None).model


def overlap(start: StartModel, test: Dataset) -> int:
    return sum(int(are_shared(part.texts, test.texts).sum()) for part in start.seen)


def test_texts_that_the_model_was_trained_on_are_no_test_texts_of_the_new_data(
    place: Path, grown: Path
) -> None:
    recipe, start = resolve_recipe(values=SETTINGS), start_of(place)
    drawn = read_splits(DataSources(str(grown)), recipe).test

    splits = read_splits(DataSources(str(grown), start=start), recipe)

    assert overlap(start, drawn) > 5
    assert overlap(start, splits.test) == 0
    assert len(splits.test) + len(splits.moved) == len(drawn)
    assert len(splits.train) + len(splits.validation or ()) + len(splits.test) == 400
    assert f"trained on {len(splits.moved)} texts that could be test texts" in " ".join(
        splits.train.notes
    )
    assert f"{len(splits.test)} test texts remain" in " ".join(splits.train.notes)


def test_evaluate_finds_the_test_texts_of_a_model_that_was_continued_on_a_grown_file(
    place: Path, grown: Path, tmp_path: Path
) -> None:
    recipe = continue_recipe(
        saved_recipe(place / "old", load_config(place / "old")), {}, again=False
    )
    splits = read_splits(DataSources(str(grown), start=start_of(place)), recipe)
    train_and_score(splits, recipe, tmp_path / "grown", SILENT)

    found = load_evaluation_data(tmp_path / "grown", str(grown))

    assert found.texts.texts.to_pylist() == splits.test.texts.to_pylist()
    assert "held out" in found.about

    old = load_evaluation_data(tmp_path / "grown", str(place / "old.csv"))

    assert splits.start is not None
    assert old.texts.texts.to_pylist() == splits.start.tests[0].texts.to_pylist()
    assert "that it was trained on in another run" in old.about


def test_cross_validation_does_not_score_texts_that_the_model_was_trained_on(
    place: Path, grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = replace(start_of(place), tests=())
    monkeypatch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 200)

    splits = read_splits(DataSources(str(grown), start=start), resolve_recipe(values=SETTINGS))

    scored = np.concatenate([rows for _, rows in splits.folds])
    assert len(splits.folds) == 5
    assert overlap(start, splits.train.take(scored)) == 0
    assert all(len(train) + len(test) == 400 for train, test in splits.folds)
    assert f"{len(scored)} test texts remain" in " ".join(splits.train.notes)


def test_a_given_test_file_that_the_model_was_trained_on_is_counted(place: Path) -> None:
    recipe, test = resolve_recipe(values=SETTINGS), str(place / "old.csv")

    sources = DataSources(str(place / "new.csv"), test=test, start=start_of(place))
    splits = read_splits(sources, recipe)

    assert "of 200 texts of" in " ".join(splits.train.notes)
    assert "the scores before and after on new data are too high" in " ".join(splits.train.notes)


def test_new_data_that_the_model_has_seen_completely_is_an_error(place: Path) -> None:
    recipe = resolve_recipe(values=SETTINGS)
    parts = split_dataset(load_dataset(str(place / "old.csv")), None, None, recipe)

    with pytest.raises(DataError, match=r"trained on all texts that could be held out.*--test"):
        split_dataset(parts.train, None, None, recipe, seen=np.arange(len(parts.train)))


def test_a_fall_below_the_interval_is_told_apart_from_a_fall_within_it() -> None:
    change = ScoreChange("a.csv", True, "accuracy", 100, 0.9, (0.82, 0.95), 0.81, (0.7, 0.9))

    assert change.is_forgotten
    assert not ScoreChange("a.csv", True, "accuracy", 9, 0.9, (0.8, 1), 0.85, (0, 1)).is_forgotten
    assert not ScoreChange("a.csv", False, "accuracy", 9, 0.9, (0.8, 1), 0.1, (0, 1)).is_forgotten


def test_labels_that_the_old_model_does_not_know_count_as_errors(place: Path) -> None:
    data = load_dataset(str(place / "test.csv"))
    names = {"neg": "neg", "pos": "a new class"}
    scores = train_scores(place)

    change = measure_changes(place / "old", place / "new", [], (data.rename_labels(names), scores))

    assert change[0].before <= 0.5


def train_scores(place: Path):  # type: ignore[no-untyped-def]
    from lamatext.pipeline import score_saved_model

    return score_saved_model(place / "new", load_dataset(str(place / "test.csv")))[0]


def test_a_new_class_and_new_words_are_learned_and_the_old_classes_kept() -> None:
    texts, labels = reviews(120)
    model = small(warm_start=True).fit(texts, labels)
    old_words = model.encoder_.vocabulary.words  # type: ignore[attr-defined]
    new_texts = [*reviews(60, seed=2)[0], *food_texts(60)]
    new_labels = [*reviews(60, seed=2)[1], *["food"] * 60]

    model.fit(new_texts, new_labels)

    words = model.encoder_.vocabulary.words  # type: ignore[attr-defined]
    assert model.classes_.tolist() == ["neg", "pos", "food"]
    assert words[: len(old_words)] == old_words
    assert "noodles" in words
    assert model.score(food_texts(20), ["food"] * 20) == 1
    assert model.score(texts, labels) > 0.9


def test_classes_that_the_new_texts_lack_are_kept() -> None:
    texts = [*reviews(120)[0], *food_texts(60)]
    labels = [*reviews(120)[1], *["food"] * 60]
    model = small(warm_start=True).fit(texts, labels)

    model.fit(*reviews(60, seed=2))

    assert model.classes_.tolist() == ["food", "neg", "pos"]
    assert model.score(food_texts(30), ["food"] * 30) > 0.9


def test_continuing_with_several_labels_keeps_labels_that_the_new_texts_lack() -> None:
    texts, labels = topic_texts(300)
    model = small(warm_start=True).fit(texts, labels)
    before = model.thresholds_
    new_texts, new_labels = topic_texts(200, seed=1)
    without = [[label for label in row if label != "sport"] for row in new_labels]

    model.fit(new_texts, [[*row, "new"] if "soup" in text else row
                          for text, row in zip(new_texts, without, strict=True)])  # fmt: skip

    column = model.classes_.tolist().index("sport")
    proba = model.predict_proba(["the team and the goal of the match", "bread"])[:, column]
    assert model.classes_.tolist() == ["film", "food", "sport", "war", "new"]
    assert before is not None
    assert model.thresholds_ is not None
    assert model.thresholds_.values[column] == before.values[column]
    assert proba[0] > 2 * proba[1]


NETWORKS: dict[str, dict[str, object]] = {
    "te": {"text.max_words": 20, "model.heads": 2, "model.transformer_positions": 20},
    "cnn": {},
    "avg": {},
    "lama-phrases": {"model.phrases": "punctuation"},
}


@pytest.mark.parametrize("network", NETWORKS)
def test_other_networks_can_be_continued(network: str) -> None:
    shared = {k: v for k, v in TINY.items() if k not in ("model.heads", "model.hidden_size")}
    settings = {**shared, **NETWORKS[network]}
    model = TextClassifier(network, recipe="default", settings=settings, warm_start=True)
    texts = [*reviews(40, seed=1)[0], *food_texts(20)]

    model.fit(*reviews(60)).fit(texts, [*reviews(40, seed=1)[1], *["food"] * 20])

    assert model.classes_.tolist() == ["neg", "pos", "food"]


def test_a_pretrained_encoder_can_be_continued(tmp_path: Path) -> None:
    settings = {"model.pretrained": save_bert(tmp_path / "bert"), "training.epochs": 1}
    model = TextClassifier("bert", recipe="default", settings=settings, warm_start=True)
    model.fit(*reviews(30))
    saved = model.save(tmp_path / "model")

    loaded = TextClassifier.load(saved).set_params(warm_start=True)
    loaded.fit([*reviews(20, seed=1)[0], *food_texts(10)], [*reviews(20)[1], *["food"] * 10])

    assert loaded.classes_.tolist() == ["neg", "pos", "food"]
    assert loaded.predict_proba(["a good film"]).shape == (1, 3)


def test_continuing_resumes_to_the_same_weights_after_an_interruption(tmp_path: Path) -> None:
    whole = small(warm_start=True, epochs=3).fit(*reviews(80))
    folder = whole.save(tmp_path / "start")

    def continued(checkpoint: Path | None, epochs: int) -> TextClassifier:
        model = TextClassifier.load(folder).set_params(warm_start=True, epochs=epochs)
        return model.fit(*reviews(60, seed=1), checkpoint=checkpoint)

    class StopAfterTwo(type(SILENT)):  # type: ignore[misc]
        def note(self, text: str) -> None:
            if text.startswith("epoch 2"):
                raise InterruptedError

    model = TextClassifier.load(folder).set_params(warm_start=True, epochs=3)
    with pytest.raises(InterruptedError):
        model.fit(*reviews(60, seed=1), checkpoint=tmp_path / "run", progress=StopAfterTwo())
    resumed = continued(tmp_path / "run", 3)
    uninterrupted = continued(None, 3)

    for name, tensor in uninterrupted.network_.state_dict().items():
        assert tensor.equal(resumed.network_.state_dict()[name]), name


def test_a_checkpoint_of_another_starting_model_is_refused(tmp_path: Path) -> None:
    one, two = (small(random_state=seed).fit(*reviews(80)) for seed in (0, 1))
    texts = reviews(60, seed=1)
    one.set_params(warm_start=True, random_state=0).fit(*texts, checkpoint=tmp_path / "run")

    with pytest.raises(ConfigError, match="belongs to a run with other data or settings"):
        two.set_params(warm_start=True, random_state=0).fit(*texts, checkpoint=tmp_path / "run")


def test_settings_of_the_network_cannot_change(place: Path) -> None:
    recipe = saved_recipe(place / "old", load_config(place / "old"))

    with pytest.raises(ConfigError, match=r"model.heads is 3 in the model .* cannot become 5"):
        continue_recipe(recipe, {"model.heads": 5}, again=False)
    assert continue_recipe(recipe, {"training.epochs": 9}, again=False).training.epochs == 9


def test_a_continued_run_has_few_epochs_and_a_lower_learning_rate() -> None:
    recipe = Recipe()

    continued = continue_recipe(recipe, {}, again=False)

    assert continued.training.learning_rate < recipe.training.learning_rate
    assert int(continued.training.epochs) < int(recipe.training.epochs)


ERRORS = {
    "several labels": (
        [["neg"], ["pos", "neg"]] * 20,
        "one label per text, the new texts have sev",
    ),
    "another type": ([0, 1] * 20, "of the type str, the new label 0 is not"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_labels_of_another_kind_are_named(name: str) -> None:
    labels, message = ERRORS[name]
    model = small(warm_start=True).fit(*reviews(60))

    with pytest.raises(DataError, match=message):
        model.fit(reviews(40)[0], labels)


COMMANDS = {
    "--model": (["--model", "san"], "--model san does not go with --from"),
    "--recipe": (["--recipe", "paper"], "--recipe paper does not go with --from"),
    "--teacher": (["--teacher", "minilm"], "--teacher minilm does not go with --from"),
    "--out": (["--force"], "is the model to continue, which stays as it is"),
    "--set": (["--set", "text.lowercase=false"], "text.lowercase is True in the model"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_names_options_that_do_not_go_with_from(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    more, message = COMMANDS[name]
    out = place / "old" if name == "--out" else tmp_path / "out"

    code = run(["train", str(place / "new.csv"), "--from", str(place / "old"),
                 "--out", str(out), *more])  # fmt: skip

    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_command_shows_before_and_after(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["train", str(place / "new.csv"), "--test", str(place / "test.csv"), "--quiet",
                 "--from", str(place / "old"), "--out", str(tmp_path / "out"),
                 "--old-data", str(place / "old.csv"), "--baselines", "none"])  # fmt: skip

    shown = capsys.readouterr().out
    assert code == 0
    assert all(word in shown for word in ("before", "after", "old:", "new:"))


def test_the_command_counts_old_test_texts_among_the_new_training_texts(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["train", str(place / "new.csv"), "--test", str(place / "test.csv"),
                 "--from", str(place / "old"), "--out", str(tmp_path / "out"),
                 "--old-data", str(place / "new.csv"), "--baselines", "none"])  # fmt: skip

    assert code == 0
    message = " ".join(capsys.readouterr().err.split())
    assert "120 of 120 old test texts of" in message
    assert "the score on old data is not measured" in message


def test_old_test_texts_that_are_trained_on_are_not_scored(place: Path, grown: Path) -> None:
    start = start_of(place)

    splits = read_splits(DataSources(str(grown), start=start), resolve_recipe(values=SETTINGS))

    assert splits.start is not None
    (left,) = splits.start.tests
    assert 0 < len(left) < len(start.tests[0])
    assert not are_shared(splits.train.texts, left.texts).any()
    assert f"the score on old data is of the other {len(left)}" in splits.train.notes[-1]
