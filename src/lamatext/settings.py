"""Every setting of a training run: its type, default, allowed range and meaning.

A recipe (``Recipe``) is the full tree of settings. It has five tables, ``text``, ``model``,
``training``, ``ngrams`` and ``distillation``; a setting is addressed by its dotted name, such as
``model.heads``.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from re import findall
from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lamatext.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ModelName = Literal[
    "lama", "lama-ctx", "lama-ctx-dp", "lama-ctx-de", "lama-encoder", "lama-blocks",
    "lama-phrases", "bilinear", "san", "bigru", "cnn", "te", "avg", "bert",
]  # fmt: skip
MODEL_NAMES: tuple[str, ...] = get_args(ModelName)
LAMA = tuple(name for name in MODEL_NAMES if name.startswith("lama"))
ATTENTIVE = (*LAMA, "bilinear", "san")
STATES_OF_EMBEDDING_WIDTH = ("lama-encoder", "lama-blocks")
RECURRENT = (*(name for name in ATTENTIVE if name not in STATES_OF_EMBEDDING_WIDTH), "bigru")

Count = Annotated[int, Field(ge=1)]
CountOrAuto = Count | Literal["auto"]  # "auto" is resolved by ``training.auto_settings``
Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class Settings(BaseModel):
    """Base class of the groups of settings, which are immutable and reject unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TextSettings(Settings):
    """Settings for converting texts to token ids and word vectors."""

    tokenizer: Literal["words", "spacy"] = "words"
    """``words``: our own tokenizer; ``spacy``: spaCy's English tokenizer, as in the paper."""
    tokenizer_version: Literal[1, 2] = 2
    """The rules of the tokenizer ``words``: 2 also splits Thai, Lao, Khmer and Burmese, which are
    written without spaces, into grapheme clusters; 1 is for models saved before."""
    lowercase: bool = True
    """Convert all texts to lower case."""
    min_count: CountOrAuto = 5
    """Words that occur fewer times in the training texts are not in the vocabulary."""
    rare_words: Literal["drop", "unknown"] = "drop"
    """Words outside the vocabulary are dropped from the text, or read as one unknown word."""
    max_words: Count | None = None
    """The maximum number of words read from one text; none reads the whole text."""
    last_words: Annotated[int, Field(ge=0)] = 0
    """How many of ``max_words`` are taken from the end of a long text instead of its beginning."""
    word_vectors: str = "word2vec"
    """Initial word vectors: ``svd`` or ``word2vec`` (both trained on the training texts),
    ``random``, the path of a GloVe or word2vec text file, or a pretrained encoder: ``minilm``, or
    the folder of one."""
    extra_words: Annotated[int, Field(ge=0)] = 0
    """How many of the first words of the vector file, or of the pretrained encoder's vocabulary,
    the model knows even if the training texts lack them; each takes about 100 bytes."""
    vector_width: Count = 100
    """The width of the word vectors."""
    word2vec_skip_gram: bool = False
    """Train word2vec with skip-gram instead of CBOW."""
    word2vec_epochs: Count = 5
    """The number of epochs of word2vec training."""
    word2vec_window: Count = 5
    """The size of the word2vec context window, in words to each side."""
    word2vec_subsample: NotNegative = 1e-3
    """Words with a higher relative frequency are randomly skipped by word2vec."""

    @property
    def added_words(self) -> int:
        """Effective value of ``extra_words``: 0 if the word vectors are trained or random."""
        is_trained = self.word_vectors in ("svd", "word2vec", "random")
        return 0 if is_trained else self.extra_words


