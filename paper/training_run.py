"""One training run of the paper's protocol: tokenized data in, records out."""

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.splits import Split, folds, stratified_split
from lamatext.data.token_ids import TokenIds
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import Vectors, make_vectors
from lamatext.metrics import score
from lamatext.nn.network import count_parameters
from lamatext.probabilities import softmax
from lamatext.recipes import load_recipe
from lamatext.settings import ATTENTIVE, Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.loop import predict_logits
from lamatext.training.preparation import encode_tokens
from lamatext.training.trainer import TrainedModel, train_tokens
from paper.confidence_intervals import pack_bits
from paper.datasets import TokenizedDataset
from paper.official_datasets import pretrained_folder
from paper.published_results import published_accuracy
from paper.records import Key, Record, Value
from paper.two_layer_gru import TWO_LAYERS, TrainedNetwork, train_two_layers
from paper.word_order import negation_weights, shuffled_accuracy
from paper.word_weights import attention_records

FOLDS = 3
VALIDATION_FRACTION = 0.1
TEST_SCORES = ("accuracy", "macro_f1", "calibration_error")
VALIDATION_ONLY = ("choices", "heads", "default-encoders")  # runs that are never scored on test
TF32_MODELS = ("te", "bert")  # systems whose matrix products use TF32 on a GPU that has it

Settings = tuple[tuple[str, object], ...]

# Experiments recorded before the schedule and SAN's penalty were chosen on validation data
EARLIER_EXPERIMENTS = ("heads", "ablation", "keywords")
EARLIER_SCHEDULE: Settings = (("training.schedule", "plateau"), ("training.plateau_epochs", 1))


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What to train: a system on a data set, with a seed or a fold and changed settings."""

    experiment: str
    dataset: str
    model: str
    seed: int = 0
    fold: int | None = None  # of cross-validation; None holds out a tenth for validation
    settings: Settings = ()  # settings that differ from the system's recipe

    @property
    def recipe(self) -> Recipe:
        """The complete recipe of the training run."""
        earlier: Settings = ()
        if self.experiment in EARLIER_EXPERIMENTS:
            penalty = (("model.disagreement_weight", 1.0),) if self.model == "san" else ()
            earlier = (*EARLIER_SCHEDULE, *penalty)
        return _load_recipe(self.model, self.seed, (*earlier, *self.settings))

    @property
    def is_tested(self) -> bool:
        """Whether the run is scored on the test part."""
        return self.experiment not in VALIDATION_ONLY

    @property
    def cache_key(self) -> Hashable | None:
        """Training runs with one key share the cached word2vec vectors; None uses none."""
        if self.model == "bert" or self.recipe.text.word_vectors != "word2vec":
            return None
        return self.dataset, self.seed, self.fold

    @property
    def key(self) -> Key:
        """The key of the record that shows that the training run is finished."""
        return self.record("validation_accuracy", 0.0).key

    def record(self, metric: str, value: Value) -> Record:
        """Return a record of one metric of this training run."""
        return Record(
            experiment=self.experiment,
            dataset=self.dataset,
            model=self.model,
            metric=metric,
            value=value,
            seed=self.seed,
            fold=self.fold,
            config=dict(self.settings),
        )


@cache
def _load_recipe(model: str, seed: int, settings: Settings) -> Recipe:
    name = "bigru" if model == TWO_LAYERS else model
    return load_recipe(f"paper/{name}").with_values({**dict(settings), "seed": seed})


class Outcome(NamedTuple):
    """The records of a finished training run, and its packed per-text correctness on test."""

    records: list[Record]
    correct: str | None  # None for a run that is not scored on test


class EncodedTexts(NamedTuple):
    """All texts encoded with the vocabulary of the training rows, and the split."""

    vocabulary: Vocabulary
    token_ids: TokenIds
    split: Split


def split_rows(run: TrainingRun, data: TokenizedDataset) -> Split:
    """Split the training part by the run's seed, or by its fold of cross-validation."""
    labels = data.labels[: data.train_size]
    if run.fold is not None:
        return Split(*list(folds(labels, FOLDS, run.seed))[run.fold])
    shares = (1 - VALIDATION_FRACTION, VALIDATION_FRACTION)
    return Split(*stratified_split(labels, shares, run.seed))


def encode(run: TrainingRun, data: TokenizedDataset) -> EncodedTexts:
    """Encode all texts of a training run with the vocabulary of its training rows."""
    split, text = split_rows(run, data), run.recipe.text
    if run.model == "bert":  # its data are subwords already
        return EncodedTexts(Vocabulary(()), data.tokens.rows, split)
    counts = data.tokens.counts(split.train)
    vocabulary = Vocabulary.from_counts(data.tokens.types, counts, min_count=int(text.min_count))
    return EncodedTexts(vocabulary, encode_tokens(data.tokens, vocabulary, text), split)


