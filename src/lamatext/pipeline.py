"""Training pipeline of ``lamatext train``: read, split, train, score, save.

prepare_run_folder    make the output folder, or say why it cannot be used
read_splits           read the data and split it into training, validation and test set
train_and_score       train, save, score on the test set, train the baselines
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from lamatext.atomic_write import delete_stale_files, locked_folder
from lamatext.baselines import BASELINES, LeaderboardRow, check_baselines, train_baseline
from lamatext.continuation import ScoreChange, measure_changes
from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset, dataset_fingerprint, text_batches
from lamatext.data.duplicates import are_shared, group_rows
from lamatext.data.labels import (
    LabelEncoder,
    check_label_count,
    class_counts,
    merge_label_variants,
)
from lamatext.data.probability_file import (
    IdColumn,
    ProbabilityTable,
    is_probability_file,
    match_probabilities,
    read_probability_columns,
)
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.table import DEFAULTS, join_columns
from lamatext.data.sources import has_test_split, load_dataset, open_table
from lamatext.data.splits import (
    Rows,
    describe_groups,
    folds,
    hold_out,
    validation_texts_to_leave_out,
)
from lamatext.data.streaming import StreamedTexts, stream_parts
from lamatext.data.suspects_file import leave_out_suspects
from lamatext.errors import ConfigError, DataError, plural
from lamatext.fold_classes import recipe_without, teacher_without, validation_of_classes
from lamatext.label_thresholds import Flags, LabelThresholds, decide_classes
from lamatext.metrics import AnyScores, Floats, score_targets
from lamatext.progress import SILENT, NamedProgress, Progress, track_progress
from lamatext.recipes import changeable_values
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.scoring import encode_test_labels, score_predictions
from lamatext.saved.format import (
    CHECKPOINT,
    CONFIG,
    TEACHER_CHECKPOINTS,
    Config,
    folder_size,
    load_config,
    model_hash,
    remembered_layout,
    saved_recipe,
)
from lamatext.saved.model_io import add_metrics
from lamatext.settings import Recipe, TrainingSettings

if TYPE_CHECKING:
    from lamatext.classifier import TextClassifier

TEST_FRACTION = 0.1
AVERAGE_EMBEDDING = "average embedding"
AVERAGE_SETTINGS = {"model.name": "avg", "ngrams.enabled": False}
MIN_TEST_TEXTS = 200  # with fewer, cross-validation is used instead
FOLDS = 5
MIN_TEXTS = 10  # to train and score on
MAX_EXAMPLES = 4  # test texts that the model card and the web page show
EXAMPLE_CANDIDATES = 2000
SHORTEST_EXAMPLE, LONGEST_EXAMPLES = 20, (240, 1000)  # characters: preferred and at most


@dataclass(frozen=True, slots=True)
class StartModel:
    """Saved model that a pipeline run continues to train, with its known test and training data."""

    folder: Path
    tests: tuple[Dataset, ...] = ()  # test sets of the data that it was trained on
    seen: tuple[Dataset, ...] = ()  # texts that it was trained on


@dataclass(frozen=True, slots=True)
class Splits:
    """Training, validation and test sets of a pipeline run, or its cross-validation folds.

    Without a validation set, one is held out during training.
    """

    train: Dataset
    validation: Dataset | None
    test: Dataset  # with folds, all texts: each is scored by a model that was not trained on it
    folds: tuple[tuple[Rows, Rows], ...] = ()  # of a cross-validation: training and test rows
    teacher: object = None  # from which the model learns; see ``TextClassifier``
    unlabelled: tuple[str, ...] = ()  # texts that the teacher labels
    start: StartModel | None = None  # the model that is continued
    moved: tuple[int, ...] = ()  # rows that the continued model was trained on: not for testing
    test_source: str | None = None  # of a test set that was given
    streamed: StreamedTexts | None = None  # if ``train`` is only a sample of the training texts


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a training pipeline run: the saved model, its test scores and the leaderboard."""

    folder: Path
    scores: AnyScores
    leaderboard: list[LeaderboardRow]  # our model first
    examples: list[dict[str, str]]  # test texts with their labels
    folds: int = 0  # of the cross-validation; 0 with a test set
    changes: tuple[ScoreChange, ...] = ()  # if a model was continued

    def as_dict(self) -> dict[str, object]:
        """Return the results of the pipeline run as a JSON-compatible dictionary."""
        changes = [change.as_dict() for change in self.changes]
        return {**self.scores.as_dict(), **({"continuation": changes} if changes else {})}


# 1 · The output folder


@contextmanager
def prepare_run_folder(folder: Path, *, resume: bool, force: bool = False) -> Iterator[None]:
    """Create the output folder of a pipeline run, and remove it afterwards if it is still empty.

    Raises:
        ConfigError: if the folder holds a finished model or an unfinished run, which are replaced
            only with ``force``, or other files.
    """
    if resume and force:
        raise ConfigError(
            "give either --resume (continue a run) or --force (replace it), not both."
        )
    _check_run_folder(folder, resume=resume)
    with locked_folder(folder):
        if not (resume or force):
            _check_nothing_is_replaced(folder)
        try:
            yield
        finally:
            with suppress(OSError):  # not empty
                folder.rmdir()