class ModelSettings(Settings):
    """Settings of the network: its architecture and the sizes of its layers."""

    name: ModelName = "lama-ctx"
    """The system: LAMA with a learned context (``lama``) or the mean embedding as its context
    (``lama-ctx``; ``-dp`` and ``-de`` add a disagreement term), LAMA without a GRU
    (``lama-encoder``), with attention blocks in its place (``lama-blocks``), LAMA with a query per
    phrase (``lama-phrases``), full-rank attention (``bilinear``), structured self-attention
    (``san``), a max-pooled bi-GRU (``bigru``), a CNN (``cnn``), a Transformer encoder (``te``), the
    mean embedding (``avg``) or a fine-tuned pretrained encoder (``bert``)."""
    hidden_size: Count = 50
    """GRU units per direction."""
    heads: Count = 15
    """The number of attention heads."""
    rank: Count = 1
    """The rank of each head's bilinear form."""
    score_input: Literal["projected", "states"] = "projected"
    """What the heads score: the projected states uₜ = tanh(W hₜ + b), or the states hₜ."""
    score_tanh: bool = True
    """Apply tanh to the attention scores."""
    score_l2: bool = True
    """Divide the scores of each word by their l2 norm over the heads."""
    initial_temperature: Positive | None = None
    """The initial value of a learned temperature per head; none (the paper) has no temperature."""
    san_width: Count = 350
    """The inner width of the attention of ``san``."""
    disagreement_weight: NotNegative = 0.0
    """λ, the weight of the disagreement term in the loss."""
    cnn_filters: Count = 100
    """The number of filters per window size in ``cnn``."""
    transformer_layers: Annotated[int, Field(ge=0)] = 1
    """The number of layers of ``te`` or of blocks of ``lama-blocks``."""
    transformer_feed_forward: Count = 2048
    """The feed-forward width of the layers or blocks."""
    transformer_positions: Count = 512
    """The number of learned position embeddings, and so the maximum text length in words."""
    position_encoding: Literal["none", "learned", "sinusoidal"] = "sinusoidal"
    """The position vectors of ``lama-blocks``: none, a learned table, or sine waves with a learned
    gain per dimension."""
    end_positions: bool = False
    """Also add vectors of the positions counted from the end of the text."""
    window_radius: Annotated[int, Field(ge=0)] = 2
    """How many words to each side the depthwise window of ``lama-blocks`` covers; 0 has none."""
    phrases: Count | Literal["punctuation"] | None = 8
    """The phrases of ``lama-phrases``: windows of this many words, spans up to a punctuation mark,
    or none (the whole text, as in ``lama-ctx``)."""
    pretrained: str = "bert-base-uncased"
    """The pretrained encoder of ``bert``: a Hugging Face name, a folder, or ``minilm``."""
    classifier_width: Annotated[int, Field(ge=0)] = 512
    """Hidden units of the classifier; 0 makes it a single linear layer."""
    dropout: Fraction = 0.4
    """Dropout in the classifier."""
    embedding_dropout: Fraction = 0.0
    """Dropout on the word embeddings."""


USED_BY: dict[str, tuple[str, ...]] = {
    "model.hidden_size": RECURRENT,
    "model.heads": (*LAMA, "san", "te"),
    "model.score_input": (*LAMA, "bilinear"),
    **dict.fromkeys(("model.rank", "model.score_tanh", "model.score_l2"), LAMA),
    "model.initial_temperature": LAMA,
    "model.san_width": ("san",),
    "model.disagreement_weight": ("lama-ctx-dp", "lama-ctx-de", "san"),
    "model.cnn_filters": ("cnn",),
    "model.transformer_layers": ("te", "lama-blocks"),
    "model.transformer_feed_forward": ("te", "lama-blocks"),
    "model.transformer_positions": ("te", "lama-blocks"),
    "model.position_encoding": ("lama-blocks",),
    "model.end_positions": ("lama-blocks",),
    "model.window_radius": ("lama-blocks",),
    "model.phrases": ("lama-phrases",),
    "model.pretrained": ("bert",),
    **dict.fromkeys(
        ("model.classifier_width", "model.embedding_dropout"),
        tuple(name for name in MODEL_NAMES if name != "bert"),
    ),
}
"""For settings that do not affect every system: the systems that they affect."""


def has_effect(setting: str, model: str) -> bool:
    """Return whether a setting (given by its dotted name) has an effect on the given model."""
    return model in USED_BY.get(setting, MODEL_NAMES)


