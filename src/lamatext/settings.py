"""Every setting with its type, its default and its range, and how one is replaced."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from re import findall
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lamatext.errors import ConfigError

ModelName = Literal[
    "lama", "lama-ctx", "lama-ctx-dp", "lama-ctx-de", "lama-encoder", "bilinear",
    "san", "bigru", "cnn", "te", "avg", "bert",
]  # fmt: skip
MODEL_NAMES: tuple[str, ...] = get_args(ModelName)
LAMA = ("lama", "lama-ctx", "lama-ctx-dp", "lama-ctx-de", "lama-encoder")
ATTENTIVE = (*LAMA, "bilinear", "san")
RECURRENT = (*(name for name in ATTENTIVE if name != "lama-encoder"), "bigru")

Count = Annotated[int, Field(ge=1)]
CountOrAuto = Count | Literal["auto"]  # auto: follows from the data, by ``training.rules``
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class Settings(BaseModel):
    """A frozen table of settings that refuses names it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TextSettings(Settings):
    """From characters to word vectors."""

    tokenizer: Literal["words", "spacy"] = "words"
    lowercase: bool = True
    min_count: CountOrAuto = 5
    rare_words: Literal["drop", "unknown"] = "drop"
    """Words under ``min_count``: left out of the text, or read as one unknown word."""
    max_words: Count | None = None
    """Words of a text beyond this many are not read."""
    last_words: Annotated[int, Field(ge=0)] = 0
    """Of ``max_words``, how many come from the end of the text; the others from its beginning."""
    word_vectors: str = "word2vec"
    """``word2vec`` (trained on the training texts), ``random``, or a GloVe/word2vec text file."""
    vector_width: Count = 100
    word2vec_skip_gram: bool = False
    """word2vec by skip-gram; otherwise by CBOW, gensim's own choice."""
    word2vec_epochs: CountOrAuto = 5
    word2vec_window: Count = 5
    word2vec_subsample: NotNegative = 1e-3
    """Words more frequent than this are skipped at random by word2vec."""


class ModelSettings(Settings):
    """The network: which system, and its sizes."""

    name: ModelName = "lama-ctx"
    hidden_size: Count = 50
    """GRU units in each direction."""
    heads: Count = 15
    rank: Count = 1
    score_input: Literal["projected", "states"] = "projected"
    """Score the words by uₜ = tanh(W hₜ + b), or by the states hₜ themselves."""
    score_tanh: bool = True
    score_l2: bool = True
    initial_temperature: Positive | None = None
    """Where each head's learned temperature starts; none in the paper."""
    san_width: Count = 350
    """The inner width of ``san``."""
    disagreement_weight: NotNegative = 0.0
    """λ: the weight of the disagreement term in the loss."""
    cnn_filters: Count = 100
    transformer_layers: Count = 1
    transformer_feed_forward: Count = 2048
    transformer_positions: Count = 512
    """Position embeddings of ``te``; words beyond them are not read."""
    pretrained: str = "bert-base-uncased"
    classifier_width: Annotated[int, Field(ge=0)] = 512
    """Hidden units of the classifier; 0 is one linear layer."""
    dropout: Share = 0.4
    embedding_dropout: Share = 0.0


USED_BY: dict[str, tuple[str, ...]] = {
    "model.hidden_size": RECURRENT,
    "model.heads": (*LAMA, "san", "te"),
    "model.score_input": (*LAMA, "bilinear"),
    **dict.fromkeys(("model.rank", "model.score_tanh", "model.score_l2"), LAMA),
    "model.initial_temperature": LAMA,
    "model.san_width": ("san",),
    "model.disagreement_weight": ("lama-ctx-dp", "lama-ctx-de", "san"),
    "model.cnn_filters": ("cnn",),
    "model.transformer_layers": ("te",),
    "model.transformer_feed_forward": ("te",),
    "model.transformer_positions": ("te",),
    "model.pretrained": ("bert",),
    **dict.fromkeys(
        ("model.classifier_width", "model.embedding_dropout"),
        tuple(name for name in MODEL_NAMES if name != "bert"),
    ),
}
"""The systems that a setting has an effect in, where these are not all."""


def has_effect(setting: str, model: str) -> bool:
    """Whether the system reads the setting of that dotted name."""
    return model in USED_BY.get(setting, MODEL_NAMES)


