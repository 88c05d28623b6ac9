"""The experiments of ``python -m paper``: what each one computes, and the tables it shows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from lamatext.errors import ConfigError, DataError
from lamatext.training.trainer import pick_device
from paper import choices, open_directions, protocol
from paper.ablation import ablation_table, measure_divergence, probes_table
from paper.accuracy_table import (
    accuracy_table,
    earlier_table,
    folds_table,
    intervals_table,
    others_table,
    published_table,
)
from paper.confidence_intervals import prediction_name, store_correctness
from paper.datasets import (
    SUBWORDS,
    TokenizedDataset,
    count_datasets,
    datasets_table,
    load_tokenized,
)
from paper.figures import FIGURES, draw
from paper.heads import heads_table
from paper.length_scaling import (
    EPOCH_TEXTS,
    TEXT_LENGTHS,
    lengths_table,
    measure_lengths,
    measure_training_speed,
    speed_table,
)
from paper.linear_baselines import BASELINE_NAMES, measure_baseline
from paper.loading_cost import loading_table, measure_loading
from paper.markdown import fill_blocks
from paper.official_datasets import BERT_BASE, describe_missing, is_available, pretrained_folder
from paper.parameters import count_all_parameters, parameters_table
from paper.process_pool import Report, run_jobs
from paper.published_results import DATASETS
from paper.records import PAPER_RECORDS, Records
from paper.runtime import (
    LENGTHS,
    TIMED_TEXTS,
    hours_table,
    measure_scaling,
    runtime_table,
    scaling_table,
    time_epochs,
    time_hours,
)
from paper.training_run import Outcome, TrainingRun, train
from paper.two_layer_gru import layers_table
from paper.word_order import TASKS, made_up_dataset
from paper.word_weights import top_words_table, word_weights_table

FINDINGS = Path(__file__).parent / "README.md"
QUICK_TEXTS = 600  # of the training and of the test part
QUICK_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Options:
    """Where an experiment reads and writes, on which device, and for how long it may run."""

    records: Records
    tokenized: Path  # the folder of the tokenized data sets
    device: str = "auto"
    workers: int = 1
    minutes: float = 24 * 60
    quick: bool = False
    report: Report = print
    protocol: str = "seeds"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets of an experiment: two of them with ``--quick``."""
        return ("r8", "clothing") if self.quick else tuple(DATASETS)

    @property
    def max_texts(self) -> int | None:
        """The limit on the texts of each part with ``--quick``; otherwise None."""
        return QUICK_TEXTS if self.quick else None

    def load(self, name: str) -> TokenizedDataset:
        """Load a data set of the experiment as token ids."""
        return load_tokenized(name, self.tokenized, max_texts=self.max_texts)


Runs = Callable[[Records], Iterable[TrainingRun]]


def train_all(options: Options, runs: Runs) -> None:
    """Train every run that has no record yet, and record each one as soon as it is finished."""

    def pending() -> list[TrainingRun]:
        return protocol.in_order(
            [run for run in runs(options.records) if not options.records.has(run.key)]
        )

    work = partial(
        _train_one,
        folder=options.tokenized,
        device=options.device,
        max_texts=options.max_texts,
    )
    run_jobs(
        pending,
        work,
        partial(_record_outcome, options),
        workers=options.workers,
        minutes=options.minutes,
        report=options.report,
    )


def _train_one(run: TrainingRun, folder: Path, device: str, max_texts: int | None) -> Outcome:
    subwords = f"{SUBWORDS}{run.recipe.model.pretrained}" if run.model == "bert" else ""
    data = _load_tokenized(f"{run.dataset}{subwords}", folder, max_texts)
    return train(run, data, pick_device(device))


@lru_cache(maxsize=3)
def _load_tokenized(name: str, folder: Path, max_texts: int | None) -> TokenizedDataset:
    return load_tokenized(name, folder, max_texts=max_texts)


