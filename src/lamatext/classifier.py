"""TextClassifier: a scikit-learn estimator that classifies texts and explains its predictions."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.labels import LabelEncoder, check_label_count
from lamatext.data.probability_file import (
    is_probability_file,
    match_probabilities,
    read_probability_columns,
)
from lamatext.data.splits import Split
from lamatext.data.streaming import StreamedTexts
from lamatext.data.text_encoder import Encoder
from lamatext.data.text_sketch import TextSketch
from lamatext.data.validation import (
    Groups,
    LabelLists,
    Labels,
    Texts,
    group_column,
    label_array,
    label_lists,
    text_column,
    text_list,
    warn_of_empty_texts,
)
from lamatext.errors import ConfigError, DataError, percent, plural, require
from lamatext.explain.explanation import Explanation
from lamatext.label_thresholds import LabelThresholds
from lamatext.ngrams.model import NgramModel
from lamatext.progress import SILENT, Progress
from lamatext.recipes import continue_recipe, resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import load_config, model_hash, versions
from lamatext.saved.model_hub import local_folder, push_to_hub
from lamatext.saved.model_io import (
    SavedModel,
    describe_ancestors,
    load_model,
    load_network,
    load_validation_statistics,
    save_model,
)
from lamatext.saved.quantization import Storage
from lamatext.settings import Recipe, did_you_mean, setting_names
from lamatext.views.notebook import class_names, model_html
from lamatext.views.progress_display import fit_progress

require("sklearn", extra="train", purpose="TextClassifier")
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

if TYPE_CHECKING:
    from torch import nn

    from lamatext.training.checkpoint import EpochRecord
    from lamatext.training.trainer import TrainedModel

FEW_TEXTS = 20  # with fewer, a validation set as large as the training set is the training set

SETTING_OF_PARAMETER = {
    "heads": "model.heads",
    "rank": "model.rank",
    "hidden_size": "model.hidden_size",
    "dropout": "model.dropout",
    "min_count": "text.min_count",
    "word_vectors": "text.word_vectors",
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "learning_rate": "training.learning_rate",
    "class_weight": "training.class_weight",
}


ValidationData: TypeAlias = "tuple[Texts, Labels] | tuple[Texts, Labels, Groups | None]"


class TextClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn text classifier that explains its predictions.

    A parameter that is None keeps the recipe's value. Every setting can be searched by name with
    ``set_params`` and ``GridSearchCV``: write ``training__weight_decay`` for the setting
    ``training.weight_decay``.

    Args:
        model: the name of another network; the rest of the recipe stays as it is.
        recipe: ``default``, ``paper``, ``paper/NAME``, the path of a TOML file, or a Recipe.
        heads: the number of attention heads.
        rank: the rank of each head's bilinear form.
        hidden_size: GRU units per direction.
        dropout: dropout in the classifier.
        min_count: words with fewer occurrences are not in the vocabulary.
        word_vectors: ``svd`` or ``word2vec`` (trained on the training texts), ``random``,
            ``minilm``, or a GloVe or word2vec text file.
        epochs: the maximum number of epochs.
        batch_size: texts per mini-batch.
        learning_rate: the (maximum) learning rate.
        class_weight: ``balanced``, or a mapping from label to weight.
        random_state: the seed of the split, word vectors, initial weights and batch order; None
            uses the recipe's seed, so that results are reproducible by default.
        teacher: a larger model from which this one learns: ``minilm``, the name or folder of a
            Hugging Face encoder, the folder of a saved model, a file of probabilities, or any
            fitted classifier that has ``predict_proba`` and ``classes_``. An encoder also provides
            words and word vectors unless ``recipe`` is given.
        warm_start: whether ``fit`` continues from the fitted or loaded model instead of starting
            anew. It keeps the model's words and classes and adds those of the new texts, with the
            model's settings at a fraction of its learning rate and for few epochs.
        device: ``auto`` uses a GPU if there is one; or ``cpu``, ``cuda``.
        verbose: whether ``fit`` shows a progress bar; None shows it in notebooks alone.
        settings: further settings by dotted name, such as ``{"training.gradient_clip": 1.0}``.
            Keyword arguments take precedence over ``settings``.
    """

    def __init__(  # noqa: PLR0913 - an estimator's parameters are its settings
        self,
        model: str | None = None,
        *,
        recipe: str | Recipe | None = None,
        heads: int | None = None,
        rank: int | None = None,
        hidden_size: int | None = None,
        dropout: float | None = None,
        min_count: int | None = None,
        word_vectors: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = None,
        teacher: object = None,
        warm_start: bool = False,
        device: str = "auto",
        verbose: bool | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.heads = heads
        self.rank = rank
        self.hidden_size = hidden_size
        self.dropout = dropout
        self.min_count = min_count
        self.word_vectors = word_vectors
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.random_state = random_state
        self.teacher = teacher
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.settings = settings

    def set_params(self, **params: Any) -> Self:
        """Set the classifier's parameters and settings, such as ``training__weight_decay=0.01``.

        The name ``training__weight_decay`` stands for the setting ``training.weight_decay``.
        """
        settings = {
            name.replace("__", "."): params.pop(name) for name in list(params) if "__" in name
        }
        unknown = [name for name in settings if name not in setting_names()]
        if unknown:
            hint = did_you_mean(unknown[0], setting_names())
            raise ConfigError(f"set_params: unknown setting {unknown[0]}.{hint}")
        super().set_params(**params)
        if settings:
            self.settings = {**(self.settings or {}), **settings}
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the classifier's parameters and, if ``deep``, explicitly given settings.

        The setting ``training.weight_decay`` is returned as ``training__weight_decay``.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            settings = self.settings if isinstance(self.settings, Mapping) else {}
            params |= {name.replace(".", "__"): value for name, value in settings.items()}
        return params

    def fit(  # noqa: PLR0913 - scikit-learn's arguments and what a run needs
        self,
        X: Texts,
        y: Labels,
        sample_weight: ArrayLike | None = None,
        *,
        groups: "Groups | None" = None,
        validation_data: "ValidationData | None" = None,
        unlabelled: "Texts | None" = None,
        checkpoint: str | PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the classifier to texts and their labels.

        Args:
            X: the texts, as a list or as a numpy, pandas, polars or pyarrow column.
            y: one label per text: str, int or bool; or several: a list or set of labels per text,
                or an indicator matrix with a column of 0 and 1 for each label.
            sample_weight: one weight per text, at least 0; by default all texts weigh the same.
            groups: the group of each text, such as its customer: texts of one group stay together
                when some are held out. Duplicates always do.
            validation_data: texts and labels, or texts, labels and groups, for calibration and
                early stopping; by default a fraction of X is held out.
            unlabelled: further texts without labels, which the teacher labels.
            checkpoint: a file for the state of the run; if it exists, training resumes from it.
            progress: receives progress reports instead of the progress bar of ``verbose``.
        """
        start = self._saved_model() if self.warm_start and self.__sklearn_is_fitted__() else None
        recipe = self.resolve() if start is None else self._resolve_continued(start)
        texts = text_column(X)
        labels = _parse_labels(y, len(texts))
        classes = _classes_of(labels, start)
        data = _FitData(
            _dataset(texts, labels, "training data", groups),
            None if validation_data is None else _validation_dataset(validation_data, labels),
            classes,
            sample_weight,
            unlabelled,
        )
        with nullcontext(progress) if progress else fit_progress(self.verbose) as shown:
            run = {
                "device": self.device,
                "checkpoint": None if checkpoint is None else Path(checkpoint),
                "progress": shown,
                "start": start,
            }
            trained, teacher_facts = self._train(data, recipe, run)
        thresholds = None
        if isinstance(labels, LabelLists) and trained.thresholds is not None:
            thresholds = LabelThresholds(trained.thresholds, labels.form)
        ancestors = None if start is None else describe_ancestors(start, self.hash_)
        self._keep(trained, classes, data.train, thresholds)
        self.facts_["data"]["sketch"] = data.sketch().as_json()
        self._is_validated_on_training = trained.is_validated_on_training
        if ancestors is not None:
            self.facts_["ancestors"] = ancestors
        if teacher_facts is not None:
            self.facts_["teacher"] = teacher_facts
        return self

    def fit_streamed(
        self,
        streamed: StreamedTexts,
        sample: Dataset,
        *,
        checkpoint: Path | None = None,
        progress: Progress = SILENT,
    ) -> Self:
        """Fit the classifier on texts that were streamed to disk.

        Args:
            streamed: the training and validation texts, with one label per text.
            sample: some of the training texts, which identify the data.
            checkpoint: a file for the state of the run; if it exists, training resumes from it.
            progress: receives progress reports.
        """
        from lamatext.training.trainer import train_tokens

        if len(streamed.classes) < 2:
            raise DataError(
                f"{sample.source}: all texts have the label {streamed.classes[0]!r}. "
                "A classifier needs at least two classes."
            )
        rows = np.arange(len(streamed.labels))
        trained = train_tokens(
            streamed.tokens,
            streamed.labels,
            Split(rows[: streamed.training_texts], rows[streamed.training_texts :]),
            self.resolve(),
            classes=streamed.classes,
            device=self.device,
            checkpoint=checkpoint,
            progress=progress,
        )
        self._keep(trained, streamed.classes, sample)
        self.facts_["data"]["texts"] = streamed.training_texts
        return self

    def _keep(
        self,
        trained: "TrainedModel",
        classes: Sequence[Any],
        train: Dataset,
        thresholds: LabelThresholds | None = None,
    ) -> None:
        """Store a trained model and facts about its training in the classifier's attributes."""
        self.classes_: NDArray[Any] = np.array(classes)
        self.recipe_: Recipe = trained.recipe
        self.network_: nn.Module = trained.network
        self.encoder_: Encoder = trained.encoder
        self.ngrams_: NgramModel | None = trained.ngrams
        self.thresholds_: LabelThresholds | None = thresholds
        self.history_: list[EpochRecord] = trained.history
        self.facts_: dict[str, Any] = {
            "data": {"texts": len(train), "fingerprint": dataset_fingerprint(train)},
            "training": {
                "best_epoch": trained.best_epoch,
                "validation_accuracy": trained.validation_accuracy,
                "scales": trained.scales,
                "seconds": sum(record.seconds for record in trained.history),
            },
            "versions": versions(),
        }
        if trained.validation is not None:
            self.facts_["validation"] = trained.validation.as_dict()
        if trained.label_noise:
            self.facts_["label_noise"] = trained.label_noise
        self.metrics_: dict[str, Any] = {}
        self.hash_: str | None = None  # of the saved model that was loaded
        if trained.architecture is not None:
            self.facts_["architecture"] = trained.architecture

    def _train(
        self, data: "_FitData", recipe: Recipe, run: dict[str, Any]
    ) -> "tuple[TrainedModel, dict[str, Any] | None]":
        """Train the classifier's model on labels or on the probabilities of a teacher model.

        Returns:
            The trained model, and facts about the teacher model (None without a teacher).
        """
        from lamatext.training.trainer import train

        if self.teacher is None:
            if data.unlabelled is not None:
                raise ConfigError("unlabelled texts need a teacher: TextClassifier(teacher=…).")
            trained = train(
                data.train,
                data.validation,
                recipe,
                classes=data.classes,
                sample_weight=data.sample_weight,
                **run,
            )
            return trained, None
        if run.pop("start") is not None:
            raise ConfigError("a model that continues another one cannot have a teacher, too.")
        from lamatext.training.teachers import teach, teacher_data

        unlabelled = [] if data.unlabelled is None else text_list(data.unlabelled)
        seen = teacher_data(data.train, data.validation, unlabelled, data.classes, recipe)
        teacher = _open_named_teacher(self.teacher, data, unlabelled)
        lesson = teach(teacher, seen, recipe, **run)
        decided = {"distillation.variants": lesson.facts["variants"]}
        if "teachers" in lesson.facts:
            decided["distillation.teachers"] = lesson.facts["teachers"]
        recipe = recipe.with_values(decided)
        trained = train(
            seen.train,
            seen.validation,
            recipe,
            classes=data.classes,
            sample_weight=seen.weights_of_training_rows(data.sample_weight),
            teacher_labels=lesson.labels,
            **run,
        )
        return trained, lesson.facts

    def predict(self, X: Iterable[str]) -> NDArray[Any]:
        """Predict the most probable label of each text with the fitted classifier.

        If the classifier was fitted with several labels per text, the result has the form of those
        labels: an array with a list or set of labels per text, or an indicator matrix.
        """
        return self._predictor().predict(text_list(X))

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Predict label probabilities with the classifier, in the order of ``classes_``."""
        texts = text_list(X)
        warn_of_empty_texts(texts)
        return self._predictor().predict_proba(texts)

    def score(self, X: Texts, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """Return the classifier's accuracy: the share of texts whose labels are predicted exactly.

        With several labels per text, true labels that the classifier does not know are dropped,
        with a warning.
        """
        self._check_fitted()
        if self.thresholds_ is None:
            truth = np.array(label_array(y, len(text_column(X))).tolist())  # object → bool or str
            return float(super().score(X, truth, sample_weight))
        texts = text_column(X)
        lists = label_lists(y, len(texts))
        if lists is None:
            raise DataError("the classifier gives several labels per text. Give lists of labels.")
        truth = self._label_matrix(texts, lists)
        decided = self.thresholds_.decide(self.predict_proba(texts.to_pylist()))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average((decided == (truth > 0)).all(axis=1), weights=weights))

    def _label_matrix(self, texts: pa.ChunkedArray, lists: LabelLists) -> NDArray[np.float32]:
        """Convert test labels to a 0/1 matrix with one column per label of the classifier."""
        classes = tuple(self.classes_.tolist())
        if lists.form == "indicator" and isinstance(lists.classes[0], int):  # without names
            if len(lists.classes) != len(classes):
                raise DataError(
                    f"expected an indicator matrix with {len(classes)} columns, one for each label "
                    f"of the classifier, got {len(lists.classes)}. Give the columns in the order "
                    "of classes_."
                )
            names = dict(zip(lists.classes, classes, strict=True))
            lists = lists._replace(rows=[[names[column] for column in row] for row in lists.rows])
        encoder = LabelEncoder(classes)
        known = encoder.drop_unknown(Dataset(texts, lists.column(), "labels"))
        return encoder.encode_lists(known.require_labels())

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Return the text embeddings of the fitted classifier as one flat vector per text.

        The shape is (n, heads * width).
        """
        return self._predictor().transform(text_list(X))

    def explain(self, text: str) -> Explanation:
        """Explain which words led the classifier to its prediction for one text."""
        return self._predictor().explain(text)

    def save(
        self,
        folder: str | PathLike[str],
        *,
        metrics: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> Path:
        """Save the fitted classifier to a folder, for ``load`` and ``Predictor.load``.

        Args:
            folder: created if it does not exist.
            metrics: scores to save with the model.
            data: facts about the data, such as its source and number of texts.
            storage: the number format of the weights; None is the recipe's.
        """
        from lamatext.nn.network import count_parameters

        self._check_fitted()
        facts = {
            **self.facts_,
            "data": {**self.facts_["data"], **(data or {})},
            "parameters": count_parameters(self.network_)
            | ({} if self.ngrams_ is None else {"n-grams": self.ngrams_.size}),
        }
        history = [record.as_dict() for record in self.history_]
        saved = replace(
            self._saved_model(),
            facts=facts,
            metrics={**self.metrics_, "history": history, **(metrics or {})},
        )
        return save_model(folder, saved, storage=storage or self.recipe_.storage)

    def _saved_model(self) -> SavedModel:
        return SavedModel(
            recipe=self.recipe_,
            labels=self.classes_.tolist(),
            tensors={k: v.numpy() for k, v in self.network_.state_dict().items()},
            encoder=self.encoder_,
            ngrams=self.ngrams_,
            thresholds=self.thresholds_,
            facts=self.facts_,
        )

    def push_to_hub(self, name: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the fitted classifier to the Hugging Face Hub and return its address.

        Args:
            name: ``OWNER/NAME``; the repository is created if it does not exist.
            private: whether a new repository is private.
            token: an access token; None uses the one of ``hf auth login`` or ``$HF_TOKEN``.
        """
        with tempfile.TemporaryDirectory() as folder:
            return push_to_hub(self.save(folder), name, private=private, token=token)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "TextClassifier":
        """Load a fitted classifier from a model folder or ``hf:OWNER/NAME``."""
        from lamatext.training.checkpoint import EpochRecord

        folder = local_folder(folder)
        saved = load_model(folder)
        classifier = cls.of_recipe(saved.recipe)
        classifier.hash_ = model_hash(folder, load_config(folder))
        classifier.recipe_ = saved.recipe
        classifier.classes_ = np.array(saved.labels)
        classifier.network_ = load_network(saved)
        classifier.encoder_ = saved.encoder
        classifier.ngrams_ = saved.ngrams
        classifier.thresholds_ = saved.thresholds
        classifier.facts_ = saved.facts
        classifier.metrics_ = saved.metrics
        classifier.history_ = [
            EpochRecord.from_dict(record) for record in saved.metrics.get("history", [])
        ]
        return classifier

    @classmethod
    def of_recipe(
        cls, recipe: Recipe, *, device: str = "auto", teacher: object = None
    ) -> "TextClassifier":
        """Create an unfitted classifier with exactly the settings of ``recipe``."""
        return cls(recipe=recipe, device=device, teacher=teacher)

    def resolve(self) -> Recipe:
        """Return the recipe that results from the classifier's parameters and settings."""
        return resolve_recipe(
            model=self.model,
            recipe=self.recipe or self._default_recipe(),
            values=self._given_settings(),
            where="TextClassifier",
        )

    def _resolve_continued(self, start: SavedModel) -> Recipe:
        again = "ancestors" in start.facts
        values = self._given_settings()
        return continue_recipe(start.recipe, values, again=again, where="TextClassifier")

    def _given_settings(self) -> dict[str, object]:
        values = {
            setting: getattr(self, parameter)
            for parameter, setting in SETTING_OF_PARAMETER.items()
            if getattr(self, parameter) is not None
        }
        if isinstance(self.class_weight, Mapping):
            values["training.class_weight"] = {str(k): v for k, v in self.class_weight.items()}
        if self.random_state is not None:
            values["seed"] = _seed(self.random_state)
        return {**(self.settings or {}), **values}

    def _default_recipe(self) -> str:
        """Return the name of the classifier's default recipe: ``default`` or ``student``.

        It is ``student`` if the teacher is a pretrained encoder.
        """
        if self.teacher is not None:
            from lamatext.training.teachers import is_encoder_name

            if is_encoder_name(self.teacher):
                return "student"
        return "default"

    def _predictor(self) -> Predictor:
        from lamatext.explain.contributions import ClassifierHead, max_occlusions
        from lamatext.runtime.torch_engine import TorchEngine

        self._check_fitted()
        head, name = None, self.recipe_.model.name
        if name != "bert":
            tensors = self.network_.state_dict()
            last = {k: v.numpy() for k, v in tensors.items() if k.startswith("classifier.")}
            head = ClassifierHead.from_tensors(last)
        return Predictor(
            TorchEngine(self.network_), self.encoder_, self.classes_, head, self.ngrams_,
            self.thresholds_,
            max_occlusions=max_occlusions(name),
            threshold=self.facts_.get("unsure", {}).get("threshold"),
            validation=load_validation_statistics(self.facts_),
            label_noise=self.facts_.get("label_noise", 0.0),
        )  # fmt: skip

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Describe the classifier by its parameters or, once fitted, its main facts."""
        if not self.__sklearn_is_fitted__():
            return str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        facts = "; ".join(f"{name} {value}" for name, value in self._summary().items())
        return f"TextClassifier, fitted ({facts})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        if not self.__sklearn_is_fitted__():
            bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
            return bundle
        html = model_html("TextClassifier, fitted", self._summary())
        return {"text/plain": repr(self), "text/html": html}

    def _summary(self) -> dict[str, str]:
        data, training = self.facts_.get("data", {}), self.facts_.get("training", {})
        summary = {"classes": class_names(self.classes_.tolist())}
        if "texts" in data:
            summary["texts"] = f"{data['texts']:,}"
        if "validation_accuracy" in training:
            score, count = training["validation_accuracy"], self._validation_texts()
            name, value = "validation accuracy", percent(score)
            if self.thresholds_ is not None:
                name, value = "validation mean average precision", f"{score:.3f}"
            if count is None:
                summary[name] = value
            elif count == data.get("texts", 0) < FEW_TEXTS or self._is_validated_on_training:
                summary["score on the training texts"] = value
            else:
                summary[name] = f"{value} on {plural(count, 'text')}"
        test = self.metrics_.get("test") or {}
        kind = "cross-validation" if test.get("folds") else "test"
        if "micro_f1" in test:
            summary[f"{kind} micro-F1"] = f"{test['micro_f1']:.3f}"
        elif "accuracy" in test:
            summary[f"{kind} accuracy"] = percent(test["accuracy"])
        return summary

    _is_validated_on_training = False  # because no texts could be held out; unknown if loaded

    def _validation_texts(self) -> int | None:
        count: int | None = self.facts_.get("validation", {}).get("texts")
        return count

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
        tags.classifier_tags.multi_label = True
        return tags


class _FitData(NamedTuple):
    train: Dataset
    validation: Dataset | None
    classes: Sequence[Any]
    sample_weight: ArrayLike | None
    unlabelled: "Texts | None"

    def sketch(self) -> TextSketch:
        """Return a sketch of the texts that the classifier is trained and validated on."""
        texts = self.train.texts
        if self.validation is not None:
            texts = self.train.concatenate(self.validation).texts
        return TextSketch.of_texts(texts)


def _classes_of(labels: NDArray[Any] | LabelLists, start: SavedModel | None) -> list[Any]:
    """Return the classifier's sorted classes; raise DataError if there are fewer than two.

    If the classifier continues a model, the model's classes come first, then the new classes.
    """
    if isinstance(labels, LabelLists):
        classes, texts, or_none = list(labels.classes), len(labels.rows), " or none"
    else:
        classes, texts, or_none = np.unique(labels).tolist(), len(labels), ""
    check_label_count(len(classes), texts, "labels")
    if start is not None:
        return _extended_classes(start, classes, is_multi_label=bool(or_none))
    if len(classes) < 2:
        raise DataError(
            f"all {texts} texts have the label {classes[0]!r}{or_none}. "
            "A classifier needs at least two classes."
        )
    return classes


def _extended_classes(start: SavedModel, new: Sequence[Any], *, is_multi_label: bool) -> list[Any]:
    """Return the classes of the warm-started classifier, followed by new classes in the data."""
    if is_multi_label != (start.thresholds is not None):
        raise DataError(
            f"the model to continue gives {'one label' if is_multi_label else 'several labels'} "
            f"per text, the new texts have {'several' if is_multi_label else 'one'}. Write the "
            "labels in the same way, or train a new model."
        )
    added, kind = LabelEncoder(tuple(start.labels)).unknown(new), type(start.labels[0])
    if any(type(label) is not kind for label in added):
        raise DataError(
            f"the labels of the model to continue are of the type {kind.__name__}, the new label "
            f"{added[0]!r} is not. Use labels of one type."
        )
    return [*start.labels, *added]


def _open_named_teacher(teacher: object, data: _FitData, unlabelled: Sequence[str]) -> object:
    """Load the classifier's teacher if it is given as a probability file or a saved model.

    The rows of a probability file are matched with the texts by a column ``text`` or by order:
    first the texts of the training data, then the unlabelled texts. Any other teacher is returned
    unchanged.
    """
    from lamatext.training.teachers import FittedTeacher, is_encoder_name

    if not isinstance(teacher, str | PathLike):
        return teacher
    if is_probability_file(teacher):
        return match_probabilities(
            read_probability_columns(teacher),
            LabelEncoder(tuple(data.classes)).names,
            [*data.train.texts.to_pylist(), *unlabelled],
            source=str(teacher),
            multi_label=data.train.is_multi_label,
        )
    if is_encoder_name(teacher):
        return teacher
    saved = Predictor.load(teacher)
    if (saved.thresholds is not None) != data.train.is_multi_label:
        raise DataError(
            f"{teacher}: the teacher and the data must both have several labels per text, "
            "or both one. Give a teacher that was trained on labels of the same form."
        )
    return FittedTeacher(str(teacher), saved, saved.classes_.tolist(), data.classes)


def _parse_labels(labels: Labels, texts: int) -> NDArray[Any] | LabelLists:
    """Validate and convert the labels passed to the classifier, one or several per text."""
    if isinstance(labels, Iterator):
        labels = list(labels)
    lists = label_lists(labels, texts)
    return label_array(labels, texts) if lists is None else lists


def _dataset(
    texts: pa.ChunkedArray,
    labels: NDArray[Any] | LabelLists,
    source: str,
    groups: "Groups | None" = None,
) -> Dataset:
    values = None if groups is None else group_column(groups, len(texts))
    if isinstance(labels, LabelLists):
        return Dataset(texts, labels.column(), source, group_values=values)
    names = pa.chunked_array([pa.array(labels.astype(str).tolist(), pa.string())])
    return Dataset(texts, names, source, group_values=values)


def _validation_dataset(data: ValidationData, training: NDArray[Any] | LabelLists) -> Dataset:
    """Convert the classifier's validation data to a dataset and check the form of its labels."""
    is_tuple = isinstance(data, tuple | list)
    if not is_tuple or len(data) not in (2, 3):
        kind = type(data).__name__
        found = f"has {plural(len(data), 'part')}" if is_tuple else f"is of type {kind}"
        raise DataError(
            f"validation_data {found}, expected (texts, labels) or (texts, labels, groups)."
        )
    texts, labels, *more = data
    column = text_column(texts)
    parsed = _parse_labels(labels, len(column))
    if (
        isinstance(parsed, LabelLists)
        and isinstance(training, LabelLists)
        and "indicator" in (parsed.form, training.form)
        and parsed.classes != training.classes
    ):
        validation_form, training_form = map(_describe_form, (parsed, training))
        raise DataError(
            f"the labels of the validation data are {validation_form}, those of the training data "
            f"{training_form}. Give two indicator matrices with the same columns, or two lists of "
            "lists."
        )
    return _dataset(column, parsed, "validation data", *more)


def _describe_form(labels: LabelLists) -> str:
    if labels.form != "indicator":
        return f"lists of {plural(len(labels.classes), 'label')}"
    names = ", ".join(map(str, labels.classes[:5]))
    more = ", ..." if len(labels.classes) > 5 else ""
    return f"an indicator matrix with {plural(len(labels.classes), 'column')} ({names}{more})"


def _seed(random_state: int | np.random.RandomState) -> object:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state