class TrainingSettings(Settings):
    """Settings of the training loop: optimizer, learning rate, epochs and early stopping."""

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """The optimizer; ``adamw`` applies no weight decay to the word vectors."""
    learning_rate: Positive = 0.05
    """The learning rate; with ``one-cycle`` its maximum."""
    momentum: Fraction = 0.9
    """The momentum of SGD."""
    weight_decay: NotNegative = 1e-4
    """The weight decay (L2 penalty) of the optimizer."""
    schedule: Literal["plateau", "one-cycle", "constant"] = "plateau"
    """The learning-rate schedule: halve it after ``plateau_epochs`` epochs without a new best
    validation accuracy, one cycle of warm-up and cosine decay, or constant."""
    plateau_epochs: Count = 1
    """With ``plateau``: epochs without a new best validation accuracy before each halving."""
    epochs: CountOrAuto = 50
    """The maximum number of epochs."""
    patience: Count = 5
    """Early stopping: epochs without a new best validation accuracy before training ends."""
    keep_weights: Literal["best", "last"] = "best"
    """Keep the weights of the epoch with the best validation accuracy, with early stopping, or
    those of the last epoch."""
    batch_size: CountOrAuto = 32
    """Texts per mini-batch."""
    gradient_clip: Positive | None = None
    """The maximum norm of the gradient; none does not clip."""
    class_weight: Literal["balanced"] | dict[str, Positive] | None = None
    """Weights of the classes in the loss: ``balanced`` (inversely proportional to their
    frequency), or a weight per label."""
    metric: Literal["micro-f1", "macro-f1"] = "macro-f1"
    """With several labels per text: the metric that the thresholds of the labels maximize."""
    min_precision: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With several labels per text: the precision that the thresholds of the labels should reach,
    instead of the largest F1."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The fraction of the training texts held out as the validation set."""


class NgramSettings(Settings):
    """Settings of the linear n-gram model whose logits are added to the network's."""

    enabled: bool = False
    """Train an n-gram model together with the network."""
    max_words: Annotated[int, Field(ge=1, le=20)] = 3
    """The longest word n-gram, in words."""
    characters: bool | Literal["auto"] = "auto"
    """Also use character n-grams of 2 to 5 characters within words; ``auto`` uses them where many
    words or labels are rare."""
    naive_bayes_power: NotNegative = 0.5
    """Scale each n-gram by its naive-Bayes log-count ratio to this power; 0 does not scale. With
    more than 60 classes of fewer than 10 texts on average, 0 is tried, too."""
    svm_c: Positive = 1.0
    """C, the inverse regularization strength of the linear SVM."""
    max_megabytes: Positive | Literal["auto"] = 6.0
    """The size limit of the n-gram tables; the rarest n-grams are removed first. ``auto`` is 6,
    less the room for ``text.extra_words``, and at least 0.2 per label if a text may have several
    labels."""


class DistillationSettings(Settings):
    """Settings of distillation, in which the network learns a teacher's probabilities."""

    temperature: Positive = 2.0
    """τ: the teacher's probabilities and the network's logits are softened by it in the loss."""
    variants: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    """Altered copies of each text that the teacher labels too; ``auto`` makes up to 48, fewer
    where there are many words, and no more than the time allows. With 5,000 labels or more, only
    labelled texts have variants."""
    teachers: Annotated[int, Field(ge=1, le=4)] | Literal["auto"] = "auto"
    """How many encoders are trained from different seeds to teach by their average; ``auto`` is 3
    with 5,000 to 10,000 labels, otherwise 1, and no more than the time allows."""
    teacher_minutes: Positive = 10.0
    """The time that training a teacher and labelling with it may take on this machine. If it is
    short, the teacher is trained for fewer epochs or keeps its pretrained weights."""