def _record_outcome(options: Options, run: TrainingRun, outcome: Outcome) -> None:
    if outcome.correct is not None:
        settings = dict(run.settings)
        name = prediction_name(run.experiment, run.model, run.seed, settings, run.fold)
        store_correctness(options.records.folder, run.dataset, name, outcome.correct)
    options.records.add(outcome.records)
    metrics = {record.metric: record.value for record in outcome.records}
    options.report(
        f"{run.experiment} {run.dataset} {run.model} seed {run.seed} fold {run.fold} "
        f"{dict(run.settings)}: validation {metrics['validation_accuracy']:.4f} "
        f"test {metrics.get('accuracy', float('nan')):.4f} {outcome.records[-1].seconds:.0f} s"
    )


def _datasets(options: Options) -> None:
    for name in count_datasets(options.records, tuple(_available(options))):
        options.report(f"{name} is not counted: {describe_missing(name)}")


def _complexity(options: Options) -> None:
    repeats, largest = (1, 512) if options.quick else (5, 2048)
    measure_scaling(options.records, repeats=repeats, largest=largest)


def _parameters(options: Options) -> None:
    count_all_parameters(options.records, options.load("r8" if options.quick else "imdb"))


def _runtime(options: Options) -> None:
    for name in ("r8",) if options.quick else ("r8", "imdb"):
        time_epochs(
            options.records,
            options.load(name),
            pick_device(options.device),
            lengths=LENGTHS[:2] if options.quick else LENGTHS,
            texts=64 if options.quick else TIMED_TEXTS,
        )


def _hours(options: Options) -> None:
    if not options.quick:  # BERT-base needs minutes for the smallest number of texts on a CPU
        time_hours(options.records, pick_device(options.device))


def _loading(options: Options) -> None:
    measure_loading(options.records, share=0.001 if options.quick else 1.0)


def _accuracy(options: Options) -> None:
    datasets = _available(options)
    if options.quick:
        train_all(options, _quick_accuracy_runs)
    else:
        is_folds = options.protocol == "folds"
        runs = (_fold_runs if is_folds else _seed_runs)(options, datasets)
        _check_same_texts(options, runs)
        train_all(options, runs)
        if is_folds:
            return
    count_datasets(options.records, tuple(datasets))
    for dataset in datasets:
        for baseline in BASELINE_NAMES:
            measure_baseline(options.records, dataset, baseline, max_texts=options.max_texts)


def _seed_runs(options: Options, datasets: Sequence[str]) -> Runs:
    """Return all runs of the accuracy table, with BERT-base if its weights are on this machine."""
    has_bert = _has_bert(options)

    def runs(records: Records) -> Iterator[TrainingRun]:
        for dataset in datasets:
            yield from choices.choice_runs(dataset)
            yield from protocol.final_runs(records, dataset)
            yield from protocol.fine_tuning_runs(dataset)
            if has_bert:
                yield from protocol.bert_runs(dataset)

    return runs


def _fold_runs(options: Options, datasets: Sequence[str]) -> Runs:
    """Return all runs of the paper's own protocol, with BERT-base if its weights are here."""
    kinds = [protocol.fold_runs, *([protocol.bert_fold_runs] if _has_bert(options) else [])]
    return lambda _: (run for dataset in datasets for kind in kinds for run in kind(dataset))


def _has_bert(options: Options) -> bool:
    """Return whether the files of BERT-base are on this machine; report which are needed."""
    if pretrained_folder(BERT_BASE) is not None:
        return True
    options.report(f"BERT-base is skipped: {describe_missing(BERT_BASE)}")
    return False


