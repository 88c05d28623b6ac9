"""One training run of the protocol, from prepared ids to records."""

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.splits import folds, stratified_split
from lamatext.data.token_ids import TokenIds
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import Vectors, make_vectors
from lamatext.metrics import score
from lamatext.nn.network import build_network, count_parameters
from lamatext.provenance import commit, versions
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import softmax
from lamatext.settings import Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.loop import LoopSettings, fit, predict_logits
from paper.attended import attended
from paper.predictions import packed
from paper.prepared import Numbers, Prepared
from paper.published import accuracy as published
from paper.records import Key, Record, Value

FOLDS = 3
SCORES = ("accuracy", "macro_f1", "calibration_error")  # on the test part
COARSE = ("te", "bert")  # systems whose matrix products are in TF32 on a GPU that has it


@dataclass(frozen=True, slots=True)
class Trial:
    """What to train, and on which rows."""

    experiment: str
    dataset: str
    model: str
    seed: int = 0
    fold: int | None = None  # of cross-validation; None trains for the test set
    values: tuple[tuple[str, object], ...] = ()  # settings that differ from the model's recipe

    @property
    def recipe(self) -> Recipe:
        """All settings."""
        return _recipe(self.model, self.seed, self.values)

    @property
    def part(self) -> tuple[str, int, int | None]:
        """Trials that agree here share their training rows, vocabulary and word vectors."""
        return self.dataset, self.seed, self.fold

    @property
    def key(self) -> Key:
        """Of the record that shows that this was done."""
        return self.record("valid_accuracy", 0.0).key

    def record(self, metric: str, value: Value) -> Record:
        """A record of this trial."""
        return Record(
            experiment=self.experiment,
            dataset=self.dataset,
            model=self.model,
            metric=metric,
            value=value,
            seed=self.seed,
            fold=self.fold,
            config=dict(self.values),
        )


@cache
def _recipe(model: str, seed: int, values: tuple[tuple[str, object], ...]) -> Recipe:
    return load_recipe(f"paper/{model}").with_values({**dict(values), "seed": seed})


class Outcome(NamedTuple):
    """What a trial leaves: records, and which test texts it got right, packed (base64)."""

    records: list[Record]
    correct: str | None


class Part(NamedTuple):
    """The ids of a trial, by the vocabulary of its own training rows."""

    vocabulary: Vocabulary
    rows: TokenIds
    train: Numbers
    valid: Numbers


def part_of(trial: Trial, data: Prepared) -> Part:
    """Which rows train and which stop, and all texts as ids."""
    labels, text = data.labels[: data.trained], trial.recipe.text
    if trial.fold is None:
        train, valid = stratified_split(labels, (0.9, 0.1), trial.seed)
    else:
        train, valid = list(folds(labels, FOLDS, trial.seed))[trial.fold]
    if trial.model == "bert":  # its data are subwords already
        return Part(Vocabulary(()), data.tokens.rows, train, valid)
    counts = data.tokens.counts(train)
    vocabulary = Vocabulary.from_counts(data.tokens.types, counts, min_count=int(text.min_count))
    rows = data.tokens.encode(vocabulary, rare_words=text.rare_words, max_words=text.max_words)
    return Part(vocabulary, rows, train, valid)


def vectors_of(trial: Trial, part: Part) -> Vectors:
    """The embedding matrix to start from; word2vec is trained once for all trials of a part."""
    recipe = trial.recipe

    def make() -> Arrays:
        rows = part.rows.take(part.train)
        return {"vectors": make_vectors(recipe.text, part.vocabulary, rows, seed=recipe.seed)}

    if recipe.text.word_vectors != "word2vec":
        return make()["vectors"].astype(np.float32)
    settings = (recipe.text.model_dump_json(), recipe.seed, trial.part)
    key = fingerprint("reproduce", settings, part.vocabulary.words, part.train)
    return cached("word2vec", key, make)["vectors"].astype(np.float32)


def run_trial(trial: Trial, data: Prepared, device: torch.device) -> Outcome:
    """Train, and score once on the test part where the trial is not one of cross-validation."""
    started, recipe = time.perf_counter(), trial.recipe
    torch.backends.cuda.matmul.allow_tf32 = trial.model in COARSE
    part = part_of(trial, data)
    network = _network(trial, part, recipe, len(data.classes))
    state = fit(
        network,
        _examples(part, data, part.train),
        _examples(part, data, part.valid),
        LoopSettings(recipe.model, recipe.training, recipe.seed, device),
    )
    curve: Value = [round(epoch.accuracy, 5) for epoch in state.history]
    found: dict[str, Value] = {"valid_accuracy": state.best_accuracy, "valid_curve": curve}
    records, correct = [], None
    if trial.fold is None:
        test = _examples(part, data, np.arange(data.trained, len(data.labels)))
        logits = predict_logits(network, test, device)
        scores = score(data.classes, test.labels, softmax(logits).astype(np.float64))
        found |= {metric: getattr(scores, metric) for metric in SCORES}
        correct = packed(logits.argmax(axis=1) == test.labels)
        if trial.experiment == "keywords":
            records += attended(trial.record, network, part, data, device)
    records += [trial.record(metric, value) for metric, value in found.items()]
    seconds = time.perf_counter() - started
    return Outcome([_dated(record, network, seconds, device) for record in records], correct)


def _network(trial: Trial, part: Part, recipe: Recipe, classes: int) -> nn.Module:
    if trial.model == "bert":
        from lamatext.nn.pretrained import load_pretrained

        torch.manual_seed(recipe.seed)
        name, dropout = recipe.model.pretrained, recipe.model.dropout
        return load_pretrained(name, classes=classes, dropout=dropout).network
    vectors = vectors_of(trial, part)
    torch.manual_seed(recipe.seed)
    network = build_network(
        recipe.model,
        vocabulary=len(part.vocabulary),
        width=recipe.text.vector_width,
        classes=classes,
    )
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(vectors))
    return network


def _examples(part: Part, data: Prepared, rows: Numbers) -> EncodedDataset:
    return EncodedDataset(part.rows.take(rows), data.labels[rows])


def _dated(record: Record, network: nn.Module, seconds: float, device: torch.device) -> Record:
    published_value = published(record.model, record.dataset)
    return replace(
        record,
        paper=published_value if record.metric == "accuracy" else None,
        seconds=round(seconds, 2),
        parameters=sum(count_parameters(network).values()),
        device=device_name(device, record.model),
        versions=versions(),
        commit=commit(),
    )


def device_name(device: torch.device, model: str = "") -> str:
    """In words."""
    if device.type != "cuda":
        return "CPU"
    name = torch.cuda.get_device_name(device)
    return f"{name}, TF32 matrix products" if model in COARSE else name
