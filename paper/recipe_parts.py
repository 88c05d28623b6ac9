"""What each part of the default recipe brings: one part changed at a time, on validation data.

A tenth of the training part is held out and scored; the test parts are not read.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.data.tokenizer import make_tokenizer
from lamatext.metrics import Scores, score
from lamatext.ngrams.fitting import fit_ngrams
from lamatext.pipeline import Splits, fit_recipe, score_saved_model, split_dataset
from lamatext.progress import SILENT
from lamatext.provenance import commit, versions
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import softmax
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings
from lamatext.training.calibration import fit_factors
from paper.pool import Job, device_name, listed, name_of, options, run_given
from paper.records import Record, Results

EXPERIMENT = "recipe"
SCORES = ("accuracy", "log_loss", "macro_f1", "calibration_error")  # beside these the bytes
WHOLE = "as it is"
NO_NETWORK = "without the network"  # no setting: nothing is left to train but the n-grams
CHANGES: dict[str, dict[str, object]] = {
    WHOLE: {},
    NO_NETWORK: {},
    "without n-grams": {"ngrams.enabled": False},
    "without n-grams of characters": {"ngrams.characters": False},
    "with n-grams of characters": {"ngrams.characters": True},
    "without n-grams of several words": {"ngrams.max_words": 1},
    "without naive-Bayes ratios": {"ngrams.naive_bayes_power": 0.0},
    "naive-Bayes ratios in full": {"ngrams.naive_bayes_power": 1.0},
    "without a temperature": {"model.initial_temperature": None},
    "without max-pooling": {"model.max_pool": False},
    "random word vectors": {"text.word_vectors": "random"},
    "without dropout of embeddings": {"model.embedding_dropout": 0.0},
    "without dropout of words": {"model.word_dropout": 0.0},
    "the first words alone": {"text.last_words": 0},
    "stored in float32": {"storage": "float32"},
}
ADDED = ("with n-grams of characters",)  # what the recipe does not have there, tried all the same
WITHDRAWN: dict[str, object] = {  # in the recipe when its parts were tried; taken out by the result
    "model.word_dropout": 0.1,
    "model.max_pool": True,
}
ONLY_ON = {  # elsewhere the recipe leaves that part out by itself, or hardly a text is that long
    "without n-grams of characters": ("news", "mr", "r52", "topics", "authors"),
    "with n-grams of characters": ("r8", "clothing", "imdb", "newsgroups"),
    "the first words alone": ("imdb",),
}


def jobs(
    sets: Sequence[str], seeds: Sequence[int], changes: Sequence[str] = tuple(CHANGES)
) -> Iterator[Job]:
    """The longest first; of each set and seed the whole recipe before its variants."""
    for dataset in sets:
        name = name_of(dataset)
        for change in (WHOLE, *(change for change in changes if change != WHOLE)):
            if name in ONLY_ON.get(change, (name,)):
                yield from (Job(dataset, change, seed) for seed in seeds)


def run_change(results: Results, job: Job, device: str) -> None:
    """Train the recipe with one part changed and score it, unless that was done before."""
    if results.has(_record(job, SCORES[0], 0.0).key):
        return
    recipe = changed(job)
    parts = split_dataset(load_dataset(job.dataset), None, None, recipe)
    if job.model == NO_NETWORK:
        (scores, size), used = score_ngrams(recipe, parts), "cpu"
    else:
        (scores, size), used = score_recipe(recipe, parts, device), device_name(device)
    values = {metric: float(getattr(scores, metric)) for metric in SCORES} | {"bytes": size}
    results.add([_record(job, metric, value, used) for metric, value in values.items()])


def changed(job: Job) -> Recipe:
    """The recipe whose parts are tried, with the job's seed and its one change."""
    values = {**WITHDRAWN, **CHANGES[job.model], "seed": job.seed}
    return load_recipe("default").with_values(values)


def score_recipe(recipe: Recipe, parts: Splits, device: str = "auto") -> tuple[Scores, int]:
    """Scores and bytes of the model as it is saved."""
    classifier = fit_recipe(recipe, parts, SILENT, device=device)
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        return score_saved_model(Path(folder), parts.test)[0], folder_size(Path(folder))


def score_ngrams(recipe: Recipe, parts: Splits) -> tuple[Scores, int]:
    """Score the n-gram model alone, calibrated on the validation texts; return its bytes too."""
    assert parts.validation is not None
    encoder = LabelEncoder.fit(parts.train.require_labels())
    classes = encoder.classes
    labels, valid_labels, test_labels = (
        encoder.encode(part.require_labels(), source=part.source)
        for part in (parts.train, parts.validation, parts.test)
    )
    train, valid, test = (
        _words(corpus, recipe) for corpus in (parts.train, parts.validation, parts.test)
    )
    counts = Counter(chain.from_iterable(train)).values()
    once = sum(count == 1 for count in counts)
    size = DatasetSize(len(train), sum(counts), once, len(classes))
    ngrams = resolve_auto_settings(recipe, size).ngrams
    first = fit_ngrams(train, labels, ngrams, classes=len(classes)).logits(valid)
    scale, _ = fit_factors(first, np.zeros_like(first), valid_labels)
    everything = np.concatenate([labels, valid_labels])
    last = fit_ngrams([*train, *valid], everything, ngrams, classes=len(classes)).scaled(scale)
    probabilities = softmax(last.logits(test)).astype(np.float64)
    scores = score(classes, test_labels, probabilities)
    return scores, len(save(last.to_tensors()))


def _words(corpus: Dataset, recipe: Recipe) -> list[list[str]]:
    tokenizer = make_tokenizer(recipe.text.tokenizer, lower=recipe.text.lowercase)
    return [tokenizer.words(text) for text in corpus.texts.to_pylist()]


def _record(job: Job, metric: str, value: float, device: str = "") -> Record:
    return Record(
        EXPERIMENT,
        name_of(job.dataset),
        job.model,
        metric,
        value,
        job.seed,
        device=device,
        versions=versions(),
        commit=commit(),
        config=CHANGES[job.model],
    )


def main() -> None:
    """``python -m paper.recipe_parts``: train every variant, one job each."""
    parser = options(__doc__)
    parser.add_argument("--changes", type=listed, default=list(CHANGES), help="; ".join(CHANGES))
    given = parser.parse_args()
    wanted = list(jobs(given.sets, given.seeds, given.changes))
    run_given(run_change, wanted, EXPERIMENT, given)


if __name__ == "__main__":
    main()
