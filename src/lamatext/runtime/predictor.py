"""Predictor: a saved model that predicts labels and probabilities, embeds and explains texts.

Shapes: n texts, B texts in a batch, T words, D state width, M heads, C classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lamatext.data.labels import LabelEncoder
from lamatext.data.text_encoder import Encoder, TextEncoder
from lamatext.data.token_ids import EncodedTexts, Ids, TokenIds, batches_by_length
from lamatext.data.tokenizer import Span
from lamatext.data.validation import Texts, check_texts, iterate_texts, warn_of_empty_texts
from lamatext.errors import ModelError, percent, require
from lamatext.explain.character_groups import group_characters
from lamatext.explain.contributions import (
    MAX_OCCLUSIONS,
    ClassifierHead,
    Contributions,
    attention_contributions,
    max_occlusions,
    occlusion,
    occlusion_window,
)
from lamatext.explain.explanation import Explanation
from lamatext.kernels.kernel_threads import parallel_map
from lamatext.label_thresholds import LabelThresholds
from lamatext.ngrams.compiled_lookup import compiled_lookup
from lamatext.ngrams.model import NgramModel
from lamatext.outliers import ValidationStatistics, known_share, outlier_scores, text_evidence
from lamatext.probabilities import sigmoid, softmax
from lamatext.runtime.engine import BATCH_WORDS, Engine, EngineOutput, Floats
from lamatext.saved.format import load_config, saved_recipe
from lamatext.saved.model_hub import local_folder
from lamatext.saved.model_io import (
    load_encoder,
    load_model,
    load_network,
    load_ngrams,
    load_tensors,
    load_validation_statistics,
    saved_thresholds,
)
from lamatext.saved.onnx_export import WITHOUT_GRAPH
from lamatext.saved.quantization import dequantize

T = TypeVar("T")
CHUNK = 256  # texts that are encoded and sorted by length together


def round_probability(value: float) -> float:
    """Round a probability to 6 significant digits, for JSON and other text."""
    return float(f"{value:.6g}")


class TextAssessment(NamedTuple):
    """Assessment of one text by a predictor: probabilities, threshold decision, outlier score."""

    probabilities: Floats  # (C,)
    is_unsure: bool | None  # None: the model has no threshold
    outlier_score: float | None  # None: the model has no statistics of validation texts
    words: int
    unknown_words: int
    empty: bool  # only white space, so that the prediction does not depend on any word


class Assessments(NamedTuple):
    """Probabilities and outlier scores that a predictor computed for several texts."""

    probabilities: Floats  # (n, C)
    outlier_scores: NDArray[np.float64]  # (n,) 0.99: more unusual than 99 % of validation texts
    words: NDArray[np.int64]  # (n,)
    unknown_words: NDArray[np.int64]  # (n,)
    empty: NDArray[np.bool_]  # (n,)


@dataclass(frozen=True, slots=True, repr=False)
class Predictor:
    """Predictor that uses a trained model to classify, embed and explain texts.

    It needs neither scikit-learn nor, if the model has an ONNX graph, torch.
    ``Predictor.load(folder)`` loads a saved model; several threads may use one predictor.

    Attributes:
        classes_: the labels (str, int or bool) in the order of the probability columns.
    """

    engine: Engine
    encoder: Encoder
    classes_: NDArray[np.generic]  # (C,)
    head: ClassifierHead | None = None  # None: explain the network by occlusion
    ngrams: NgramModel | None = None  # its logits are added to the network's
    thresholds: LabelThresholds | None = None  # None: one label per text, the most probable
    max_occlusions: int = MAX_OCCLUSIONS  # most texts to predict for one explanation by occlusion
    threshold: float | None = None  # below this probability the model is unsure
    validation: ValidationStatistics | None = None  # reference of outlier scores
    label_noise: float = 0.0  # share of wrong training labels; adjusts probabilities

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "Predictor":
        """Load a predictor from the folder of a saved model.

        Compiled C code or ONNX Runtime runs the network; the models te and bert run in PyTorch.
        """
        folder = local_folder(folder)
        config = load_config(folder)
        recipe = saved_recipe(folder, config)
        classes = np.array(config["labels"])
        encoder = load_encoder(folder, config, recipe)
        reference: dict[str, Any] = {
            "threshold": config.get("unsure", {}).get("threshold"),
            "validation": load_validation_statistics(config),
            "label_noise": config.get("label_noise", 0.0),
        }
        if recipe.model.name not in WITHOUT_GRAPH:
            from lamatext.runtime.onnx_engine import OnnxEngine

            tensors = load_tensors(folder, recipe, encoder, classes=len(classes))
            last = {name: t for name, t in tensors.items() if name.startswith("classifier.")}
            head = ClassifierHead.from_tensors(dequantize(last))
            engine = OnnxEngine(recipe.model, tensors)
            thresholds = saved_thresholds(config)
            ngrams = load_ngrams(folder, config, recipe)
            return cls(engine, encoder, classes, head, ngrams, thresholds, **reference)
        require("torch", extra="train", purpose=f"the model {recipe.model.name}")
        from lamatext.runtime.torch_engine import TorchEngine

        model = load_model(folder)
        return cls(
            TorchEngine(load_network(model)),
            encoder,
            classes,
            None if recipe.model.name == "bert" else ClassifierHead.from_tensors(model.tensors),
            model.ngrams,
            model.thresholds,
            max_occlusions=max_occlusions(recipe.model.name),
            **reference,
        )

    def __repr__(self) -> str:
        """Return a one-line description of the predictor with its classes and vocabulary."""
        return f"Predictor({'; '.join(f'{k} {v}' for k, v in self._facts().items())})"

    def _repr_html_(self) -> str:
        from lamatext.views.notebook import model_html

        return model_html("Predictor", self._facts())

    def _facts(self) -> dict[str, str]:
        from lamatext.views.notebook import class_names

        facts = {"classes": class_names(self.classes_.tolist())}
        if isinstance(self.encoder, TextEncoder):
            facts["words"] = f"{len(self.encoder.vocabulary):,}"
        if self.thresholds is not None:
            facts["labels"] = "several per text"
        if self.threshold is not None:
            facts["unsure"] = f"below a probability of {percent(self.threshold)}"
        return facts

    @property
    def uses_network(self) -> bool:
        """Whether the network contributes to predictions.

        If the validation texts are no evidence that a network helps, training gives it weight 0,
        and the n-grams decide alone.
        """
        return self.ngrams is None or self.head is None or not self.head.is_zero

    def predict(self, texts: Texts, *, unsure: object = None) -> NDArray[np.generic]:
        """Return the predictor's most probable label for each text.

        A multi-label model returns the labels in the form of its training labels: an array with a
        list or set of labels per text, or a matrix of 0 and 1.

        Args:
            texts: the texts.
            unsure: label to return for a text whose highest probability is below the saved
                threshold; None assigns a class to every text.
        """
        if isinstance(texts, list):
            warn_of_empty_texts(texts)
        if unsure is not None:
            return self._predict_or_unsure(texts, unsure)
        if self.thresholds is not None:
            return self._predict_several(self.thresholds, texts)
        labels: NDArray[np.generic] = self.classes_[self.logits(texts).argmax(axis=1)]
        return labels

    def _predict_several(self, thresholds: LabelThresholds, texts: Texts) -> NDArray[np.generic]:
        decided = thresholds.decide(self.predict_proba(texts))
        if thresholds.form == "indicator":
            return decided.astype(np.int64)
        lists = LabelEncoder(tuple(self.classes_.tolist())).decode_lists(decided)
        if thresholds.form == "sets":
            lists[:] = [set(row) for row in lists]
        return lists

    def _predict_or_unsure(self, texts: Texts, unsure: object) -> NDArray[np.generic]:
        self.require_threshold(unsure)
        probabilities = self.predict_proba(texts)
        answers: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)].astype(object)
        answers[self.is_unsure(probabilities)] = unsure
        if isinstance(unsure, str) and self.classes_.dtype.kind == "U":
            answers = answers.astype(str)
        return answers

    def is_unsure(self, probabilities: Floats) -> NDArray[np.bool_]:
        """Return for each text whether its highest probability is below the saved threshold.

        Without a threshold, no text is unsure.
        """
        below: NDArray[np.bool_] = probabilities.max(axis=1) < np.float32(self.threshold or 0.0)
        return below

    def require_threshold(self, unsure: object) -> None:
        """Check that the predictor has a threshold below which it can answer ``unsure``.

        Raises:
            ModelError: there is no threshold, ``unsure`` is one of the classes, or the model
                assigns several labels per text.
        """
        if self.thresholds is not None:
            raise ModelError(
                "a model with several labels per text is never unsure: it answers with the labels "
                "above their thresholds. Leave unsure out."
            )
        if self.threshold is None:
            raise ModelError(
                "this model has no threshold below which it is unsure. Find one on labelled texts "
                "with: lamatext evaluate MODEL DATA --target-accuracy 0.95 --save"
            )
        if str(unsure) in map(str, self.classes_.tolist()):
            raise ModelError(
                f"{str(unsure)!r} is a label of the model, so it cannot mean unsure (--unsure). "
                "Choose another word, such as unsure."
            )

    def predict_proba(self, texts: Texts) -> Floats:
        """Return the predictor's probability of each label for each text.

        The shape is (n, C), with the columns in the order of ``classes_``. The probabilities of a
        multi-label model do not sum to 1: each label has its own.
        """
        return self.probabilities(self.logits(texts))

    def probabilities(self, logits: Floats) -> Floats:
        """Convert the predictor's logits (n, C) to probabilities by softmax or sigmoid.

        Class probabilities account for ``label_noise``: they predict labels that are wrong as often
        as the training labels.
        """
        if self.thresholds is not None:
            return sigmoid(logits)
        return add_label_noise(softmax(logits), self.label_noise)

    def count_labels(self, probabilities: Floats) -> NDArray[np.int64]:
        """Count how often the predictor assigns each label, given probabilities (n, C)."""
        if self.thresholds is None:
            return np.bincount(probabilities.argmax(axis=1), minlength=len(self.classes_))
        counts: NDArray[np.int64] = self.thresholds.decide(probabilities).sum(axis=0)
        return counts

    def assess(self, texts: Texts) -> Assessments:
        """Return the predictor's probabilities and outlier scores for several texts.

        The result also says which texts are empty.

        Raises:
            ModelError: the model was saved without statistics of its validation texts.
        """
        if self.validation is None:
            raise ModelError(
                "this model has no statistics of its validation texts, which outlier scores and "
                "drift need. Train it again with this version."
            )
        parts = _map_chunks(self._assess_chunk, texts) or [self._assess_chunk([])]
        if len(parts) == 1:
            return parts[0]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return Assessments(*columns)

    def assess_each(self, texts: Sequence[str]) -> list[TextAssessment]:
        """Assess each text with the predictor: probabilities, threshold decision, outlier score."""
        scores: Iterable[tuple[float | None, int, int, bool]]
        if self.validation is None:
            probabilities = self.predict_proba(texts)
            scores = [(None, 0, 0, not text.strip()) for text in texts]
        else:
            probabilities, *columns = self.assess(texts)
            scores = zip(*(column.tolist() for column in columns), strict=True)
        unsure: Iterable[bool | None] = [None] * len(texts)
        if self.threshold is not None:
            unsure = self.is_unsure(probabilities).tolist()
        rows = zip(probabilities, unsure, scores, strict=True)
        return [TextAssessment(row, is_unsure, *values) for row, is_unsure, values in rows]

    def transform(self, texts: Texts) -> Floats:
        """Return the predictor's text embeddings, flattened to one vector per text.

        The shape is (n, M·D).
        """
        embeddings = _map_chunks(self._embeddings, texts)
        return np.concatenate(embeddings) if embeddings else self._embeddings([""])[:0]

    def explain(self, text: str) -> Explanation:
        """Explain the predictor's decision for one text by the contribution of each word.

        The explanation includes the attention weights if the network has attention and contributes
        to predictions.
        """
        check_texts([text])
        ids, spans = self.encoder.encode_with_spans(text)
        output = self.engine.run(ids[None, :], np.array([len(ids)], np.int32))
        check_finite(output.logits)
        weights = output.weights if self.uses_network else None
        exact = not self.uses_network or (self.head is not None and weights is not None)
        by_word, spans = self._network_contributions(ids, spans, output)
        explanation = Explanation(
            text=text,
            spans=spans,
            labels=self.classes_.tolist(),
            probabilities=self.probabilities(output.logits)[0],
            contributions=by_word.contributions,
            base=by_word.base,
            weights=None if weights is None else weights[0],
            method="contribution" if exact else "occlusion",
            window=1 if exact else occlusion_window(len(spans), self.max_occlusions),
            thresholds=None if self.thresholds is None else self.thresholds.values,
        )
        if self.ngrams is None:
            return explanation
        return self._add_ngram_contributions(self.ngrams, explanation)

    def logits(self, texts: Texts) -> Floats:
        """Return the predictor's logits (n, C) for each text, before the softmax."""
        logits = _map_chunks(self._chunk_logits, texts)
        return np.concatenate(logits) if logits else np.empty((0, len(self.classes_)), np.float32)

    def logits_of_words(self, texts: Sequence[Sequence[str]]) -> Floats:
        """Return the predictor's logits (n, C) for texts that are already split into words."""
        if not isinstance(self.encoder, TextEncoder):
            return self._network_logits(self.encoder.encode(map(" ".join, texts)))
        logits = self._network_logits(self.encoder.encode_words(texts))
        return logits if self.ngrams is None else logits + self.ngrams.logits(texts)

    def _chunk_logits(self, texts: list[str]) -> Floats:
        check_texts(texts)
        if not isinstance(self.encoder, TextEncoder):
            return self._network_logits(self.encoder.encode(texts))
        encoded = self._encode(self.encoder, texts)
        logits = self._network_logits(encoded.ids)
        return logits if self.ngrams is None else logits + self.ngrams.logits(encoded.words)

    def _encode(self, encoder: TextEncoder, texts: list[str]) -> EncodedTexts:
        """Encode a chunk of texts as input for the predictor's network and n-gram model."""
        return encoder.encode_all(
            texts, framed=self.ngrams is None or compiled_lookup() is not None
        )

    def _assess_chunk(self, texts: list[str]) -> Assessments:
        """Compute the predictor's probabilities and outlier scores of one chunk of texts."""
        assert self.validation is not None
        check_texts(texts)
        ngrams, base = None, None
        words = unknown = np.zeros(len(texts), np.int64)
        if isinstance(self.encoder, TextEncoder):
            encoded = self._encode(self.encoder, texts)
            words = encoded.word_counts
            unknown = words - encoded.known_counts
            network = self._network_logits(encoded.ids)
            if self.ngrams is not None:
                ngrams, base = self.ngrams.logits(encoded.words), self.ngrams.base
            known = known_share(words, unknown)
        else:
            network = self._network_logits(self.encoder.encode(texts))
            known = np.ones(len(texts), np.float32)
        evidence = text_evidence(network, ngrams, base, known)
        return Assessments(
            probabilities=self.probabilities(network if ngrams is None else network + ngrams),
            outlier_scores=outlier_scores(evidence, self.validation.evidence),
            words=words,
            unknown_words=unknown,
            empty=np.array([not text.strip() for text in texts], np.bool_),
        )

    def _embeddings(self, texts: list[str]) -> Floats:
        check_texts(texts)
        rows = self.encoder.encode(texts)
        batches = batches_by_length(rows.lengths, max_words=BATCH_WORDS)
        flat = [check_finite(self.engine.run(*rows.pad(batch)).embedding) for batch in batches]
        order = np.argsort(np.concatenate(batches))
        return np.concatenate([part.reshape(len(part), -1) for part in flat])[order]

    def _network_logits(self, rows: TokenIds) -> Floats:
        if not len(rows):
            return np.empty((0, len(self.classes_)), np.float32)
        return check_finite(self.engine.text_logits(rows))

    def _network_contributions(
        self, ids: Ids, spans: list[Span], output: EngineOutput
    ) -> tuple[Contributions, list[Span]]:
        """Compute each word's contribution to the logits of the predictor's network.

        The contributions are exact for a network with attention, and 0 for one with weight 0;
        otherwise they are computed by occlusion, which never removes the special tokens of a
        pretrained encoder.
        """
        if not self.uses_network:
            none = np.zeros((len(self.classes_), len(spans)), np.float32)
            return Contributions(none, output.logits[0]), spans
        if self.head is not None and output.weights is not None:
            exact = attention_contributions(
                self.head,
                logits=output.logits[0],
                embedding=output.embedding[0],
                weights=output.weights[0],
                states=output.states[0],
            )
            check_finite(exact.contributions)
            return exact, spans
        words = [place for place, (start, end) in enumerate(spans) if end > start]
        first, last = (words[0], words[-1] + 1) if words else (0, len(ids))
        before, after = ids[:first], ids[last:]

        def logits_of(texts: list[Ids]) -> Floats:
            rows = [np.concatenate([before, text, after]) for text in texts]
            return self._network_logits(TokenIds.from_lists(rows))

        changes = occlusion(ids[first:last], logits_of, limit=self.max_occlusions)
        return changes, spans[first:last]

    def _add_ngram_contributions(self, ngrams: NgramModel, network: Explanation) -> Explanation:
        """Add the n-gram contributions of each word to the predictor's explanation."""
        assert isinstance(self.encoder, TextEncoder)  # n-grams are trained with words only
        tokenizer = self.encoder.tokenizer
        words = tokenizer.words(network.text)
        spans = tokenizer.spans(network.text) or network.spans  # no word: the network's empty span
        column = {span: number for number, span in enumerate(spans)}
        read = [column[span] for span in network.spans if span in column]  # known to the network
        by_network = np.zeros((len(self.classes_), len(spans)), np.float32)
        by_network[:, read] = network.contributions[:, : len(read)]
        by_ngrams = np.zeros_like(by_network)
        by_ngrams[:, : len(words)] = ngrams.contributions(words)
        base = network.logits + ngrams.base - by_network.sum(axis=1)
        weights = None
        if network.weights is not None:
            weights = np.zeros((len(network.weights), len(spans)), np.float32)
            weights[:, read] = network.weights[:, : len(read)]
        total = by_network + by_ngrams
        explanation = replace(
            network,
            spans=spans,
            weights=weights,
            contributions=total,
            base=base,
            probabilities=self.probabilities(total.sum(axis=1)[None, :] + base)[0],
            parts={"network": by_network, "n-grams": by_ngrams} if self.uses_network else None,
        )
        return group_characters(explanation, ngrams)


