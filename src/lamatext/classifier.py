"""TextClassifier: a scikit-learn estimator from texts to labels, with reasons."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lamatext.data.cache import fingerprint
from lamatext.data.labels import LabelEncoder
from lamatext.data.validation import Labels, Texts, label_array, text_column, text_list
from lamatext.errors import DataError, require
from lamatext.explain.explanation import Explanation
from lamatext.ngrams.model import NgramModel
from lamatext.progress import SILENT, Progress
from lamatext.provenance import versions
from lamatext.recipes import resolve_recipe
from lamatext.runtime.predictor import Encoder, Predictor
from lamatext.saved.model_io import SavedModel, load_model, load_network, save_model
from lamatext.saved.quantization import Storage
from lamatext.settings import Recipe

require("sklearn", extra="train", purpose="TextClassifier")
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

if TYPE_CHECKING:
    from torch import nn

    from lamatext.training.checkpoint import EpochRecord
    from lamatext.training.preparation import Texts as Labelled

SHORT_NAMES = {
    "heads": "model.heads",
    "rank": "model.rank",
    "hidden": "model.hidden_size",
    "dropout": "model.dropout",
    "min_count": "text.min_count",
    "vectors": "text.word_vectors",
    "epochs": "training.epochs",
    "batch": "training.batch_size",
    "rate": "training.learning_rate",
    "class_weight": "training.class_weight",
    "seed": "seed",
}


class TextClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Trains by a recipe; whatever is None is as the recipe has it.

    Args:
        model: a system's name; with it the recipe is the paper's for that system.
        recipe: ``default``, ``paper``, a system's name, a path to a TOML file, or a Recipe.
        heads, rank, hidden, dropout, min_count, vectors, epochs, batch, rate, class_weight: the
            settings of that name.
        seed: fixes the split, the word vectors, the first weights and the order of the texts.
        device: ``auto`` takes a GPU where there is one.
        settings: any other settings by dotted name, ``{"training.gradient_clip": 1.0}``; a parameter goes
            before a setting of the same meaning.
    """

    def __init__(  # noqa: PLR0913 - an estimator's parameters are its settings
        self,
        model: str | None = None,
        *,
        recipe: str | Recipe | None = None,
        heads: int | None = None,
        rank: int | None = None,
        hidden: int | None = None,
        dropout: float | None = None,
        min_count: int | None = None,
        vectors: str | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        seed: int | None = None,
        device: str = "auto",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.heads = heads
        self.rank = rank
        self.hidden = hidden
        self.dropout = dropout
        self.min_count = min_count
        self.vectors = vectors
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.class_weight = class_weight
        self.seed = seed
        self.device = device
        self.settings = settings

    def fit(
        self,
        X: Texts,
        y: Labels,
        *,
        valid: tuple[Texts, Labels] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        progress: Progress = SILENT,
    ) -> Self:
        """Train on texts and their labels.

        Args:
            X: texts.
            y: a label for each text, str or int.
            valid: texts and labels to stop by; without it a share of X is held out.
            checkpoint: a file that keeps the state of the run; if it exists, the run goes on there.
            progress: told what is being done.
        """
        from lamatext.training.preparation import Texts as Labelled
        from lamatext.training.trainer import train

        recipe = self.resolve()
        texts = text_column(X)
        labels = label_array(y, len(texts))
        label_encoder = LabelEncoder.fit(labels)
        classes = label_encoder.class_array
        if len(classes) < 2:
            raise DataError(
                f"all {len(texts)} texts have the label {classes[0].item()!r}. "
                "A classifier needs at least two classes."
            )
        trained = train(
            Labelled(texts, label_encoder.encode(labels)),
            None if valid is None else _validation(valid, label_encoder),
            recipe,
            names=label_encoder.names,
            device=self.device,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            progress=progress,
        )
        self.classes_: NDArray[Any] = classes
        self.recipe_: Recipe = trained.recipe
        self.network_: nn.Module = trained.network
        self.encoder_: Encoder = trained.encoder
        self.ngrams_: NgramModel | None = trained.ngrams
        self.history_: list[EpochRecord] = trained.history
        self.facts_: dict[str, Any] = {
            "data": {"texts": len(texts), "fingerprint": fingerprint(texts, labels.astype(str))},
            "training": {
                "best_epoch": trained.best_epoch,
                "validation_accuracy": trained.valid_accuracy,
                "scales": trained.scales,
                "seconds": sum(record.seconds for record in trained.history),
            },
            "versions": versions(),
        }
        self.metrics_: dict[str, Any] = {}
        if trained.architecture is not None:
            self.facts_["architecture"] = trained.architecture
        return self

    def predict(self, X: Iterable[str]) -> NDArray[Any]:
        """The most probable label of each text."""
        return self._predictor().predict(text_list(X))

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float32]:
        """The probability of each label, columns as ``classes_``."""
        return self._predictor().predict_proba(text_list(X))

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """The flattened embedding of each text: (n, heads * width)."""
        return self._predictor().transform(text_list(X))

    def explain(self, text: str) -> Explanation:
        """Why ``text`` gets its label."""
        return self._predictor().explain(text)

    def save(
        self,
        folder: str | PathLike[str],
        *,
        metrics: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> Path:
        """Write the model to a folder that ``load`` and ``Predictor.load`` read.

        Args:
            folder: made if need be.
            metrics: scores to keep with the model.
            data: what is known of the data: where from, counts.
            storage: how the weights lie on disk; None is as the recipe has it.
        """
        from lamatext.nn.network import count_parameters

        self._check_fitted()
        facts = {
            **self.facts_,
            "data": {**self.facts_["data"], **(data or {})},
            "parameters": count_parameters(self.network_)
            | ({} if self.ngrams_ is None else {"n-grams": self.ngrams_.size}),
        }
        curve = [
            {"epoch": r.epoch, "loss": r.loss, "accuracy": r.accuracy, "seconds": r.seconds}
            for r in self.history_
        ]
        return save_model(
            folder,
            SavedModel(
                recipe=self.recipe_,
                labels=self.classes_.tolist(),
                tensors={k: v.numpy() for k, v in self.network_.state_dict().items()},
                encoder=self.encoder_,
                ngrams=self.ngrams_,
                facts=facts,
                metrics={**self.metrics_, "history": curve, **(metrics or {})},
            ),
            storage=storage or self.recipe_.storage,
        )

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "TextClassifier":
        """A saved model as a fitted classifier."""
        from lamatext.training.checkpoint import EpochRecord

        saved = load_model(folder)
        classifier = cls.of_recipe(saved.recipe)
        classifier.recipe_ = saved.recipe
        classifier.classes_ = np.array(saved.labels)
        classifier.network_ = load_network(saved)
        classifier.encoder_ = saved.encoder
        classifier.ngrams_ = saved.ngrams
        classifier.facts_ = saved.facts
        classifier.metrics_ = saved.metrics
        classifier.history_ = [
            EpochRecord(**record, rate=0.0, words=0) for record in saved.metrics.get("history", [])
        ]
        return classifier

    @classmethod
    def of_recipe(cls, recipe: Recipe, *, device: str = "auto") -> "TextClassifier":
        """A classifier, not yet fitted, with exactly the settings of ``recipe``."""
        return cls(recipe.model.name, recipe=recipe, device=device)

    def resolve(self) -> Recipe:
        """The recipe that these parameters come to."""
        given = {
            setting: getattr(self, name)
            for name, setting in SHORT_NAMES.items()
            if getattr(self, name) is not None
        }
        if isinstance(self.class_weight, Mapping):
            given["training.class_weight"] = {str(k): v for k, v in self.class_weight.items()}
        return resolve_recipe(
            model=self.model,
            recipe=self.recipe,
            values={**(self.settings or {}), **given},
            where="TextClassifier",
        )

    def _predictor(self) -> Predictor:
        from lamatext.explain.classifier_head import ClassifierHead
        from lamatext.explain.occlusion import most_versions
        from lamatext.runtime.torch_engine import TorchEngine

        self._check_fitted()
        head, name = None, self.recipe_.model.name
        if name != "bert":
            tensors = self.network_.state_dict()
            last = {k: v.numpy() for k, v in tensors.items() if k.startswith("classifier.")}
            head = ClassifierHead.from_tensors(last)
        return Predictor(
            TorchEngine(self.network_), self.encoder_, self.classes_, head, self.ngrams_,
            versions=most_versions(name),
        )  # fmt: skip

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "this TextClassifier is not fitted. Call fit(texts, labels), or load a saved one."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _validation(valid: tuple[Texts, Labels], label_encoder: LabelEncoder) -> "Labelled":
    """The texts to stop by, with class numbers."""
    from lamatext.training.preparation import Texts as Labelled

    texts = text_column(valid[0])
    labels = label_array(valid[1], len(texts))
    return Labelled(texts, label_encoder.encode(labels, source="validation data"))
