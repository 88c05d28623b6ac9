"""Suspect labels: texts whose label is probably wrong, found by cross-validation.

Each text is predicted by n-gram models that were fitted neither on it nor on a near-duplicate of
it: ``FOLDS`` folds, ``REPETITIONS`` times with other folds. Their calibrated logits are averaged. A
label is suspect if its probability p is below ``IMPROBABLE``. With the entropy H of all
probabilities, relative to its maximum, and the share a of labels that the models predict, suspects
are ranked by

    score = 1 − min(1, p / Hᵃ)

which lies between two rankings of confident learning (Northcutt et al. 2021), p and p / H. The
entropy helps to tell wrong labels from correct labels of hard texts: a wrong label can be any
label, while a correct label that the models do not expect is usually the only alternative to the
expected label. The more often the models are wrong, the less the entropy tells; hence the exponent.

Near-duplicates with different labels are listed, too, and so are outliers: texts that are more
unusual than 99 % of the others, and whose evidence is below Tukey's fence or most of whose words
are unknown, so that ordinary data has no outliers.

Finished folds are kept in a folder from which an interrupted search resumes.
Shapes: n texts, C classes.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lamatext import __version__
from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.duplicates import group_rows
from lamatext.data.labels import ClassIndices, LabelEncoder, check_label_count
from lamatext.data.splits import Rows, folds
from lamatext.data.suspects_file import COLUMNS, describe_texts, text_hash
from lamatext.data.tokenizer import TokenizedTexts, WordTokenizer
from lamatext.errors import DataError, plural
from lamatext.explain.explanation import Explanation
from lamatext.ngrams.fitting import CountedTexts, fit_ngrams
from lamatext.ngrams.model import NgramModel
from lamatext.outliers import OUTLIER, STEPS, outlier_scores, text_evidence
from lamatext.probabilities import softmax
from lamatext.progress import SILENT, NamedProgress, Progress
from lamatext.recipes import resolve_recipe
from lamatext.runtime.prediction_parts import (
    MANIFEST,
    PartFolder,
    part_path,
    read_manifest,
    same_job,
)
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings
from lamatext.training.calibration import calibrate_ngrams
from lamatext.training.preparation import tokenize_texts

FOLDS = 10
REPETITIONS = 2
MIN_TEXTS = 10
IMPROBABLE = 0.1  # a label with a smaller probability is suspect
MIN_KNOWN = 0.5  # a text with a smaller share of known words may be an outlier
FENCE = 1.5  # Tukey's fence: interquartile ranges below the first quartile
SUPPORTING_WORDS, WEAKEST = 5, 0.1  # number, and share of the largest contribution

Floats = NDArray[np.float64]
Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Text that has a suspect label or is an outlier, with its scores and an explanation."""

    row: int  # in the dataset
    label: str
    suggestion: str  # the most probable other label
    score: float | None  # from 0 to 1, see ``suspect_scores``
    label_probability: float | None  # of models that were not trained on the text
    suggestion_probability: float | None  # None, like the others, if the text could not be held out
    is_improbable: bool  # whether the models find the label improbable
    duplicate: int | None  # row of a near-duplicate with another label
    is_outlier: bool
    explanation: Explanation  # of the suggestion against the label

    @property
    def is_label_suspect(self) -> bool:
        """Whether the label is suspect; false if only the text is an outlier."""
        return self.is_improbable or self.duplicate is not None

    @property
    def supporting_words(self) -> list[str]:
        """Words that support the suggested label over the suspect label."""
        if not self.is_label_suspect or not self.explanation.words:
            return []
        top = self.explanation.top(4 * SUPPORTING_WORDS, self.suggestion)
        least = max(WEAKEST * top[0].contribution, 0)
        strong = [one.word for one in top if one.contribution > least and one.word.strip("!?.,;:")]
        return list({word.casefold(): word for word in strong[::-1]}.values())[::-1][
            :SUPPORTING_WORDS
        ]