def _check_same_texts(options: Options, runs: Runs) -> None:
    """Check that the records are of the texts to train on, if there is anything to train.

    A data set may be replaced by its official files, under the same name.
    """
    waiting = [run for run in runs(options.records) if not options.records.has(run.key)]
    counted = {(r.dataset, r.metric): int(r.number) for r in options.records.of("datasets")}
    for name in dict.fromkeys(run.dataset for run in waiting):
        recorded = counted.get((name, "train")), counted.get((name, "test"))
        if None in recorded:
            continue
        data = options.load(name)
        found = data.train_size, len(data.labels) - data.train_size
        if found != recorded:
            raise DataError(
                f"{name}: {found[0]:,} training and {found[1]:,} test texts, but the records in "
                f"{options.records.folder} are of {recorded[0]:,} and {recorded[1]:,}. Record the "
                "results of other texts in a folder of their own with --records FOLDER."
            )


def _available(options: Options) -> list[str]:
    """Return the data sets that are on this machine; report which files the others need."""
    available = []
    for name in options.datasets:
        if (options.tokenized / f"{name}.npz").is_file() or is_available(name):
            available.append(name)
        else:
            options.report(f"{name} is skipped: {describe_missing(name)}")
    return available


def _quick_accuracy_runs(_: Records) -> Iterator[TrainingRun]:
    for model in protocol.TRAINED_SYSTEMS:
        settings = (("training.epochs", QUICK_EPOCHS),)
        yield TrainingRun("accuracy", "r8", model, settings=settings)


def _word_order(options: Options) -> None:
    for task in TASKS:
        if not (options.tokenized / f"{task}.npz").is_file():
            options.tokenized.mkdir(parents=True, exist_ok=True)
            made_up_dataset(task).save(options.tokenized / f"{task}.npz")
    runs = list(open_directions.order_runs())
    train_all(options, lambda _: _shorten(runs) if options.quick else runs)


def _text_lengths(options: Options) -> None:
    device = pick_device(options.device)
    lengths, texts = (TEXT_LENGTHS[:1], 32) if options.quick else (TEXT_LENGTHS, EPOCH_TEXTS)
    measure_training_speed(options.records, device, texts=texts)
    measure_lengths(options.records, device, lengths=lengths)


def _training(make: Callable[[str], Iterator[TrainingRun]]) -> Callable[[Options], None]:
    """Return an experiment that trains the protocol's runs; ``--quick`` shortens the list."""

    def compute(options: Options) -> None:
        def runs(_: Records) -> Iterator[TrainingRun]:
            for dataset in options.datasets:
                yield from _shorten(make(dataset)) if options.quick else make(dataset)

        train_all(options, runs)

    return compute


def _shorten(runs: Iterable[TrainingRun]) -> Iterator[TrainingRun]:
    """Keep the probes and one seed and fold of LAMA+ctx, with few epochs."""
    for run in runs:
        first = (run.model, run.seed) == ("lama-ctx", 0) and run.fold in (0, None)
        if first or run.experiment in ("probe", "layers"):
            few = ("training.epochs", QUICK_EPOCHS)
            yield replace(run, settings=(*run.settings, few))


def _probe(options: Options) -> None:
    _training(protocol.probe_runs)(options)
    if not options.quick:
        measure_divergence(options.records, options.load("r8"), pick_device(options.device))