def _check_run_folder(folder: Path, *, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file. Give --out a folder.")
    if resume and not folder.is_dir():
        raise ConfigError(
            f"{folder}: no such folder, so there is no run to resume. Leave --resume out to train."
        )
    if folder.is_dir() and any(folder.iterdir()) and not _holds_a_run(folder):
        raise ConfigError(
            f"{folder}: not empty, and not a model of lamatext. Give --out a new folder."
        )


def _check_nothing_is_replaced(folder: Path) -> None:
    if _is_unfinished(folder):
        raise ConfigError(
            f"{folder}: holds an unfinished run. Continue it with --resume, or start again with "
            "--force."
        )
    if (folder / CONFIG).is_file():
        raise ConfigError(
            f"{folder}: holds a finished model. Replace it with --force, or give --out another "
            "folder."
        )


def _holds_a_run(folder: Path) -> bool:
    if (folder / CONFIG).is_file() or _is_unfinished(folder):
        return True
    return all(path.name.startswith(f".{CHECKPOINT}") for path in folder.iterdir())


def _is_unfinished(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (CHECKPOINT, *TEACHER_CHECKPOINTS))


def is_finished(folder: Path, recipe: Recipe, splits: Splits) -> bool:
    """Return whether a folder already holds the finished model of this pipeline run.

    The run is the same if its settings, the contents of its data and the columns of groups and
    times are the same: fingerprints of the texts and labels are compared, not the name of the file.

    Raises:
        ConfigError: if the folder holds the finished model of another run.
    """
    if _is_unfinished(folder) or not (folder / CONFIG).is_file():
        return False
    config = load_config(folder)
    saved = saved_recipe(folder, config)
    saved_data = config.get("data", {})
    same_data = saved_data.get("fingerprint") == dataset_fingerprint(splits.train) and all(
        saved_data.get(name, value) == value  # older versions saved the first fingerprint only
        for name, value in _held_out_fingerprints(splits).items()
    )
    same_data &= saved_data.get("lesson", "") == _lesson_fingerprint(splits)
    same_data &= _is_child(config, splits.start)
    same_data &= _have_same_split_columns(saved_data.get("layout") or {}, splits.train.layout)
    if same_data and _settings_agree(recipe.model_dump(), saved.model_dump()):
        return True
    raise ConfigError(
        f"{folder}: nothing to resume, it holds the finished model of another run. "
        "Replace it with --force instead of --resume, or give another folder."
    )


def _is_child(config: Config, start: StartModel | None) -> bool:
    ancestors = config.get("ancestors", [])
    if start is None:
        return not ancestors
    return bool(ancestors) and ancestors[-1]["hash"] == model_hash(
        start.folder, load_config(start.folder)
    )


def _have_same_split_columns(saved: Mapping[str, object], layout: Layout) -> bool:
    """Return whether two pipeline runs split their data by the same columns of groups and times."""
    return (saved.get("group_column"), saved.get("time_column")) == (
        layout.group_column,
        layout.time_column,
    )


def _settings_agree(requested: object, saved: object) -> bool:
    """Return whether each requested pipeline setting is ``auto`` or equals the saved setting."""
    if isinstance(requested, dict) and isinstance(saved, dict):
        return all(_settings_agree(value, saved.get(name)) for name, value in requested.items())
    return requested in ("auto", saved)


# 2 · The data


@dataclass(frozen=True, slots=True)
class TeacherOptions:
    """Teacher options of a pipeline run: the teacher and the unlabelled texts that it labels."""

    name: str  # a pretrained encoder, the folder of a saved model, or a file of probabilities
    unlabelled: Sequence[str] = ()  # sources of texts
    id_column: str | None = None  # matches the rows of a file of probabilities with the data

    def read_unlabelled(self, options: ReadOptions) -> Iterator[str]:
        """Yield the texts of all unlabelled data sources, for the pipeline's teacher to label."""
        for source in self.unlabelled:
            columns, batches = open_table(source, options).text_batches(options)
            for batch in batches:
                texts = join_columns([batch.column(column) for column in columns]).to_pylist()
                yield from (text for text in texts if text.strip())

    def open(self, source: str, options: ReadOptions, train: Dataset) -> object:
        """Open the pipeline's teacher, matching a probability file with the training data.

        If the teacher is not a probability file, only its name is returned.
        """
        if not is_probability_file(self.name):
            return self.name
        columns, ids, texts = train.layout.text_columns, list[str](), list[str]()
        for batch in open_table(source, options).all_batches():
            texts += join_columns([batch.column(column) for column in columns]).to_pylist()
            if self.id_column is not None:
                if self.id_column not in batch.schema.names:
                    raise DataError(f"{source}: no column {self.id_column!r} (--id-column).")
                ids += map(str, batch.column(self.id_column).to_pylist())
        return match_probabilities(
            read_probability_columns(self.name),
            LabelEncoder.fit(train.require_labels()).names,
            texts,
            source=self.name,
            text_column=columns[0],
            ids=None if self.id_column is None else IdColumn(self.id_column, ids),
            multi_label=train.is_multi_label,
        )


@dataclass(frozen=True, slots=True)
class DataSources:
    """Data sources of a pipeline run, with the options for reading them."""

    train: str  # its own test part is used if it has one
    test: str | None = None
    validation: str | None = None
    without: Path | None = None  # a file of suspects, whose rows are left out of the training data
    reading: ReadOptions = DEFAULTS  # the other files are read like the first one
    teacher: TeacherOptions | None = None
    start: StartModel | None = None  # a model to continue; its training texts are never test texts


def read_splits(sources: DataSources, recipe: Recipe, progress: Progress = SILENT) -> Splits:
    """Read the data of a pipeline run and split it into training, validation and test sets.

    The seed and the validation fraction are those of the recipe. If a model is continued, the data
    is read like its training data.
    """
    source, test, teacher = sources.train, sources.test, sources.teacher
    if teacher is not None:
        is_probability_file(teacher.name)  # a missing file is an error before reading the data
    options, labels = _read_like_start(sources.reading, sources.start)
    options = replace(
        options, keep_unlabelled=teacher is not None, keep_lines=sources.without is not None
    )
    has_own_test = test is None and has_test_split(source)
    is_test_given = test is not None or has_own_test
    train = load_dataset(source, options)
    if sources.without is not None:
        train = leave_out_suspects(train, sources.without, is_test_held_out=not is_test_given)
    if options.merge_labels:
        train = merge_label_variants(train, labels)
    _check_training_labels(train, sources.start, is_test_given=is_test_given)
    others = replace(
        options,
        format=None,
        group_column=None,  # like the time column, read if the file has it, as in the training file
        time_column=None,
        remembered=train.layout,
        keep_unlabelled=False,
        keep_lines=True,
    )

    def read(path: str, split: str = "train") -> Dataset:
        dataset = load_dataset(path, others, split=split)
        _check_label_form(train, dataset)
        if options.merge_labels:
            dataset = merge_label_variants(dataset, class_counts(train))
        return dataset

    test_set = read(test) if test else read(source, "test") if has_own_test else None
    validation_set = read(sources.validation) if sources.validation else None
    progress.stage("looking for duplicates", len(train))
    seen = _seen_rows(sources.start, train)
    splits = split_dataset(train, validation_set, test_set, recipe, progress, seen=seen)
    splits = _without_test_texts(replace(splits, test_source=test, start=sources.start))
    _check_validation_labels(splits)
    splits = _add_notes(splits, is_test_given=is_test_given)
    if teacher is None:
        return splits
    unlabelled = [*train.unlabelled, *teacher.read_unlabelled(others)]
    return replace(
        splits, teacher=teacher.open(source, others, train), unlabelled=tuple(unlabelled)
    )


def _without_test_texts(splits: Splits) -> Splits:
    """Leave out the pipeline's validation texts that are also test texts, or near-duplicates.

    The final n-gram model is fitted to the validation texts, too, so it would be tested on texts
    that it has learned. In a cross-validation that is done for each fold.
    """
    test, validation = splits.test, splits.validation
    if validation is None or splits.folds:
        return splits
    is_tested = are_shared(test.texts, validation.texts)
    if not is_tested.any():
        return splits
    note = (
        f"{is_tested.sum():,} of {plural(len(validation), 'validation text')} of "
        f"{validation.source} are also test texts and are not used for validation"
    )
    train = replace(splits.train, notes=(*splits.train.notes, note))
    rest = None if is_tested.all() else validation.take(np.flatnonzero(~is_tested))
    return replace(splits, train=train, validation=rest)


def _check_training_labels(
    train: Dataset, start: StartModel | None, *, is_test_given: bool
) -> None:
    """Check that a pipeline run can learn the labels and, if necessary, hold out test texts."""
    counts = class_counts(train)
    check_label_count(len(counts), len(train), train.source)
    if train.is_multi_label:
        return
    if len(counts) == 1 and start is None:
        raise DataError(
            f"{train.source}: {plural(len(train), 'text')}, all with the label "
            f"{next(iter(counts))!r}. A classifier needs at least two classes: add texts of "
            "another class, or choose another column with --label-column."
        )
    if len(counts) == len(train) and not is_test_given:
        raise DataError(
            f"{train.source}: each of the {len(train):,} texts has a label of its own, so none can "
            "be held out for testing. If they are not labels, choose another column with "
            "--label-column; otherwise join rare labels into one, such as 'other', or give a "
            "separate file with --test."
        )


def _check_validation_labels(splits: Splits) -> None:
    """Check that the pipeline's model will know every label of the validation data.

    The check is made here so that its error names the validation file.
    """
    if splits.validation is not None:
        labels = splits.validation.require_labels()
        _known_classes(splits).encode_targets(labels, place=splits.validation.place)


def _check_label_form(train: Dataset, other: Dataset) -> None:
    """Check that two data files of a pipeline run both have one label per text, or both several."""
    if train.is_multi_label != other.is_multi_label:
        raise DataError(
            f"{other.source}: {'several labels' if other.is_multi_label else 'one label'} per "
            f"text, but {'several' if train.is_multi_label else 'one'} in {train.source}. Write "
            "the labels of both files in the same form, or name the column with --label-column."
        )


def _seen_rows(start: StartModel | None, dataset: Dataset) -> Rows:
    """Return the rows of the pipeline's data that the continued model was already trained on."""
    is_seen = np.zeros(len(dataset), bool)
    for known in () if start is None else start.seen:
        is_seen |= are_shared(known.texts, dataset.texts)
    return np.flatnonzero(is_seen)


def _add_notes(splits: Splits, *, is_test_given: bool) -> Splits:
    """Add notes on the pipeline's test set and drop old test texts that are now trained on."""
    train, start = splits.train, splits.start
    notes = [] if is_test_given else list(_test_notes(splits))
    notes += [] if start is None else _start_notes(splits, start)
    return _leave_out_trained(replace(splits, train=replace(train, notes=(*train.notes, *notes))))


def _test_notes(splits: Splits) -> Iterator[str]:
    """Yield notes on the pipeline's test set, such as its time period or that it is small."""
    parts = {"training": splits.train, "validation": splits.validation, "test": splits.test}
    times = [f"{part} texts {data.period}" for part, data in parts.items() if data and data.period]
    if times:
        yield f"column {splits.train.layout.time_column!r}: {', '.join(times)}"
    if _are_times_mixed(splits):
        yield (
            "some training texts are newer than test texts, because --group-column keeps the texts "
            "of a group together: the score is not one on the newest texts only"
        )
    if times and len(splits.test) < MIN_TEST_TEXTS:
        yield (
            f"{plural(len(splits.test), 'test text')}: few, so the score is uncertain. With "
            "--time-column there is no cross-validation, because it tests on the newest texts"
        )


def _are_times_mixed(splits: Splits) -> bool:
    """Return whether a training text of the pipeline is newer than one of its test texts."""
    train, test = splits.train, splits.test
    if train.times is None or test.times is None or train.group_values is None:
        return False
    return len(test) > 0 and bool(train.times.max() > test.times.min())


def _start_notes(splits: Splits, start: StartModel) -> Iterator[str]:
    """Yield notes on the pipeline's test texts that the continued model was already trained on."""
    if splits.moved:
        left = sum(len(rows) for _, rows in splits.folds) or len(splits.test)
        yield (
            f"{start.folder} was trained on {plural(len(splits.moved), 'text')} that could be test "
            "texts: used for training instead; "
            + plural(left, "test text remains", "test texts remain")
        )
    spoilt = len(_seen_rows(start, splits.test)) if splits.test_source else 0
    if spoilt:
        yield (
            f"{start.folder} was trained on {spoilt:,} of {plural(len(splits.test), 'text')} of "
            f"{splits.test_source}: the scores before and after on new data are too high"
        )


def _leave_out_trained(splits: Splits) -> Splits:
    """Remove from the continued model's test sets the texts that this pipeline run trains on."""
    start, tests, notes = splits.start, list[Dataset](), list[str]()
    for test in () if start is None else start.tests:
        is_trained = are_shared(splits.train.texts, test.texts)
        if splits.validation is not None:
            is_trained |= are_shared(splits.validation.texts, test.texts)
        left = test.take(np.flatnonzero(~is_trained))
        if len(left):
            tests.append(left)
        if is_trained.any():
            rest = f"of the other {len(left):,}" if len(left) else "not measured"
            notes.append(
                f"{is_trained.sum():,} of {plural(len(test), 'old test text')} of {test.source} "
                f"also in the new training data: the score on old data is {rest}"
            )
    if start is None or not notes:
        return splits
    train = replace(splits.train, notes=(*splits.train.notes, *notes))
    return replace(splits, train=train, start=replace(start, tests=tuple(tests)))


def _read_like_start(
    options: ReadOptions, start: StartModel | None
) -> tuple[ReadOptions, list[str]]:
    """Return read options that match the data of the continued model, and the model's labels."""
    if start is None:
        return options, []
    config = load_config(start.folder)
    layout = remembered_layout(config)
    merge = options.merge_labels or (layout is not None and layout.merge_labels)
    labels = [str(label) for label in config["labels"]]
    return replace(options, remembered=layout, merge_labels=merge), labels


def stream_splits(sources: DataSources, recipe: Recipe, progress: Progress = SILENT) -> Splits:
    """Read the data of a pipeline run as a stream and write the tokenized training texts to disk.

    Raises:
        ConfigError: an option that does not work with streaming is given, such as ``--teacher``.
    """
    from lamatext.training.process_group import current_processes

    if current_processes().size > 1:
        raise ConfigError("--stream trains in one process. Leave --devices or the launcher out.")
    source, options, test = sources.train, sources.reading, sources.test
    refused = {
        "--teacher": sources.teacher,
        "--without": sources.without,
        "--from": sources.start,
        "--group-column": options.group_column,
        "--time-column": options.time_column,
        "--merge-labels": options.merge_labels,
        "--model bert": recipe.model.name == "bert",
    }
    for option, value in refused.items():
        if value:
            raise ConfigError(f"--stream does not work with {option}. Leave one of them out.")
    others = replace(options, format=None, keep_lines=True)
    test_set = None if test is None else load_dataset(test, others)
    if test_set is None and has_test_split(source):
        test_set = load_dataset(source, options, split="test")
    parts = stream_parts(
        source,
        options,
        recipe.text,
        fractions=(recipe.training.validation_fraction, TEST_FRACTION),
        validation=load_dataset(sources.validation, others) if sources.validation else None,
        test=test_set,
        progress=progress,
    )
    note = (
        f"{plural(parts.texts.training_texts, 'streamed training text')}; the figures describe "
        f"{len(parts.sample):,} of them"
    )
    sample = replace(parts.sample, notes=(*parts.sample.notes, note))
    held_out = parts.test
    if test_set is None and sources.validation is not None:
        is_learned = are_shared(parts.validation.texts, held_out.texts)
        if is_learned.all():
            raise DataError(
                f"{source}: all texts that were held out for testing are validation texts, too. "
                "Give a separate file with --test."
            )
        held_out = held_out.take(np.flatnonzero(~is_learned))
    return Splits(sample, parts.validation, held_out, streamed=parts.texts)


def split_dataset(
    train: Dataset,
    validation: Dataset | None,
    test: Dataset | None,
    recipe: Recipe,
    progress: Progress = SILENT,
    *,
    seen: Rows | None = None,
) -> Splits:
    """Split the pipeline's data into training, validation and test sets, keeping any given sets.

    Duplicates and texts of the same group are never in two of these sets. If there are times, the
    newest texts are held out. If the test set would have fewer than ``MIN_TEST_TEXTS`` texts, the
    model is trained on all texts and scored by cross-validation. The rows ``seen``, on which the
    continued model was trained, are never test texts: if they are drawn, they are moved to
    training, together with their duplicates and groups.
    """
    if not pc.any(pc.not_equal(pc.utf8_trim_whitespace(train.texts), "")).as_py():
        raise DataError(f"{train.source}: every text is empty. Choose another --text-column.")
    is_grouped = train.group_values is not None or train.times is not None
    if test is not None and (validation is not None or not is_grouped):
        return Splits(train, validation, test)
    groups = group_rows(train.texts, train.group_values, progress)
    if test is not None:
        try:
            rows, validation_rows = _hold_out(
                train, recipe.training.validation_fraction, recipe.seed, groups
            )
        except DataError:
            if train.times is not None:
                raise
            return Splits(train, validation, test)  # the training holds texts out, with a warning
        return Splits(train.take(rows), train.take(validation_rows), test)
    is_small = round(len(train) * TEST_FRACTION) < MIN_TEST_TEXTS
    if is_small and train.times is None:
        return _cross_validation_splits(train, validation, recipe.seed, groups, seen)
    rows, test_rows = _hold_out(train, TEST_FRACTION, recipe.seed, groups)
    test_rows, moved = _move_seen(train, test_rows, groups, seen)
    rows = np.union1d(rows, np.array(moved, np.int64))
    rest, splits = train.take(rows), Splits(train, validation, train.take(test_rows), moved=moved)
    if validation is not None:
        return replace(splits, train=rest)
    fraction = recipe.training.validation_fraction / (1 - TEST_FRACTION)
    with warnings.catch_warnings():  # the first split has already warned
        warnings.filterwarnings("ignore", message=".* seen once", category=UserWarning)
        rows, validation_rows = _hold_out(rest, fraction, recipe.seed, groups[rows])
    return replace(splits, train=rest.take(rows), validation=rest.take(validation_rows))


def _cross_validation_splits(
    dataset: Dataset, validation: Dataset | None, seed: int, groups: Rows, seen: Rows | None
) -> Splits:
    """Create pipeline splits for training on all data and scoring by cross-validation."""
    all_folds = _cross_validation_folds(dataset, seed, groups)
    scored, moved = _move_seen(dataset, _scored_rows(all_folds), groups, seen)
    tests = [np.intersect1d(rows, scored) for _, rows in all_folds]
    all_rows = np.arange(len(dataset))
    kept = tuple((np.setdiff1d(all_rows, rows), rows) for rows in tests if len(rows))
    return Splits(dataset, validation, dataset, kept, moved=moved)


def _move_seen(
    dataset: Dataset, test: Rows, groups: Rows, seen: Rows | None
) -> tuple[Rows, tuple[int, ...]]:
    """Separate the pipeline's unseen test rows from those that the continued model has seen."""
    if seen is None:
        return test, ()
    is_moved = np.isin(groups[test], groups[seen])
    if is_moved.all():
        raise DataError(
            f"{dataset.source}: the model to continue was trained on all texts that could be held "
            "out for testing. Give texts that it has not seen with --test."
        )
    return test[~is_moved], tuple(test[is_moved].tolist())


def _scored_rows(all_folds: Sequence[tuple[Rows, Rows]]) -> Rows:
    return np.unique(np.concatenate([test for _, test in all_folds]))


def _cross_validation_folds(
    dataset: Dataset, seed: int, groups: Rows
) -> tuple[tuple[Rows, Rows], ...]:
    """Return the training and test rows of each cross-validation fold in the pipeline.

    A fold whose training rows are all of one class, because the groups of the others are in its
    test rows, is left out.
    """
    labels, has_one_class = dataset.require_labels(), len(class_counts(dataset)) == 1
    all_folds: Iterable[tuple[Rows, Rows]] = ()
    if len(dataset) >= MIN_TEXTS:
        all_folds = folds(labels, FOLDS, seed, groups, score_single=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        used = tuple(
            (train, test)
            for train, test in all_folds
            if len(test) and (len(class_counts(dataset.take(train))) > 1 or has_one_class)
        )
    if len(used) < 2:
        distinct = describe_groups(groups)
        raise DataError(
            f"{dataset.source}: {plural(len(dataset), 'text')}{_from_columns(dataset)}{distinct}: "
            "too few to hold any out. Give more texts, or a separate file with --test."
        )
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    return used


def _from_columns(dataset: Dataset) -> str:
    columns = dataset.layout.text_columns
    return f" from column {', '.join(map(repr, columns))}" if columns else ""


def _hold_out(dataset: Dataset, fraction: float, seed: int, groups: Rows) -> tuple[Rows, Rows]:
    return hold_out(
        dataset.require_labels(),
        fraction,
        seed,
        groups=groups,
        times=dataset.times,
        source=dataset.source,
    )


# 3 · Training, scoring, saving


def train_and_score(  # noqa: PLR0913 - data, recipe, and where and how to run
    splits: Splits,
    recipe: Recipe,
    folder: Path,
    progress: Progress,
    *,
    baselines: Sequence[str] = (),
    device: str = "auto",
    resume: bool = False,
    max_examples: int = MAX_EXAMPLES,
) -> TrainingResult:
    """Run the training pipeline: train, save and score a model, then train and score baselines."""
    check_baselines(baselines)
    baselines = baselines if splits.streamed is None else ()  # they train in memory
    splits = replace(splits, test=_known_classes(splits).drop_unknown(splits.test))
    checkpoint = folder / CHECKPOINT
    if not resume:
        for name in (*TEACHER_CHECKPOINTS, CHECKPOINT):
            (folder / name).unlink(missing_ok=True)
    _announce_teacher_per_fold(splits, progress)
    progress = _with_time_left(progress, splits, recipe, baselines, device)
    started = time.perf_counter()
    classifier = fit_recipe(recipe, splits, progress, checkpoint=checkpoint, device=device)
    seconds = time.perf_counter() - started
    progress.stage("saving")
    classifier.save(folder, data=describe_splits(splits))
    progress.stage("scoring on the test set", len(splits.test))
    scores, speed = score_saved_model(folder, splits.test, progress)
    if splits.folds:
        scores = cross_validate(splits, partial(fit_recipe_fold, recipe, splits, device), progress)
    leaderboard = [
        LeaderboardRow.from_scores(
            model_title(recipe), scores, size=folder_size(folder), speed=speed, seconds=seconds
        )
    ]
    leaderboard += [_baseline_row(name, splits, recipe, progress) for name in baselines]
    examples = choose_test_examples(splits.test, max_examples)
    metrics = {
        "test": scores.as_dict(),
        "leaderboard": [row.as_dict() for row in leaderboard],
        "examples": examples,
    }
    changes = _score_changes(splits, folder, scores, progress)
    if changes:
        metrics["continuation"] = [change.as_dict() for change in changes]
    add_metrics(folder, metrics)
    delete_stale_files(folder)
    for path in folder.glob(f".{CHECKPOINT}.*"):  # of a teacher, or left over from a killed run
        path.unlink(missing_ok=True)
    checkpoint.unlink(missing_ok=True)  # last: without a checkpoint the run counts as finished
    return TrainingResult(folder, scores, leaderboard, examples, len(splits.folds), tuple(changes))


def _with_time_left(
    progress: Progress, splits: Splits, recipe: Recipe, baselines: Sequence[str], device: str
) -> Progress:
    """Make the progress of a pipeline run on a CPU also report an estimate of the time left."""
    if splits.folds or splits.teacher is not None:
        return progress
    from lamatext.training.time_left import BYTES_PER_WORD, RunSize, TimeLeft, expected_stages
    from lamatext.training.trainer import pick_device

    if pick_device(device).type != "cpu":
        return progress
    if splits.streamed is None:
        texts, classes = len(splits.train), len(_known_classes(splits).classes)
        text_bytes = int(pc.sum(pc.binary_length(splits.train.texts)).as_py() or 0)
        if splits.validation is None:
            validation = int(recipe.training.validation_fraction * texts)
        else:
            validation = len(splits.validation)
            text_bytes = text_bytes * (texts + validation) // max(texts, 1)
            texts += validation
    else:
        texts, classes = len(splits.streamed.labels), len(splits.streamed.classes)
        text_bytes = int(BYTES_PER_WORD * len(splits.streamed.tokens.rows.ids))
        validation = texts - splits.streamed.training_texts
    size = RunSize(texts, text_bytes, classes, validation, len(splits.test))
    return TimeLeft(progress, expected_stages(size, recipe, baselines=baselines))


def _score_changes(
    splits: Splits, folder: Path, scores: AnyScores, progress: Progress
) -> list[ScoreChange]:
    start = splits.start
    if start is None:
        return []
    test = splits.test.take(_scored_rows(splits.folds)) if splits.folds else splits.test
    return measure_changes(start.folder, folder, start.tests, (test, scores), progress)


def _known_classes(splits: Splits) -> LabelEncoder:
    """Return the label encoder of the pipeline's model, with a continued model's classes first."""
    labels = LabelEncoder.fit(splits.train.require_labels())
    if splits.start is None:
        return labels
    old = LabelEncoder(tuple(map(str, load_config(splits.start.folder)["labels"])))
    return LabelEncoder((*old.classes, *old.unknown(labels.classes)))


def _announce_teacher_per_fold(splits: Splits, progress: Progress) -> None:
    """Report that the pipeline trains a teacher model for each cross-validation fold."""
    if splits.folds and splits.teacher is not None:
        from lamatext.training.teachers import is_encoder_name

        if is_encoder_name(splits.teacher):
            progress.note(
                f"the teacher is trained {len(splits.folds) + 1} times: for the saved model and, "
                "without the labels of each fold, for the cross-validation. Texts of your own with "
                "--test make it once."
            )


def fit_recipe(
    recipe: Recipe,
    splits: Splits,
    progress: Progress,
    *,
    checkpoint: Path | None = None,
    device: str = "auto",
) -> "TextClassifier":
    """Fit a classifier with the settings of a recipe on the pipeline's training set."""
    from lamatext.classifier import TextClassifier  # needs scikit-learn, which evaluating does not

    validation = splits.validation
    if splits.start is None:
        classifier = TextClassifier.of_recipe(recipe, device=device, teacher=splits.teacher)
    else:
        classifier = TextClassifier.load(splits.start.folder)
        settings = changeable_values(recipe)
        classifier.set_params(warm_start=True, device=device, settings=settings)
    if splits.streamed is not None:
        return classifier.fit_streamed(
            splits.streamed, splits.train, checkpoint=checkpoint, progress=progress
        )
    with warnings.catch_warnings():  # the split has already warned
        warnings.filterwarnings("ignore", message=".* seen once", category=UserWarning)
        return classifier.fit(
            splits.train.texts,
            splits.train.require_labels(),
            groups=splits.train.group_values,
            validation_data=None
            if validation is None
            else (validation.texts, validation.labels, validation.group_values),
            unlabelled=splits.unlabelled if splits.teacher is not None else None,
            checkpoint=checkpoint,
            progress=progress,
        )


def score_saved_model(
    folder: Path, test: Dataset, progress: Progress = SILENT
) -> tuple[AnyScores, float]:
    """Evaluate the pipeline's saved model on a test set; return its scores and texts per second."""
    predictor = Predictor.load(folder)
    test, truth = encode_test_labels(predictor, test)
    predictor.predict_proba([""])  # load the engine before the clock starts
    texts = chain.from_iterable(batch.to_pylist() for batch in text_batches(test.texts))
    started = time.perf_counter()
    probabilities = predictor.predict_proba(track_progress(texts, progress)).astype(np.float64)
    seconds = time.perf_counter() - started
    return score_predictions(predictor, truth, probabilities), len(test) / seconds


class FoldPrediction(NamedTuple):
    """Predictions of one of the pipeline's cross-validation models for its test fold."""

    classes: Sequence[object]
    probabilities: Floats  # (n, C)
    thresholds: LabelThresholds | None  # of a model with several labels per text


class CrossValidatedPredictions(NamedTuple):
    """Cross-validated predictions: each by a model of the pipeline not trained on the text."""

    rows: Rows  # of the pipeline's data that are in a test fold
    probabilities: Floats  # (rows, C)
    decided: Flags  # (rows, C) the predicted classes


# Trains on a dataset and predicts another one.
FoldModel = Callable[[Dataset, Dataset, Progress], FoldPrediction]


def cross_validate(splits: Splits, fit_fold: FoldModel, progress: Progress) -> AnyScores:
    """Evaluate a recipe or baseline by cross-validation, training one model per fold."""
    encoder = _known_classes(splits)
    rows, probabilities, decided = cross_validated_predictions(splits, fit_fold, progress)
    truth = encoder.encode_targets(splits.test.require_labels())[rows]
    predicted = decided if splits.test.is_multi_label else None
    return score_targets(encoder.classes, truth, probabilities, predicted, folds=len(splits.folds))


def cross_validated_predictions(
    splits: Splits, fit_fold: FoldModel, progress: Progress
) -> CrossValidatedPredictions:
    """Predict the texts of the pipeline's test folds with models trained on the other folds."""
    data = splits.test
    encoder = _known_classes(splits)
    probabilities = np.zeros((len(data), len(encoder.classes)))
    decided = np.zeros(probabilities.shape, np.bool_)
    for number, (train, test) in enumerate(splits.folds, start=1):
        progress.stage(f"cross-validation, fold {number} of {len(splits.folds)}")
        predicted = fit_fold(data.take(train), data.take(test), SILENT)
        cells = np.ix_(test, encoder.encode([str(label) for label in predicted.classes]))
        probabilities[cells] = predicted.probabilities
        decided[cells] = decide_classes(predicted.probabilities, predicted.thresholds)
    rows = _scored_rows(splits.folds)
    return CrossValidatedPredictions(rows, probabilities[rows], decided[rows])


def fit_recipe_fold(
    recipe: Recipe, splits: Splits, device: str, train: Dataset, test: Dataset, progress: Progress
) -> FoldPrediction:
    """Train a recipe on all folds but one and predict the texts of the remaining fold."""
    with warnings.catch_warnings():  # the whole data has already warned
        warnings.simplefilter("ignore", UserWarning)
        fold = _without_test_texts(replace(splits, train=train, test=test, folds=()))
        fold_recipe, fold = _without_missing_classes(recipe, splits, fold)
        classifier = fit_recipe(fold_recipe, fold, progress, device=device)
    probabilities = classifier.predict_proba(test.texts.to_pylist()).astype(np.float64)
    return FoldPrediction(classifier.classes_.tolist(), probabilities, classifier.thresholds_)


def _without_missing_classes(recipe: Recipe, splits: Splits, fold: Splits) -> tuple[Recipe, Splits]:
    """Restrict the recipe, validation data and teacher to the classes of a pipeline fold.

    A class that occurs once in the pipeline's data is missing in the training texts of one fold.
    """
    known, classes = _known_classes(splits), _known_classes(fold)
    missing = set(map(str, classes.unknown(known.classes)))
    if not missing:
        return recipe, fold
    is_multi_label = fold.train.is_multi_label
    teacher = teacher_without(splits.teacher, known.names, missing, multi_label=is_multi_label)
    validation = validation_of_classes(fold.validation, classes)
    return recipe_without(recipe, missing), replace(fold, validation=validation, teacher=teacher)


def fit_baseline_fold(
    name: str, training: TrainingSettings, train: Dataset, test: Dataset, _: Progress
) -> FoldPrediction:
    """Train a baseline on all folds but one and predict the texts of the remaining fold."""
    with warnings.catch_warnings():  # the whole data has already warned
        warnings.simplefilter("ignore", UserWarning)
        baseline = train_baseline(name, train, training=training)
    probabilities = baseline.predict_proba(test.texts.to_pylist())
    thresholds = None if baseline.decision is None else baseline.decision.thresholds
    return FoldPrediction(baseline.labels.classes, probabilities, thresholds)


def choose_test_examples(test: Dataset, count: int) -> list[dict[str, str]]:
    """Choose example texts from the pipeline's test set for the model card and the web page.

    They are drawn at random, of different classes if possible, whether or not the model predicts
    them correctly; shorter texts are preferred.
    """
    labels, chosen = _label_names(test), dict[str, str]()  # label by text
    rows = np.random.default_rng(0).permutation(len(test))[:EXAMPLE_CANDIDATES].tolist()
    for per_class, longest, row in product(range(1, count + 1), LONGEST_EXAMPLES, rows):
        if len(chosen) == count:
            break
        text, label = test.texts[row].as_py().strip(), labels[row]
        is_wanted = list(chosen.values()).count(label) < per_class
        if is_wanted and SHORTEST_EXAMPLE <= len(text) <= longest:
            chosen.setdefault(text, label)
    return [{"text": text, "label": label} for text, label in chosen.items()]


def _label_names(dataset: Dataset) -> list[str]:
    labels = dataset.require_labels().to_pylist()
    return [", ".join(label) if isinstance(label, list) else str(label) for label in labels]


def model_title(recipe: Recipe) -> str:
    """Return the name of the pipeline's own model in the leaderboard.

    It is lamatext, or the name of the network if there is no n-gram model.
    """
    return "lamatext" if recipe.ngrams.enabled else recipe.model.name


def describe_splits(splits: Splits) -> dict[str, Any]:
    """Return facts about the pipeline's data that are saved with the model."""
    facts: dict[str, Any] = {
        "source": splits.train.source,
        "training_texts": len(splits.train)
        if splits.streamed is None
        else splits.streamed.training_texts,
        "test_texts": 0 if splits.folds else len(splits.test),
        "folds": len(splits.folds),
        "layout": splits.train.layout.as_json(),
    }
    if splits.train.left_out:
        facts["left_out_rows"] = list(splits.train.left_out)
    if splits.moved and not splits.folds:
        facts["moved_rows"] = list(splits.moved)
    if splits.test_source is not None:
        facts["test_source"] = splits.test_source
    if splits.validation is not None:
        is_known = np.zeros(len(splits.validation), bool)
        if splits.streamed is None:  # otherwise the training texts are not in memory
            is_known = validation_texts_to_leave_out(splits.validation.texts, splits.train.texts)
        facts["validation_texts"] = int((~is_known).sum())
    if splits.teacher is not None:
        facts["unlabelled_texts"] = len(splits.unlabelled)
    return {**facts, "lesson": _lesson_fingerprint(splits), **_held_out_fingerprints(splits)}


def _lesson_fingerprint(splits: Splits) -> str:
    teacher = splits.teacher
    if teacher is None:
        return ""
    if isinstance(teacher, ProbabilityTable):
        return fingerprint(teacher.source, teacher.probabilities, splits.unlabelled)
    return fingerprint(str(teacher), splits.unlabelled)


def _held_out_fingerprints(splits: Splits) -> dict[str, str]:
    test = None if splits.folds else splits.test
    held_out = {"test_fingerprint": test, "validation_fingerprint": splits.validation}
    return {name: dataset_fingerprint(part) for name, part in held_out.items() if part is not None}


def _baseline_row(name: str, splits: Splits, recipe: Recipe, progress: Progress) -> LeaderboardRow:
    """Train and score a baseline for the pipeline's leaderboard.

    It is trained on the training and validation sets, because it has no early stopping.
    """
    title = AVERAGE_EMBEDDING if name == "avg" else BASELINES[name].title
    progress.stage(f"training the baseline {title}")
    if name == "avg":
        part = NamedProgress(f"baseline {title}", progress)
        row = _average_embedding_row(splits, recipe, part)
    else:
        with warnings.catch_warnings():  # the split has already warned
            warnings.filterwarnings("ignore", message=".* seen once", category=UserWarning)
            trained = train_baseline(name, splits.train, splits.validation, recipe.training)
        row = trained.evaluate(splits.test)
        if splits.folds:
            fit_fold = partial(fit_baseline_fold, name, recipe.training)
            row = row.with_scores(cross_validate(splits, fit_fold, progress))
    progress.note(f"baseline {title}: trained in {row.seconds:.1f} s")
    return row


def _average_embedding_row(splits: Splits, recipe: Recipe, progress: Progress) -> LeaderboardRow:
    """Train and score the average-embedding baseline for the pipeline's leaderboard.

    It averages the word embeddings and has the same classifier on top as our model.
    """
    started = time.perf_counter()
    average = recipe.with_values(AVERAGE_SETTINGS)
    anew = replace(splits, teacher=None, unlabelled=(), start=None)
    classifier = fit_recipe(average, anew, progress)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        scores, speed = score_saved_model(Path(folder), splits.test)
        size = folder_size(Path(folder))
    if splits.folds:
        scores = cross_validate(splits, partial(fit_recipe_fold, average, anew, "auto"), progress)
    return LeaderboardRow.from_scores(
        AVERAGE_EMBEDDING, scores, size=size, speed=speed, seconds=seconds
    )