@dataclass(frozen=True, slots=True)
class SuspectSearch:
    """Result of the search for suspect labels in a dataset."""

    suspects: list[Suspect]  # the most suspect label first, then outliers
    classes: tuple[str, ...]
    texts: int
    unchecked: int  # texts of labels that occur once, which cannot be held out
    agreement: float  # share of checked texts whose label is the most probable one


@contextmanager
def find_suspects(
    dataset: Dataset,
    *,
    partial_folder: Path,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Iterator[SuspectSearch]:
    """Find suspect labels, near-duplicates with different labels and outliers in a dataset.

    Args:
        dataset: texts with one label each.
        partial_folder: where finished folds are kept until the block that uses the result succeeds;
            a later search in the same data continues with them.
        seed: fixes the folds.
        progress: receives the stages of the search.

    Raises:
        DataError: several labels per text, too few texts, or a single label.
        ConfigError: another process is writing to the folder, or it holds something else.
    """
    encoder = _check_labels(dataset)
    progress.stage("looking for duplicates", len(dataset))
    groups = group_rows(dataset.texts, progress=progress)
    models = OutOfFoldModels.prepare(dataset, seed, groups, progress)
    job = models.describe_job()
    if (partial_folder / MANIFEST).is_file() and not same_job(read_manifest(partial_folder), job):
        progress.note(f"{partial_folder}: of other data or options; starting anew")
    with PartFolder.open(partial_folder, job) as parts:
        if parts.rows_of(0) is not None:
            progress.note(f"Continuing with the finished folds in {partial_folder}")
        tables = [_finish_fold(models, parts, n, progress) for n in range(len(models.folds))]
        predictions = models.combine(tables)
        yield _collect_suspects(dataset, encoder, groups, models, predictions, progress)
        parts.delete()


def _finish_fold(
    models: "OutOfFoldModels", parts: PartFolder, number: int, progress: Progress
) -> pa.Table:
    if parts.rows_of(number) is None:
        table = models.predict_fold(number, progress)
        empty = pa.RecordBatch.from_pylist([], table.schema)
        parts.write(number, table.to_batches() or [empty])
    return pq.read_table(part_path(parts.folder, number))


def _check_labels(dataset: Dataset) -> LabelEncoder:
    labels = dataset.require_labels()
    if dataset.is_multi_label:
        raise DataError(
            f"{dataset.source}: several labels per text. Suspect labels are found only in data "
            "with one label per text: check one label at a time, as yes or no."
        )
    check_label_count(pc.count_distinct(labels).as_py(), len(dataset), dataset.source)
    encoder = LabelEncoder.fit(labels)
    if len(encoder.classes) < 2:
        raise DataError(
            f"{dataset.source}: every text has the label {encoder.names[0]!r}. Expected at least "
            "two labels to tell apart."
        )
    if len(dataset) < MIN_TEXTS:
        raise DataError(
            f"{dataset.source}: {plural(len(dataset), 'text is', 'texts are')} too few to check "
            f"labels. Expected at least {MIN_TEXTS}."
        )
    return encoder


class OutOfFoldPredictions(NamedTuple):
    """Out-of-fold predictions (calibrated logits) for finding suspect labels."""

    is_checked: NDArray[np.bool_]  # (n,) false for the only text of a label
    logits: Floats  # (n, C) mean over the repetitions
    evidence: Logits  # (n,) for outlier scores
    known: Logits  # (n,) share of words that the models know

    @property
    def probabilities(self) -> Floats:
        """Out-of-fold class probabilities (n, C) for finding suspect labels."""
        return softmax(self.logits)


def suspect_scores(probabilities: Floats, labels: ClassIndices) -> Floats:
    """Score from 0 to 1 how suspect each label is, given the predicted class probabilities."""
    own = probabilities[np.arange(len(labels)), labels]
    terms = probabilities * np.log(np.maximum(probabilities, 1e-300))
    entropy = -terms.sum(axis=1) / np.log(probabilities.shape[1])
    agreement = float((probabilities.argmax(axis=1) == labels).mean())
    scores: Floats = 1 - np.minimum(own / np.maximum(entropy, 1e-12) ** agreement, 1)
    return scores


@dataclass(frozen=True, slots=True)
class OutOfFoldModels:
    """Cross-validation n-gram models (one per fold) for finding suspect labels."""

    labels: ClassIndices  # (n,)
    classes: int
    tokens: TokenizedTexts
    counted: CountedTexts
    recipe: Recipe  # every ``auto`` replaced by a value
    folds: tuple[tuple[Rows, Rows], ...]  # training and held-out rows of all repetitions
    fingerprint: str  # of texts, labels and settings

    @classmethod
    def prepare(
        cls, dataset: Dataset, seed: int, groups: Rows, progress: Progress = SILENT
    ) -> "OutOfFoldModels":
        """Tokenize the texts and draw cross-validation folds for finding suspect labels.

        The rows of a group are held out together.

        Raises:
            DataError: no text can be held out.
        """
        column = dataset.require_labels()
        encoder, names = LabelEncoder.fit(column), column.to_pylist()
        recipe = resolve_recipe(recipe="default", values={"seed": seed})
        tokens = tokenize_texts(dataset.texts, recipe.text, progress)
        counts = tokens.counts(np.arange(len(dataset)))
        once, classes = int((counts == 1).sum()), len(encoder.classes)
        size = DatasetSize(len(dataset), int(counts.sum()), once, classes)
        recipe = resolve_auto_settings(recipe, size)
        drawn: list[tuple[Rows, Rows]] = []
        for repetition in range(REPETITIONS):
            with warnings.catch_warnings():  # of labels seen once, which the result counts
                warnings.simplefilter("ignore", UserWarning)
                drawn += folds(names, FOLDS, seed * REPETITIONS + repetition, groups)
        if not any(len(held_out) for _, held_out in drawn):
            raise DataError(
                f"{dataset.source}: no label can be checked, because each has only one text, or "
                "near-duplicates of one. Give more texts per label."
            )
        return cls(
            encoder.encode(column),
            classes,
            tokens,
            CountedTexts.from_tokens(tokens, recipe.ngrams),
            recipe,
            tuple(drawn),
            dataset_fingerprint(dataset),
        )

    def describe_job(self) -> dict[str, object]:
        """Return a dictionary that identifies this search for suspect labels.

        It is saved with the results of each finished fold; a later search with an equal dictionary
        reuses these results instead of computing them again.
        """
        return {
            "format": 1,
            "lamatext": __version__,
            "search": "suspect labels",
            "data": self.fingerprint,
            "settings": self.recipe.ngrams.model_dump(),
            "folds": [FOLDS, REPETITIONS, self.recipe.seed],
        }

    def predict_fold(self, number: int, progress: Progress = SILENT) -> pa.Table:
        """Fit the model of one fold and predict its held-out texts, to find suspect labels.

        The columns of the result are the row in the dataset, the share of known words, the logits,
        and the logits of a text without known n-grams.
        """
        train, held_out = self.folds[number]
        model = self.fit(train, NamedProgress(f"fold {number + 1} of {len(self.folds)}", progress))
        logits = model.logits(self.tokens.words(held_out)) if len(held_out) else np.zeros(0)
        is_known = self.tokens.counts(train) >= int(self.recipe.text.min_count)
        rows = self.tokens.rows.take(held_out)
        owner = np.repeat(np.arange(len(held_out)), rows.lengths)
        known = np.bincount(owner, is_known[rows.ids], len(held_out)) / np.maximum(rows.lengths, 1)
        base = np.tile(model.base, len(held_out))
        return pa.table(
            {
                "row": pa.array(held_out, pa.int64()),
                "known": pa.array(known.astype(np.float32)),
                "logits": _lists(logits, self.classes),
                "base": _lists(base, self.classes),
            }
        )

    def fit(self, rows: Rows, progress: Progress = SILENT) -> NgramModel:
        """Fit the n-gram model of one cross-validation fold for finding suspect labels."""
        return fit_ngrams(
            self.counted.take(rows),
            self.labels[rows],
            self.recipe.ngrams,
            classes=self.classes,
            progress=progress,
        )

    def combine(self, tables: Sequence[pa.Table]) -> OutOfFoldPredictions:
        """Calibrate and average the cross-validated logits for finding suspect labels."""
        texts = len(self.labels)
        is_checked = np.zeros(texts, bool)
        total = np.zeros((texts, self.classes))
        evidence, known = np.zeros(texts, np.float32), np.zeros(texts, np.float32)
        for start in range(0, len(tables), FOLDS):
            table = pa.concat_tables(tables[start : start + FOLDS])
            rows = table["row"].to_numpy()
            logits, base = (_matrix(table[name], self.classes) for name in ("logits", "base"))
            a, _, bias, _ = calibrate_ngrams(logits, self.labels[rows])
            calibrated = (a * logits + bias).astype(np.float32)
            base = (a * base + bias).astype(np.float32)
            total[rows] += calibrated / REPETITIONS
            evidence[rows] += text_evidence(
                np.zeros_like(logits), calibrated, base, table["known"].to_numpy()
            ) / np.float32(REPETITIONS)
            known[rows] += table["known"].to_numpy() / np.float32(REPETITIONS)
            is_checked[rows] = True
        return OutOfFoldPredictions(is_checked, total, evidence, known)


def _lists(values: NDArray[np.floating], width: int) -> pa.Array:
    flat = pa.array(values.astype(np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, width)


def _matrix(column: pa.ChunkedArray, width: int) -> Logits:
    values: Logits = column.combine_chunks().flatten().to_numpy().reshape(-1, width)
    return values


def _collect_suspects(
    dataset: Dataset,
    encoder: LabelEncoder,
    groups: Rows,
    models: OutOfFoldModels,
    predictions: OutOfFoldPredictions,
    progress: Progress,
) -> SuspectSearch:
    labels, is_checked = models.labels, predictions.is_checked
    probabilities = predictions.probabilities
    own = probabilities[np.arange(len(labels)), labels]
    others = probabilities.copy()
    others[np.arange(len(labels)), labels] = -1
    suggested = others.argmax(axis=1)
    is_predicted = is_checked & (own < others.max(axis=1))
    is_improbable = is_predicted & (own < IMPROBABLE)
    duplicates = conflicting_duplicates(labels, groups)
    for row, other in duplicates.items():
        suggested[row] = labels[other]
    is_outlier = is_checked & find_outliers(
        predictions.evidence, predictions.known, predictions.evidence[is_checked]
    )
    is_suspect = is_improbable.copy()
    is_suspect[list(duplicates)] = True
    rows = np.flatnonzero(is_suspect | is_outlier)
    scores = np.zeros(len(labels))
    scores[is_checked] = suspect_scores(probabilities[is_checked], labels[is_checked])
    rows = rows[np.lexsort((rows, -scores[rows], ~is_suspect[rows]))]
    explain = _explainer(dataset, encoder, models, rows, progress)
    suspects = [
        Suspect(
            row=row,
            label=encoder.names[labels[row]],
            suggestion=encoder.names[suggested[row]],
            score=float(scores[row]) if is_checked[row] else None,
            label_probability=float(own[row]) if is_checked[row] else None,
            suggestion_probability=(
                float(probabilities[row, suggested[row]]) if is_checked[row] else None
            ),
            is_improbable=bool(is_improbable[row]),
            duplicate=duplicates.get(row),
            is_outlier=bool(is_outlier[row]),
            explanation=explain(row, int(suggested[row]), probabilities[row]),
        )
        for row in rows.tolist()
    ]
    return SuspectSearch(
        suspects,
        tuple(encoder.names),
        len(dataset),
        int((~is_checked).sum()),
        float((is_checked & ~is_predicted).sum() / max(int(is_checked.sum()), 1)),
    )


def conflicting_duplicates(labels: ClassIndices, groups: Rows) -> dict[int, int]:
    """Map each row with a suspect label to a near-duplicate that has a different label.

    If most texts of a group of near-duplicates have one label, only the other texts are suspect.
    """
    order = np.lexsort((np.arange(len(groups)), groups))
    conflicts: dict[int, int] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        own = labels[rows]
        if (own == own[0]).all():
            continue
        counts = np.bincount(own)
        for row, label in zip(rows.tolist(), own.tolist(), strict=True):
            if 2 * counts[label] <= len(rows):
                rest = np.where(np.arange(len(counts)) == label, 0, counts)
                conflicts[row] = int(rows[own == rest.argmax()][0])
    return conflicts


def find_outliers(evidence: Logits, known: Logits, reference: Logits) -> NDArray[np.bool_]:
    """Return a mask of the outliers, which are listed in addition to texts with suspect labels.

    The outlier score of a text is computed as in ``lamatext predict --outlier``.
    """
    scores = outlier_scores(evidence, np.quantile(reference, np.linspace(0, 1, STEPS + 1)).tolist())
    first, third = np.quantile(reference, (0.25, 0.75))
    is_outlier: NDArray[np.bool_] = scores >= OUTLIER
    is_outlier &= (evidence < first - FENCE * (third - first)) | (known < MIN_KNOWN)
    return is_outlier


def _explainer(
    dataset: Dataset,
    encoder: LabelEncoder,
    models: OutOfFoldModels,
    suspects: Rows,
    progress: Progress,
) -> Callable[[int, int, Floats], Explanation]:
    """Return a function that explains why a different label is suggested for a suspect text.

    The contributions are those of a model that was fitted on all texts but the suspects.
    """
    rest = np.setdiff1d(np.arange(len(dataset)), suspects)
    progress.stage("explaining the suspects")
    model = models.fit(rest if len(rest) else np.arange(len(dataset)))
    tokenizer, text_recipe = WordTokenizer(), models.recipe.text
    assert text_recipe.tokenizer == "words"

    def explain(row: int, suggestion: int, probabilities: Floats) -> Explanation:
        text, pair = dataset.texts[row].as_py(), [int(models.labels[row]), suggestion]
        contributions = model.contributions(tokenizer.words(text))[pair]
        return Explanation(
            text=text,
            spans=tokenizer.spans(text),
            labels=[encoder.names[c] for c in pair],
            probabilities=probabilities[pair].astype(np.float32),
            contributions=contributions,
            base=model.base[pair],
        )

    return explain


def suspect_rows(search: SuspectSearch, dataset: Dataset) -> list[dict[str, object]]:
    """Return the suspect labels and outliers as table rows, to be written to a file."""
    lines, labels = dataset.row_numbers.tolist(), dataset.require_labels()
    all_texts = describe_texts(dataset)

    def row_of(suspect: Suspect) -> dict[str, object]:
        text = suspect.explanation.text
        values = (
            lines[suspect.row],
            _rounded(suspect.score),
            suspect.label,
            suspect.suggestion if suspect.is_label_suspect else None,
            _rounded(suspect.label_probability),
            _rounded(suspect.suggestion_probability) if suspect.is_label_suspect else None,
            "; ".join(_reasons(suspect, lines, labels)),
            " ".join(suspect.supporting_words),
            text,
            text_hash(text),
            all_texts,
        )
        return dict(zip(COLUMNS, values, strict=True))

    return [row_of(suspect) for suspect in search.suspects]


def _reasons(suspect: Suspect, lines: list[int], labels: pa.ChunkedArray) -> Iterator[str]:
    if suspect.is_improbable:
        yield "improbable label"
    if suspect.duplicate is not None:
        other = suspect.duplicate
        yield f"near-duplicate of row {lines[other]} with the label {labels[other].as_py()}"
    if suspect.is_outlier:
        yield "unusual text"


def _rounded(probability: float | None) -> float | None:
    return None if probability is None else float(f"{probability:.4g}")
