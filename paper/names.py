"""Each table and figure by its name: what it needs computed, and what is shown of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lamatext.errors import ConfigError
from lamatext.training.trainer import pick_device
from paper import accuracy_tables, protocol, tables, word_weights
from paper.counts import count_all_parameters, count_sets
from paper.figures import FIGURES, draw
from paper.instead import NAMES as BASELINE_NAMES
from paper.instead import measure_baseline
from paper.prepared import load_prepared
from paper.published import DATASETS
from paper.records import Results
from paper.runner import Place, Say, Todo, run_all
from paper.timing import LENGTHS, TEXTS, measure_growth, time_epochs
from paper.trial import Trial

QUICK_TEXTS = 600  # of each part
QUICK_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Work:
    """How much to compute, where, and for how long."""

    place: Place
    workers: int = 1
    minutes: float = 24 * 60
    quick: bool = False
    bert: bool = True
    say: Say = print

    @property
    def results(self) -> Results:
        """The records as they are now."""
        return Results(self.place.results)

    @property
    def datasets(self) -> tuple[str, ...]:
        """A quick look is at two of the sets."""
        return ("r8", "clothing") if self.quick else tuple(DATASETS)


def _datasets(work: Work) -> None:
    for name in count_sets(work.results, work.datasets):
        work.say(f"{name} is not on this machine: left out")


def _complexity(work: Work) -> None:
    measure_growth(
        work.results, repeats=1 if work.quick else 5, largest=512 if work.quick else 2048
    )


def _parameters(work: Work) -> None:
    name = "r8" if work.quick else "imdb"
    count_all_parameters(work.results, load_prepared(name, work.place.prepared, texts=_texts(work)))


def _runtime(work: Work) -> None:
    for name in ("r8",) if work.quick else ("r8", "imdb"):
        time_epochs(
            work.results,
            load_prepared(name, work.place.prepared, texts=_texts(work)),
            pick_device(work.place.device),
            lengths=LENGTHS[:2] if work.quick else LENGTHS,
            texts=64 if work.quick else TEXTS,
        )


def _accuracy(work: Work) -> None:
    def todo(results: Results) -> Iterator[Trial]:
        for dataset in work.datasets:
            yield from protocol.cross_validation(dataset)
            yield from protocol.finals(results, dataset)
            if work.bert:
                yield from protocol.fine_tuned(dataset)

    _train(work, (lambda _: _quick_finals()) if work.quick else todo)
    _datasets(work)
    for dataset in work.datasets:
        for baseline in BASELINE_NAMES:
            measure_baseline(work.results, dataset, baseline, texts=_texts(work))


def _quick_finals() -> Iterator[Trial]:
    for model in protocol.TRAINED:
        yield Trial("accuracy", "r8", model, values=(("training.epochs", QUICK_EPOCHS),))


def _heads(work: Work) -> None:
    _train(work, lambda _: _some(work, protocol.cross_validation))


def _keywords(work: Work) -> None:
    _train(work, lambda _: _some(work, protocol.keywords))


def _probe(work: Work) -> None:
    _train(work, lambda _: _some(work, protocol.probes))


def _ablation(work: Work) -> None:
    _train(work, lambda _: _some(work, protocol.ablations))


def _some(work: Work, make: Callable[[str], Iterator[Trial]]) -> Iterator[Trial]:
    """The trials of all sets; for a quick look few epochs, and one seed and fold of LAMA+ctx."""
    few = ("training.epochs", QUICK_EPOCHS)
    for dataset in work.datasets:
        for trial in make(dataset):
            if not work.quick:
                yield trial
            elif trial.experiment == "probe" or _first(trial):
                yield replace(trial, values=(*trial.values, few))


def _first(trial: Trial) -> bool:
    return (trial.model, trial.seed) == ("lama-ctx", 0) and trial.fold in (0, None)


def _train(work: Work, todo: Todo) -> None:
    run_all(work.place, todo, workers=work.workers, minutes=work.minutes, say=work.say)


def _texts(work: Work) -> int | None:
    return QUICK_TEXTS if work.quick else None


Table = Callable[[Results], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: what computes its records, and the tables that show them."""

    compute: Callable[[Work], None]
    tables: tuple[Table, ...] = ()


NAMES: dict[str, Entry] = {
    "datasets": Entry(_datasets, (tables.datasets_table,)),
    "complexity": Entry(_complexity, (tables.complexity_table,)),
    "accuracy": Entry(
        _accuracy,
        (
            accuracy_tables.accuracy_table,
            accuracy_tables.beside_paper_table,
            accuracy_tables.intervals_table,
        ),
    ),
    "parameters": Entry(_parameters, (tables.parameters_table,)),
    "runtime": Entry(_runtime, (tables.runtime_table,)),
    "params-vs-accuracy": Entry(_accuracy, (accuracy_tables.accuracy_table,)),
    "word-weights": Entry(_keywords, (word_weights.weights_table,)),
    "keywords": Entry(_keywords, (tables.keywords_table,)),
    "heads": Entry(_heads, (accuracy_tables.heads_table,)),
    "probe": Entry(_probe, (accuracy_tables.probes_table,)),
    "ablation": Entry(_ablation, (accuracy_tables.ablation_table,)),
}


def lookup(name: str) -> Entry:
    """What belongs to a name."""
    if name not in NAMES:
        raise ConfigError(f"unknown table or figure {name!r}. Known: {', '.join(NAMES)}, all.")
    return NAMES[name]


def show(results: Results, name: str, folder: Path) -> tuple[str, list[Path]]:
    """The tables of a name as Markdown, and the files of its figure."""
    text = "\n\n".join(table(results) for table in lookup(name).tables)
    return text, draw(results, name, folder) if name in FIGURES else []