Table = Callable[[Records], str]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper: the function that computes its records, and its tables."""

    compute: Callable[[Options], None]
    tables: dict[str, Table]  # by the block of the page of findings that shows them


_ACCURACY_TABLES: dict[str, Table] = {
    "accuracy": accuracy_table,
    "accuracy-others": others_table,
    "published": published_table,
    "intervals": intervals_table,
    "folds": folds_table,
    "earlier": earlier_table,
}
EXPERIMENTS: dict[str, Experiment] = {
    "datasets": Experiment(_datasets, {"datasets": datasets_table}),
    "complexity": Experiment(_complexity, {"complexity": scaling_table}),
    "choices": Experiment(
        _training(choices.choice_runs),
        {
            "schedules": choices.schedules_table,
            "schedules-by-system": choices.schedules_by_system_table,
            "penalties": choices.penalties_table,
            "chosen-heads": choices.chosen_heads_table,
        },
    ),
    "accuracy": Experiment(_accuracy, _ACCURACY_TABLES),
    "parameters": Experiment(_parameters, {"parameters": parameters_table}),
    "runtime": Experiment(_runtime, {"runtime": runtime_table}),
    "hours": Experiment(_hours, {"hours": hours_table}),
    "params-vs-accuracy": Experiment(_accuracy, {"accuracy": accuracy_table}),
    "word-weights": Experiment(
        _training(protocol.attention_runs), {"word-weights": word_weights_table}
    ),
    "keywords": Experiment(_training(protocol.attention_runs), {"keywords": top_words_table}),
    "heads": Experiment(_training(protocol.cross_validation_runs), {"heads": heads_table}),
    "probe": Experiment(_probe, {"probe": probes_table}),
    "loading": Experiment(_loading, {"loading": loading_table}),
    "layers": Experiment(_training(protocol.layer_runs), {"layers": layers_table}),
    "ablation": Experiment(_training(protocol.ablation_runs), {"ablation": ablation_table}),
    "open-directions": Experiment(
        _training(open_directions.direction_runs),
        {
            "open-directions": open_directions.directions_table,
            "open-directions-intervals": open_directions.direction_intervals_table,
            "shuffled-words": open_directions.shuffled_table,
            "after-not": open_directions.negation_table,
        },
    ),
    "phrase-widths": Experiment(
        _training(open_directions.width_runs),
        {"phrase-widths": open_directions.widths_table, "blocks": open_directions.blocks_table},
    ),
    "word-order": Experiment(_word_order, {"word-order": open_directions.order_table}),
    "default-encoders": Experiment(
        _training(open_directions.encoder_runs),
        {"default-encoders": open_directions.encoders_table},
    ),
    "text-lengths": Experiment(
        _text_lengths, {"speed": speed_table, "text-lengths": lengths_table}
    ),
}


NOT_MEASURED = "**Not measured yet: the records have no run of this experiment.**"
MEASURED_BY = {  # blocks that need a record with this value: experiment, field and value
    **dict.fromkeys(
        ("schedules", "schedules-by-system", "penalties", "chosen-heads"),
        (choices.EXPERIMENT, "metric", "validation_accuracy"),
    ),
    **dict.fromkeys(
        ("accuracy", "accuracy-others", "published", "intervals"),
        ("accuracy", "model", "lama-ctx"),
    ),
    "folds": ("folds", "metric", "accuracy"),
    "layers": ("layers", "metric", "accuracy"),
    "loading": ("loading", "metric", "seconds"),
    "hours": ("runtime", "metric", "hours per epoch"),
}


def find_experiment(name: str) -> Experiment:
    """Return the experiment of that name; an unknown name raises ConfigError."""
    if name not in EXPERIMENTS:
        raise ConfigError(
            f"unknown experiment {name!r}. Expected one of {', '.join(EXPERIMENTS)}, all."
        )
    return EXPERIMENTS[name]


def show(records: Records, name: str, figures: Path) -> tuple[str, list[Path]]:
    """Return an experiment's tables as Markdown, and the files of its figure."""
    text = "\n\n".join(table(records) for table in find_experiment(name).tables.values())
    return text, draw(records, name, figures) if name in FIGURES else []


def all_tables(records: Records) -> dict[str, str]:
    """Return every table of the page of findings by its block name.

    A table whose runs have no record is one sentence that says so.
    """
    return {
        block: table(records) if _is_measured(records, block) else NOT_MEASURED
        for experiment in EXPERIMENTS.values()
        for block, table in experiment.tables.items()
    }


def _is_measured(records: Records, block: str) -> bool:
    experiment, column, value = MEASURED_BY.get(block, ("", "", ""))
    return not experiment or any(
        getattr(record, column) == value for record in records.of(experiment)
    )


def update_findings(page: Path = FINDINGS, folder: Path = PAPER_RECORDS) -> None:
    """Update the generated tables of the page of findings; its prose stays as written."""
    fill_blocks(page, all_tables(Records(folder)))