class Recipe(Settings):
    """All settings of a training run, apart from its data."""

    text: TextSettings = TextSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    ngrams: NgramSettings = NgramSettings()
    distillation: DistillationSettings = DistillationSettings()
    storage: Literal["float32", "float16", "int8"] = "float32"
    """The number format of the saved weights; the trained model already uses the rounded values."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """The random seed of the split, the word vectors, the initial weights and the batch order."""

    @model_validator(mode="after")
    def _check_sizes_fit_together(self) -> Self:
        model, width = self.model, self.text.vector_width
        if model.name == "te" and width % model.heads:
            raise ValueError(
                f"text.vector_width ({width}) must be divisible by model.heads ({model.heads}) in "
                "te. Choose a number of heads that divides the width"
            )
        words, positions = self.text.max_words, model.transformer_positions
        learned = model.name == "lama-blocks" and model.position_encoding == "learned"
        if (model.name == "te" or learned) and (words is None or words > positions):
            raise ValueError(
                f"model.transformer_positions is {positions}, but text.max_words is "
                f"{'not set' if words is None else words}. Set text.max_words to {positions} "
                "or less, or raise model.transformer_positions"
            )
        embeddings = model.name in STATES_OF_EMBEDDING_WIDTH
        states = width if embeddings else 2 * model.hidden_size
        context = states if model.name == "lama" else width
        limit = min(states, context)
        if model.name.startswith("lama") and model.rank > limit:
            raise ValueError(
                f"model.rank ({model.rank}) must be at most {limit}, the smaller of the widths of "
                f"states ({states}) and context ({context}): a higher rank adds nothing"
            )
        return self

    def with_values(self, values: Mapping[str, object], *, where: str = "--set") -> "Recipe":
        """Return a copy of the recipe with new values for the settings given by dotted name."""
        tree = self.model_dump()
        for name, value in values.items():
            _replace_setting(tree, name, value, where)
        return parse_settings(tree, where)


def _replace_setting(tree: dict[str, object], name: str, value: object, where: str) -> None:
    if name not in setting_names():
        raise ConfigError(_unknown_setting(where, name))
    *tables, leaf = name.split(".")
    node: dict[str, object] = tree
    for table in tables:
        below = node[table]
        assert isinstance(below, dict)
        node = below
    node[leaf] = value


def parse_settings(tree: Mapping[str, object], where: str) -> Recipe:
    """Convert nested mappings of settings to a recipe; raise ConfigError if a setting is invalid.

    Args:
        tree: the settings as nested mappings.
        where: the origin of the settings, which starts the error message.
    """
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        first = _first_error(error)
        name = ".".join(str(part) for part in first["loc"][:2])  # further parts name Python types
        if first["type"] == "extra_forbidden":
            raise ConfigError(_unknown_setting(where, name)) from None
        message = first["msg"].removeprefix("Value error, ")
        if name:
            message = f"{name} = {first['input']!r}: {message[0].lower()}{message[1:]}"
        hint = ""
        if first["type"] == "literal_error":
            hint = did_you_mean(str(first["input"]), findall("'([^']+)'", first["ctx"]["expected"]))
        if name == "training.class_weight":
            hint = " Give balanced, or a weight above 0 for each label."
        raise ConfigError(f"{where}: {message}.{hint}") from None


def _first_error(error: ValidationError) -> "ErrorDetails":
    """Return the most specific validation error of the first invalid setting.

    If a setting may have several types, each type has an error. The most specific error is the one
    deepest inside the value, such as that of a single weight in ``class_weight``.
    """
    errors = error.errors()
    same = [one for one in errors if one["loc"][:2] == errors[0]["loc"][:2]]
    return max(same, key=lambda one: len(one["loc"]))  # the first of several


def setting_names() -> list[str]:
    """Return the dotted names of all settings, such as ``model.heads``."""
    return [
        f"{table}.{name}" if isinstance(default, Settings) else table
        for table, default in Recipe()
        for name in (type(default).model_fields if isinstance(default, Settings) else [table])
    ]


def _unknown_setting(where: str, name: str) -> str:
    return f"{where}: unknown setting {name}.{did_you_mean(name, setting_names())}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelled setting or other name, or an empty string."""
    known = list(known)
    close = get_close_matches(word, known, n=1)
    if not close:
        leaf = word.rsplit(".", 1)[-1]
        close = [name for name in known if name.rsplit(".", 1)[-1] == leaf][:1]
    return f" Did you mean {close[0]}?" if close else ""