class TrainingSettings(Settings):
    """How the network is fitted."""

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    learning_rate: Positive = 0.05
    momentum: Share = 0.9
    weight_decay: NotNegative = 1e-4
    """Word vectors have none under adamw, where it would pull rare words to zero."""
    schedule: Literal["plateau", "one-cycle", "constant"] = "plateau"
    epochs: CountOrAuto = 50
    patience: Count = 5
    keep_weights: Literal["best", "last"] = "best"
    """The weights of the best epoch on validation, stopping early; or of the last one."""
    batch_size: CountOrAuto = 32
    gradient_clip: Positive | None = None
    class_weight: Literal["balanced"] | dict[str, Positive] | None = None
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training texts held out for early stopping."""


class NgramSettings(Settings):
    """A linear model on n-grams whose logits are added to the network's."""

    enabled: bool = False
    max_words: Count = 3
    """Runs of 1 to this many words."""
    characters: bool | Literal["auto"] = "auto"
    """Runs of 2 to 5 characters inside a word; auto: where words are seen seldom."""
    naive_bayes_power: NotNegative = 0.5
    """Each n-gram counts by its naive-Bayes ratio to this power; 0 leaves the ratio out."""
    svm_c: Positive = 1.0
    """C of the linear model: the larger, the closer it fits."""
    max_megabytes: Positive = 6.0
    """The table of n-grams is cut to this size, rare ones first."""


class Recipe(Settings):
    """All that a training run depends on, apart from its data."""

    text: TextSettings = TextSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    ngrams: NgramSettings = NgramSettings()
    storage: Literal["float32", "float16", "int8"] = "float32"
    """How the network's numbers lie on disk; training ends with the numbers as stored."""
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        model, width = self.model, self.text.vector_width
        if model.name == "te" and width % model.heads:
            raise ValueError(
                f"text.vector_width ({width}) must be divisible by model.heads ({model.heads}) in "
                "te. Choose a number of heads that divides the width"
            )
        words, positions = self.text.max_words, model.transformer_positions
        if model.name == "te" and (words is None or words > positions):
            raise ValueError(
                f"model.transformer_positions is {positions}, but text.max_words is "
                f"{'not set' if words is None else words}. Set text.max_words to {positions} "
                "or less, or raise model.transformer_positions"
            )
        states = width if model.name == "lama-encoder" else 2 * model.hidden_size
        context = states if model.name == "lama" else width
        limit = min(states, context)
        if model.name.startswith("lama") and model.rank > limit:
            raise ValueError(
                f"model.rank ({model.rank}) must be at most {limit}, the smaller of the widths of "
                f"states ({states}) and context ({context}): a higher rank adds nothing"
            )
        return self

    def with_values(self, values: Mapping[str, object], *, where: str = "--set") -> "Recipe":
        """This recipe with some settings replaced; keys are dotted, ``model.heads``."""
        tree = self.model_dump()
        for key, value in values.items():
            _put(tree, key, value, where)
        return validated(tree, where)


def _put(tree: dict[str, object], key: str, value: object, where: str) -> None:
    *tables, leaf = key.split(".")
    node: dict[str, object] = tree
    for table in tables:
        below = node.get(table)
        if not isinstance(below, dict):
            raise ConfigError(_unknown(where, key))
        node = below
    if key not in setting_names():
        raise ConfigError(_unknown(where, key))
    node[leaf] = value


def validated(tree: Mapping[str, object], where: str) -> Recipe:
    """The recipe that the tree of settings comes to; the first fault in it is an error."""
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][:2])  # further parts name Python types
        if first["type"] == "extra_forbidden":
            raise ConfigError(_unknown(where, key)) from None
        message = first["msg"].removeprefix("Value error, ")
        if key:
            message = f"{key} = {first['input']!r}: {message[0].lower()}{message[1:]}"
        hint = ""
        if first["type"] == "literal_error":
            hint = did_you_mean(str(first["input"]), findall("'([^']+)'", first["ctx"]["expected"]))
        raise ConfigError(f"{where}: {message}.{hint}") from None


def setting_names() -> list[str]:
    """Every setting by its dotted name."""
    return [
        f"{table}.{name}"
        for table, settings in (
            ("text", TextSettings),
            ("model", ModelSettings),
            ("training", TrainingSettings),
            ("ngrams", NgramSettings),
        )
        for name in settings.model_fields
    ] + ["storage", "seed"]


def _unknown(where: str, key: str) -> str:
    return f"{where}: unknown setting {key}.{did_you_mean(key, setting_names())}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word, or nothing."""
    known = list(known)
    close = get_close_matches(word, known, n=1)
    if not close:
        leaf = word.rsplit(".", 1)[-1]
        close = [name for name in known if name.rsplit(".", 1)[-1] == leaf][:1]
    return f" Did you mean {close[0]}?" if close else ""