def check_finite(outputs: Floats) -> Floats:
    """Check that all outputs of the predictor's network are finite, and return them.

    Even with weights within the allowed limits, sums of many products can overflow.
    """
    if not np.isfinite(outputs).all():
        raise ModelError(
            "the weights of this model are so large that a result is not a number. Train the model "
            "again, or use another copy of it."
        )
    return outputs


def add_label_noise(probabilities: Floats, noise: float) -> Floats:
    """Adjust the predictor's probabilities (n, C) for a share ``noise`` of wrong labels.

    A wrong label is equally likely to be any of the others. The ranking of the classes does not
    change.
    """
    if not noise:
        return probabilities
    wrong = noise / (probabilities.shape[1] - 1)
    noisy: Floats = (np.float32(1 - noise - wrong) * probabilities + np.float32(wrong)).astype(
        probabilities.dtype
    )
    return noisy


def _map_chunks(work: Callable[[list[str]], T], texts: Texts) -> list[T]:
    """Apply a function to chunks of the predictor's input texts in parallel threads."""
    if isinstance(texts, list) and len(texts) < CHUNK:
        return [work(texts)] if texts else []
    chunks = _chunks(texts)
    first = next(chunks, None)
    if first is None:
        return []
    if len(first) < CHUNK:
        return [work(first)]
    return list(parallel_map(work, chain([first], chunks)))


def _chunks(texts: Texts) -> Iterator[list[str]]:
    iterator = iterate_texts(texts)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
