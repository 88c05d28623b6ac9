"""``python -m benchmarks small-data``: few texts, rare classes, wrong labels and unspaced scripts.

The default recipe is trained on stratified subsamples, and both parts together are compared with
its own n-gram model alone (accuracy), with the truth (calibration error) and with TF-IDF baselines,
which ``--baselines`` trains on the same draws. All are scored on the test part; ``--validation``
scores on held-out training texts instead.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from benchmarks.accuracy_jobs import (
    RECORDS,
    AccuracyJob,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    run_accuracy_jobs,
    split_names,
)
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import stratified_split
from lamatext.data.text_encoder import TextEncoder
from lamatext.metrics import BINS
from lamatext.recipes import resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.torch_engine import TorchEngine
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "small_data"
VALIDATION_EXPERIMENT = "small_data_validation"
SIZES = ("50", "100", "200", "500", "1000", "2000", "all")
SIB = tuple(f"sib-{code}" for code in ("eng", "deu", "rus", "arb", "hin", "tha", "zho", "jpn"))
CELLS = {
    **dict.fromkeys(("imdb", "r8", "clothing", "news", "mr"), SIZES),
    "clinc150": SIZES[3:],
    **dict.fromkeys(SIB, (*SIZES[:4], "all")),
}
SHOWN_DATASETS = ("r8", "imdb", "news", "clothing", "mr", "clinc150", "sib")
IMBALANCED, BALANCED, FLIPPED = "1:50", "1:50 balanced", "20 % flipped"
WORDS, CHARACTERS = "words", "characters"  # baselines; every draw of few texts has the first
SPECIAL = {"mr": (IMBALANCED, BALANCED, FLIPPED), "imdb": (IMBALANCED, BALANCED), "r8": (FLIPPED,)}
ALL_DATASETS = ",".join(CELLS)
MAX_HELD_OUT = 2000
WITHOUT_CHARACTERS = "imdb"  # too slow on its 25,000 long test texts
Indices = NDArray[np.int64]


class Parts(NamedTuple):
    """Training texts of one draw and the texts that score it."""

    train: Dataset
    test: Dataset


def draw_parts(job: AccuracyJob, *, validation: bool) -> Parts:
    """Draw the training texts of a small-data job; the scored texts are the same in every draw."""
    train = load_paper_dataset(job.dataset)
    if job.dataset in SIB:
        train = train.concatenate(load_paper_dataset(job.dataset, "valid"))
    if validation:
        labels = train.require_labels()
        share = min(0.2, MAX_HELD_OUT / len(train))
        rest, held_out = stratified_split(labels, (1 - share, share), 7)
        train, test = train.take(rest), train.take(held_out)
    else:
        test = load_paper_dataset(job.dataset, "test")
    assert job.seed is not None
    if job.model.isdigit() and int(job.model) < len(train):
        share = int(job.model) / len(train)
        rows, _ = stratified_split(train.require_labels(), (share, 1 - share), job.seed)
        train = train.take(rows)
    if job.model in (IMBALANCED, BALANCED):
        train = train.take(imbalanced_rows(train, job.seed))
    if job.model == FLIPPED:
        train, test = flip_labels(train, job.seed), flip_labels(test, job.seed + 1000)
    return Parts(train, test)


def imbalanced_rows(train: Dataset, seed: int) -> Indices:
    """Return the rows of one class and a fiftieth as many of the other, drawn at random."""
    labels = np.array(train.require_labels().to_pylist())
    common, rare = (np.flatnonzero(labels == name) for name in np.unique(labels))
    kept = np.random.default_rng(seed).permutation(rare)[: len(common) // 50]
    return np.sort(np.concatenate([common, kept]))


def flip_labels(dataset: Dataset, seed: int) -> Dataset:
    """Replace a fifth of the labels, drawn at random, by one of the other labels."""
    labels = np.array(dataset.require_labels().to_pylist())
    names, codes = np.unique(labels, return_inverse=True)
    draw = np.random.default_rng(seed)
    wrong = draw.random(len(codes)) < 0.2
    codes[wrong] = (codes[wrong] + draw.integers(1, len(names), wrong.sum())) % len(names)
    flipped = pa.chunked_array([names[codes].tolist()], pa.string())
    return Dataset(dataset.texts, flipped, dataset.source)


def measure_job(job: AccuracyJob, device: str, *, validation: bool = False) -> list[Record]:
    """Train one draw of the small-data benchmark and return the records of its scores."""
    parts = draw_parts(job, validation=validation)
    values: dict[str, object] = {"seed": job.seed}
    if job.model == BALANCED:
        values["training.class_weight"] = "balanced"
    recipe = resolve_recipe(recipe="default", values=values)
    classifier = TextClassifier.of_recipe(recipe, device=device)
    classifier.fit(parts.train.texts, parts.train.labels)
    scores = score_classifier(classifier, parts.test)
    if job.model == FLIPPED:  # accuracy on the true labels, calibration on the flipped ones
        clean = draw_parts(AccuracyJob(job.dataset, "all", job.seed), validation=validation).test
        scores |= {"accuracy": score_classifier(classifier, clean)["accuracy"]}
        parts = Parts(parts.train, clean)
    if not job.model.isdigit():
        scores |= score_baselines(parts, job)
    return _records(job, scores, device_name(device), validation=validation)


def measure_baselines(
    job: AccuracyJob,
    device: str,  # noqa: ARG001 - TF-IDF runs on the CPU
    *,
    validation: bool = False,
) -> list[Record]:
    """Train the TF-IDF baselines on one draw of the small-data benchmark and score them."""
    scores = score_baselines(draw_parts(job, validation=validation), job)
    return _records(job, scores, "cpu", validation=validation)


def _records(
    job: AccuracyJob,
    scores: Mapping[str, float | list[float]],
    device: str,
    *,
    validation: bool,
) -> list[Record]:
    """Return the records of a small-data job."""
    name = VALIDATION_EXPERIMENT if validation else EXPERIMENT
    return [
        Record(
            name, job.dataset_name, job.model, metric, value, job.seed, device=device
        ).with_provenance()
        for metric, value in scores.items()
    ]


def score_classifier(classifier: TextClassifier, test: Dataset) -> dict[str, float | list[float]]:
    """Score both parts of a classifier together and its n-grams alone on test texts."""
    encoder = classifier.encoder_
    assert isinstance(encoder, TextEncoder)
    assert classifier.ngrams_ is not None
    labels = LabelEncoder(tuple(classifier.classes_.tolist()))
    truth = labels.encode(test.require_labels(), place=test.place)
    words = [encoder.tokenizer.words(text) for text in test.texts.to_pylist()]
    ngrams = classifier.ngrams_.logits(words)
    noise = classifier.facts_.get("label_noise", 0.0)
    engine = TorchEngine(classifier.network_)
    network = Predictor(engine, encoder, classifier.classes_, label_noise=noise)
    logits = network.logits_of_words(words) + ngrams
    probabilities = network.probabilities(logits).astype(np.float64)
    predicted = probabilities.argmax(axis=1)
    scores: dict[str, float | list[float]] = {
        "accuracy": float((predicted == truth).mean()),
        "ngrams_accuracy": float((ngrams.argmax(axis=1) == truth).mean()),
        "network_factor": float(classifier.facts_["training"]["scales"]["network"]),
        "reliability": reliability_sums(truth, probabilities),
    }
    if probabilities.shape[1] == 2:
        recalls = [(predicted[truth == c] == c).mean() for c in (0, 1)]
        scores["balanced_accuracy"] = float(np.mean(recalls))
        scores["auc"] = area_under_roc(truth, probabilities[:, 1])
    return scores


def score_baselines(parts: Parts, job: AccuracyJob) -> dict[str, float | list[float]]:
    """Score the TF-IDF baselines that a small-data job is compared with.

    A baseline without any feature predicts the most frequent class: in some draws of unspaced
    texts no word occurs twice.
    """
    from sklearn.dummy import DummyClassifier

    encoder = LabelEncoder.fit(parts.train.require_labels())
    labels = encoder.encode(parts.train.require_labels())
    truth = encoder.encode(parts.test.require_labels(), place=parts.test.place)
    scores: dict[str, float | list[float]] = {}
    training_texts, texts = parts.train.texts.to_pylist(), parts.test.texts.to_pylist()
    for name, pipeline in _baselines(job).items():
        try:
            model = pipeline.fit(training_texts, labels)
        except ValueError as error:
            if "no terms remain" not in str(error):
                raise
            model = DummyClassifier().fit(training_texts, labels)
        scores[f"{name} accuracy"] = float((model.predict(texts) == truth).mean())
        if len(encoder.classes) == 2 and hasattr(model, "decision_function"):
            scores[f"{name} auc"] = area_under_roc(truth, model.decision_function(texts))
    return scores


def _baselines(job: AccuracyJob) -> dict[str, Any]:
    """Return the untrained baselines of a job: of few texts, all sib texts and special draws.

    Their n-grams occur in two training texts or more; with few texts, also in one or more.
    """
    names = _baseline_names(job)
    baselines = {name: _tfidf_model(name, min_df=2) for name in names}
    if job.model.isdigit():
        baselines |= {f"{name}, all": _tfidf_model(name, min_df=1) for name in names}
    return baselines


def _baseline_names(job: AccuracyJob) -> list[str]:
    """Return the names of the TF-IDF baselines that a small-data job is compared with."""
    if job.dataset in SIB and job.model == "all":
        return [CHARACTERS] if job.seed == 0 else []  # every draw has the same texts
    if job.model == IMBALANCED:
        return [WORDS]
    if job.model != FLIPPED and not job.model.isdigit():
        return []
    names = [WORDS, "words, logistic", "words, logistic, C=1"]
    if job.dataset != WITHOUT_CHARACTERS:
        names.append("words and characters")
    return [*names, CHARACTERS] if job.dataset in SIB else names


def _tfidf_model(name: str, min_df: int) -> Any:
    """Return an untrained TF-IDF baseline whose n-grams occur in ``min_df`` texts or more."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    tfidf = partial(TfidfVectorizer, sublinear_tf=True, min_df=min_df)
    words = tfidf(ngram_range=(1, 2))
    match name:
        case "words and characters":
            in_words = tfidf(analyzer="char_wb", ngram_range=(2, 5))
            return make_pipeline(make_union(words, in_words), LinearSVC(C=0.5))
        case "characters":  # some languages are written without spaces
            return make_pipeline(tfidf(analyzer="char", ngram_range=(1, 4)), LinearSVC())
        case "words":
            return make_pipeline(words, LinearSVC())
        case _:
            c = 1 if name.endswith("C=1") else 10
            return make_pipeline(words, LogisticRegression(C=c, max_iter=1000))