def _word2vec_vectors(
    run: TrainingRun, data: TokenizedDataset, texts: EncodedTexts
) -> Vectors | None:
    """Return word2vec vectors in full precision, trained once for all runs on the same rows.

    They are trained on whole texts, also for a system that reads at most ``text.max_words``.
    """
    if run.cache_key is None:
        return None
    text = run.recipe.text.model_copy(update={"max_words": None, "last_words": 0})

    def make() -> Arrays:
        whole = text == run.recipe.text
        ids = texts.token_ids if whole else encode_tokens(data.tokens, texts.vocabulary, text)
        rows = ids.take(texts.split.train)
        return {"vectors": make_vectors(text, texts.vocabulary, rows, seed=run.seed)}

    settings = (text.model_dump_json(), run.seed, run.cache_key)
    key = fingerprint("paper", settings, texts.vocabulary.words, texts.split.train)
    return cached("word2vec", key, make)["vectors"].astype(np.float32)


def _with_local_weights(recipe: Recipe) -> Recipe:
    """Return the recipe with the folder of its pretrained encoder if ``$LAMATEXT_DATA`` has it."""
    folder = pretrained_folder(recipe.model.pretrained) if recipe.model.name == "bert" else None
    return recipe if folder is None else recipe.with_values({"model.pretrained": str(folder)})


def _train_network(
    run: TrainingRun, data: TokenizedDataset, texts: EncodedTexts, device: torch.device
) -> TrainedModel | TrainedNetwork:
    vectors = _word2vec_vectors(run, data, texts)
    if run.model == TWO_LAYERS:
        return train_two_layers(data, texts.split, run.recipe, vectors, device)
    return train_tokens(
        data.tokens,
        data.labels,
        texts.split,
        _with_local_weights(run.recipe),
        classes=data.classes,
        word_vectors=vectors,
        tokenizer=WordTokenizer(),  # never used: the texts are tokenized, spaCy may be missing
        device=str(device),
    )


def train(run: TrainingRun, data: TokenizedDataset, device: torch.device) -> Outcome:
    """Train one system; unless the run only chooses settings, score it once on the test part."""
    started = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = run.model in TF32_MODELS
    texts = encode(run, data)
    trained = _train_network(run, data, texts, device)
    curve: Value = [round(epoch.accuracy, 5) for epoch in trained.history]
    metrics: dict[str, Value] = {
        "validation_accuracy": trained.validation_accuracy,
        "validation_curve": curve,
    }
    records, correct = [], None
    network = trained.network.to(device)
    if run.is_tested:
        test = EncodedDataset(texts.token_ids.take(data.test_rows), data.labels[data.test_rows])
        # Calibration scaled the logits. All records are of the probabilities before it.
        logits = predict_logits(network, test, device) / np.float32(trained.scales["network"])
        scores = score(data.classes, test.labels, softmax(logits).astype(np.float64))
        metrics |= {metric: getattr(scores, metric) for metric in TEST_SCORES}
        correct = pack_bits(logits.argmax(axis=1) == test.labels)
        if run.experiment == "keywords":
            words = texts.vocabulary.words
            records += attention_records(run.record, network, test, words, data.classes, device)
        if run.experiment == "open-directions":
            metrics["accuracy, shuffled words"] = shuffled_accuracy(network, test, device)
            if run.model in ATTENTIVE:
                metrics |= negation_weights(network, test, texts.vocabulary.words, device)
    records += [run.record(metric, value) for metric, value in metrics.items()]
    seconds = time.perf_counter() - started
    return Outcome([_complete(record, network, seconds, device) for record in records], correct)


def _complete(record: Record, network: nn.Module, seconds: float, device: torch.device) -> Record:
    """Add what every record of a training run holds besides its value."""
    published = published_accuracy(record.model, record.dataset)
    return replace(
        record,
        paper=published if record.metric == "accuracy" else None,
        seconds=round(seconds, 2),
        parameters=sum(count_parameters(network).values()),
        device=describe_device(device, record.model),
    ).with_provenance()


def describe_device(device: torch.device, model: str = "") -> str:
    """Return the device name that the records of a training run hold."""
    if device.type != "cuda":
        return "CPU"
    name = torch.cuda.get_device_name(device)
    return f"{name}, TF32 matrix products" if model in TF32_MODELS else name
