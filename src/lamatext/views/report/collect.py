"""Everything that a report tells, found out before a line of it is written.

Shapes: n texts, C classes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lamatext.data.labels import LabelEncoder
from lamatext.data.summary import Summary, summarize_dataset
from lamatext.evaluation import EvaluationData
from lamatext.explain.explanation import Explanation
from lamatext.explain.faithfulness import Faithfulness
from lamatext.explain.faithfulness_check import MOST, sample
from lamatext.explain.global_words import GlobalWords
from lamatext.metrics import Floats, Numbers, Scores, score
from lamatext.progress import SILENT, Progress, track_progress
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import METRICS, folder_size, load_config, read_json
from lamatext.views.report.examples import Chosen, choose
from lamatext.views.report.reason_check import FEWEST, checked_reasons, is_slow
from lamatext.views.report.top_words import words_of

SHOWN = 420  # texts on the page, about
COUNTED = 1000  # texts whose words are track_progress
SLOW, SLOWER = 6, 18  # so many times fewer where words are left out, or by a Transformer too
TIMED = 100  # texts, one at a time


@dataclass(frozen=True, slots=True)
class Speed:
    """How long predicting takes on this machine."""

    texts_per_second: float
    one_text_ms: float  # median
    slow_text_ms: float  # 95 of 100 are quicker


@dataclass(frozen=True)
class Findings:
    """What is known of a model and of some labelled texts."""

    folder: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    held: EvaluationData
    data: Summary
    conflicts: int
    labels: list[str]  # C
    texts: Sequence[str]  # n
    truth: Numbers  # (n,)
    probabilities: Floats  # (n, C)
    scores: Scores
    chosen: Chosen
    explanations: dict[int, Explanation]  # by the text's place, of those chosen
    words: GlobalWords
    faithfulness: Faithfulness
    speed: Speed
    size: int  # bytes


def gather(
    folder: Path, held: EvaluationData, *, seed: int = 0, progress: Progress = SILENT
) -> Findings:
    """Predict, explain, count and check.

    Args:
        folder: a saved model.
        held: labelled texts, best those that it did not learn from.
        seed: of every draw of texts.
        progress: told what is being done.
    """
    predictor = Predictor.load(folder)
    encoder = LabelEncoder(tuple(predictor.classes_.tolist()))
    labels = encoder.names
    truth = encoder.encode(held.texts.require_labels(), source=held.texts.source)
    texts: list[str] = held.texts.texts.to_pylist()
    progress.stage("predicting", len(texts))
    probabilities, speed = _predict(predictor, texts, seed, progress)
    share = _share(predictor, texts[0])
    chosen = choose(truth, probabilities, most=SHOWN // share)
    progress.stage("explaining", len(chosen.rows))
    explanations = {}
    for row in chosen.rows:
        explanations[row] = predictor.explain(texts[row])
        progress.advance()
    drawn = [texts[row] for row in sample(len(texts), COUNTED // share, seed)]
    words = words_of(predictor, drawn, progress)
    checked = max(MOST // share, FEWEST)
    reasons = checked_reasons(folder, texts, most=checked, seed=seed, progress=progress)
    return Findings(
        folder=folder,
        config=load_config(folder),
        metrics=read_json(folder / METRICS),
        held=held,
        data=_summary(held),
        conflicts=_conflicts(texts, truth),
        labels=labels,
        texts=texts,
        truth=truth,
        probabilities=probabilities,
        scores=score(labels, truth, probabilities),
        chosen=chosen,
        explanations=explanations,
        words=words,
        faithfulness=reasons,
        speed=speed,
        size=folder_size(folder),
    )


def _predict(
    predictor: Predictor, texts: list[str], seed: int, progress: Progress
) -> tuple[Floats, Speed]:
    predictor.predict_proba(texts[:1])  # opens the engine
    started = time.perf_counter()
    found = predictor.predict_proba(track_progress(texts, progress)).astype(np.float64)
    speed = len(texts) / (time.perf_counter() - started)
    alone = []
    for row in sample(len(texts), TIMED, seed):
        began = time.perf_counter()
        predictor.predict_proba([texts[row]])
        alone.append(1000 * (time.perf_counter() - began))
    median, slow = np.percentile(alone, [50, 95])
    return found, Speed(speed, float(median), float(slow))


def _share(predictor: Predictor, text: str) -> int:
    """How many times fewer texts are explained than where attention says why in one reading."""
    if predictor.explain(text).method == "contribution":
        return 1
    return SLOWER if is_slow(predictor) else SLOW


def _summary(held: EvaluationData) -> Summary:
    """Of the training texts with their overlap, where they are known; else of the texts at hand."""
    if held.train is None or held.train is held.texts:
        return summarize_dataset(held.texts)
    return summarize_dataset(held.train, held.texts)


def _conflicts(texts: Sequence[str], truth: Numbers) -> int:
    """How many different texts occur with more than one label."""
    seen: dict[str, int] = {}
    torn = set()
    for text, label in zip(texts, truth.tolist(), strict=True):
        if seen.setdefault(text, label) != label:
            torn.add(text)
    return len(torn)