def area_under_roc(truth: Indices, scores: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve of scores for class 1; ties count half."""
    from scipy.stats import rankdata

    positive = truth == 1
    ranks, count = rankdata(scores)[positive].sum(), int(positive.sum())
    return float((ranks - count * (count + 1) / 2) / (count * (len(truth) - count)))


def reliability_sums(truth: Indices, probabilities: NDArray[np.float64]) -> list[float]:
    """Return the number of texts, and the sums of confidence and hits, in each confidence bin."""
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == truth
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = [np.bincount(bins, values, BINS) for values in (np.ones(len(bins)), confidence, correct)]
    return [round(float(value), 4) for value in np.concatenate(sums)]


def pooled_calibration_error(sums: Sequence[Sequence[float]]) -> float:
    """Return the expected calibration error of several draws with their predictions pooled."""
    texts, confidence, correct = np.sum(sums, axis=0).reshape(3, BINS)
    return float(np.abs(confidence - correct).sum() / texts.sum())


Values = dict[tuple[str, str, str], list[Record]]  # by data set, size and metric


def read_values(records: Records, experiment: str = EXPERIMENT) -> Values:
    """Return the small-data records by data set (the sib sets together), size and metric."""
    values: Values = defaultdict(list)
    for record in records.of(experiment):
        dataset = "sib" if record.dataset in SIB else record.dataset
        values[dataset, record.model, record.metric].append(record)
    return values


def small_data_table(records: Records, experiment: str = EXPERIMENT) -> str:
    """Format accuracy, its difference from the n-grams alone, and the calibration error."""
    values, rows = read_values(records, experiment), []
    for dataset in SHOWN_DATASETS:
        cells = []
        for size in SIZES:
            accuracy = [r.number for r in values.get((dataset, size, "accuracy"), [])]
            if not accuracy:
                cells.append(MISSING)
                continue
            ngrams = [r.number for r in values[dataset, size, "ngrams_accuracy"]]
            sums = [r.value for r in values[dataset, size, "reliability"]]
            error = pooled_calibration_error(sums)  # type: ignore[arg-type]
            difference = f"{100 * (mean(accuracy) - mean(ngrams)):+.2f}".replace("-", "−")
            cells.append(f"{mean(accuracy):.3f} ({difference}; {error:.3f})")
        rows.append([dataset, *cells])
    return markdown_table(["training texts", *SIZES], rows)


def few_texts_table(records: Records, experiment: str = EXPERIMENT) -> str:
    """Format accuracy with few texts next to that of the cell's best TF-IDF baseline."""
    accuracies, rows = few_texts_accuracies(records, experiment), []
    for dataset in SHOWN_DATASETS:
        pairs = [accuracies.get((dataset, size)) for size in SIZES[:-1]]
        rows.append(
            [dataset, *(f"{pair[0]:.3f} ({pair[1]:.3f})" if pair else MISSING for pair in pairs)]
        )
    return markdown_table(["training texts", *SIZES[:-1]], rows)


def few_texts_accuracies(
    records: Records, experiment: str = EXPERIMENT
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return lamatext's accuracy and that of the best TF-IDF baseline by data set and size.

    The sib sets are averaged, each with its own best baseline.
    """
    values = read_values(records, experiment)
    accuracies = {}
    for dataset in SHOWN_DATASETS:
        names = SIB if dataset == "sib" else (dataset,)
        for size in SIZES[:-1]:
            pairs = [pair for name in names if (pair := _with_best_baseline(values, name, size))]
            if pairs:
                ours, best = zip(*pairs, strict=True)
                accuracies[dataset, size] = mean(ours), mean(best)
    return accuracies


def _with_best_baseline(values: Values, dataset: str, size: str) -> tuple[float, float] | None:
    """Return lamatext's mean accuracy and that of the best baseline; None if not measured.

    Only draws on which all of them were measured count.
    """
    pooled = "sib" if dataset in SIB else dataset
    by_draw = {
        metric: {record.seed: record.number for record in records if record.dataset == dataset}
        for (name, draw, metric), records in values.items()
        if (name, draw) == (pooled, size)
        if metric == "accuracy" or metric.endswith(" accuracy")
    }
    draws = set.intersection(*(set(scores) for scores in by_draw.values())) if by_draw else set()
    if not draws or len(by_draw) == 1:
        return None
    means = {metric: mean(scores[draw] for draw in draws) for metric, scores in by_draw.items()}
    return means.pop("accuracy"), max(means.values())


def wrong_labels_table(records: Records) -> str:
    """Format the scores of small-data jobs with flipped labels next to the best TF-IDF baseline.

    The accuracy is that on clean test labels, the calibration error that on flipped ones.
    """
    values, rows = read_values(records), []
    for dataset in (name for name, variants in SPECIAL.items() if FLIPPED in variants):
        scores = {
            metric: mean(record.number for record in found)
            for (name, size, metric), found in values.items()
            if (name, size) == (dataset, FLIPPED) and metric.endswith("accuracy")
        }
        if "accuracy" not in scores:
            continue
        best = max(score for metric, score in scores.items() if metric.endswith(" accuracy"))
        draws = values[dataset, FLIPPED, "reliability"]
        error = pooled_calibration_error([r.value for r in draws])  # type: ignore[misc]
        row = [f"{scores['accuracy']:.3f}", f"{best:.3f}", f"{error:.3f}", str(len(draws))]
        rows.append([dataset, *row])
    head = ["20 % of the labels wrong", "accuracy", "best TF-IDF", "calibration error", "draws"]
    return markdown_table(head, rows)


def imbalance_table(records: Records) -> str:
    """Format the scores of small-data jobs in which one class has a fiftieth of the other's texts.

    The area under the ROC curve is compared with that of TF-IDF and LinearSVC, and the balanced
    accuracy with that of the same texts with balanced class weights.
    """
    values, rows = read_values(records), []
    for dataset in (name for name, variants in SPECIAL.items() if IMBALANCED in variants):
        columns = (
            (IMBALANCED, "auc"),
            (IMBALANCED, "words auc"),
            (IMBALANCED, "balanced_accuracy"),
            (BALANCED, "balanced_accuracy"),
        )
        found = [values.get((dataset, *column), []) for column in columns]
        if all(found):
            cells = [f"{mean(record.number for record in column):.3f}" for column in found]
            rows.append([dataset, *cells, str(len(found[-1]))])
    head = ["1 text of one class per 50", "AUC", "TF-IDF + LinearSVC, AUC"]
    head += ["balanced accuracy", "with balanced weights", "draws"]
    return markdown_table(head, rows)


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Annotated[str, typer.Option(help="Names, separated by commas.")] = ALL_DATASETS,
    sizes: Annotated[str, typer.Option(help="Sizes or variants; none means all.")] = "",
    seeds: Seeds = "0,1,2,3,4",
    validation: Annotated[
        bool, typer.Option("--validation", help="Score on held-out training texts.")
    ] = False,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Train TF-IDF models instead, on up to 2,000 texts.")
    ] = False,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train on subsamples of every data set and record accuracy and calibration, draw by draw."""
    experiment = VALIDATION_EXPERIMENT if validation else EXPERIMENT
    chosen = split_names(sizes)
    jobs = [
        AccuracyJob(dataset, size, int(seed))
        for seed in split_names(seeds)
        for dataset in split_names(datasets)
        for size in (*reversed(CELLS[dataset]), *SPECIAL.get(dataset, ()))
        if (not chosen or size in chosen) and (not baselines or size.isdigit())
    ]
    measure, metric = measure_job, "accuracy"
    if baselines:
        measure, metric = measure_baselines, f"{WORDS} accuracy"
    store = Records(records, force=force)
    run_accuracy_jobs(
        store,
        jobs,
        partial(measure, validation=validation),
        lambda job: Record(experiment, job.dataset_name, job.model, metric, 0.0, job.seed),
        device=device,
        workers=workers,
    )
    print((few_texts_table if baselines else small_data_table)(store, experiment))
