"""One training run, from texts and class numbers to a trained model as its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lamatext.data.cache import fingerprint
from lamatext.data.text_encoder import Encoder
from lamatext.data.token_ids import Indices
from lamatext.errors import ConfigError
from lamatext.kernels.gru import compile_kernels, ready
from lamatext.ngrams.model import NgramModel
from lamatext.progress import SILENT, Progress
from lamatext.saved.quantization import dequantize, quantize
from lamatext.settings import RECURRENT, Recipe
from lamatext.training.batching import Examples
from lamatext.training.calibration import fold_temperature, scale_logits
from lamatext.training.checkpoint import EpochRecord
from lamatext.training.loop import fit, logits_of
from lamatext.training.preparation import (
    Labels,
    Ready,
    Texts,
    joined,
    prepare_pretrained,
    prepare_words,
)
from lamatext.training.training_step import Plan


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run leaves behind."""

    recipe: Recipe  # with a number for every ``auto``
    network: nn.Module
    encoder: Encoder
    ngrams: NgramModel | None
    history: list[EpochRecord]
    best_epoch: int
    valid_accuracy: float
    scales: dict[str, float]  # what the logits were multiplied by, so that probabilities hold
    architecture: dict[str, object] | None = None  # of a pretrained encoder


def train(  # noqa: PLR0913 - data, recipe, and where and how it runs
    train: Texts,
    valid: Texts | None,
    recipe: Recipe,
    *,
    names: Sequence[str],
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> Trained:
    """Train by the recipe; without ``valid`` a share of the training texts is held out.

    Args:
        train: texts to learn from.
        valid: texts to stop by.
        recipe: all settings.
        names: the classes' labels; the class numbers count into them.
        device: ``auto`` takes a GPU where there is one.
        checkpoint: a file that keeps the state of the run; if it exists, the run goes on there.
        progress: told what is being done.
    """
    prepare = prepare_pretrained if recipe.model.name == "bert" else prepare_words
    start = prepare(joined(train, valid, recipe, names), recipe, len(names), progress)
    recipe, network, rows, split = start.recipe, start.network, start.rows, start.split
    learned = Examples(rows.take(split.train), split.labels[split.train])
    held_out = Examples(rows.take(split.valid), split.labels[split.valid])
    plan = Plan(
        recipe.model,
        recipe.training,
        recipe.seed,
        pick_device(device),
        class_weights=class_weights(recipe.training.class_weight, learned.labels, names),
        checkpoint=checkpoint,
        identity=fingerprint(
            recipe.model_dump_json(), rows.ids, rows.offsets, split.labels, split.train
        ),
    )
    _warm_up(recipe, plan.device, progress)
    state = fit(network, learned, held_out, plan, progress)
    round_as_stored(network, recipe.storage)
    finished = _finish(start, held_out, plan, progress)
    network.to("cpu").eval()
    round_as_stored(network, recipe.storage)  # the scales moved the numbers a little
    return Trained(
        recipe=recipe,
        network=network,
        encoder=start.encoder,
        ngrams=finished.ngrams,
        history=state.history,
        best_epoch=state.best_epoch,
        valid_accuracy=finished.accuracy or state.best_accuracy,
        scales=finished.scales,
        architecture=start.architecture,
    )


class _Finished(NamedTuple):
    ngrams: NgramModel | None
    scales: dict[str, float]
    accuracy: float | None  # of both parts together on validation; None where there is one part


def _finish(start: Ready, held_out: Examples, plan: Plan, progress: Progress) -> _Finished:
    """Make the probabilities hold on the validation texts, with the n-gram model if there is one.

    Fitted on the training texts it says how much each part counts; then it is fitted once more, on
    the validation texts too.
    """
    settings, tokens, split = start.recipe.ngrams, start.tokens, start.split
    if not settings.enabled or tokens is None or not tokens.rows.lengths[split.train].any():
        temperature = fold_temperature(start.network, held_out, plan.device)
        return _Finished(None, {"network": 1 / temperature}, None)
    from lamatext.ngrams.fitting import fit_ngrams
    from lamatext.training.combination import fuse

    weights = None if plan.class_weights is None else plan.class_weights.cpu().numpy()
    classes = int(split.labels.max()) + 1

    def fitted(rows: Indices) -> NgramModel:
        return fit_ngrams(
            tokens.words(rows),
            split.labels[rows],
            settings,
            classes=classes,
            class_weights=weights,
            progress=progress,
        )

    first = fitted(split.train).logits(tokens.words(split.valid))
    second = logits_of(start.network, held_out, plan.device)
    a, b = fuse(first, second, held_out.labels)
    accuracy = float(((a * first + b * second).argmax(axis=1) == held_out.labels).mean())
    progress.note(f"network and n-grams together  validation accuracy {accuracy:.4f}")
    scale_logits(start.network, b)
    everything = np.union1d(split.train, split.valid)
    return _Finished(fitted(everything).scaled(a), {"ngrams": a, "network": b}, accuracy)


def round_as_stored(network: nn.Module, storage: str) -> None:
    """Give the network the numbers that its saved file will hold."""
    if storage == "float32":
        return
    tensors = {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}
    kept = dequantize(quantize(tensors, storage))  # type: ignore[arg-type]
    network.load_state_dict({name: torch.from_numpy(value) for name, value in kept.items()})


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"unknown device {name!r}. Use auto, cpu or cuda.") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not supported. Use auto, cpu or cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {name!r}: PyTorch finds {torch.cuda.device_count()} GPUs here. "
            "Use auto or cpu, or install a PyTorch that knows the GPU."
        )
    return device


def _warm_up(recipe: Recipe, device: torch.device, progress: Progress) -> None:
    """Compile the CPU kernel before the first batch, and say so where it takes a while."""
    if device.type == "cpu" and recipe.model.name in RECURRENT and not ready():
        progress.stage("compiling the CPU kernel (once on this machine)")
        compile_kernels()


def class_weights(
    wanted: str | Mapping[str, float] | None, labels: Labels, names: Sequence[str]
) -> Tensor | None:
    """What each class's loss counts: (C,). ``balanced`` makes all classes weigh the same."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        counts = np.bincount(labels, minlength=len(names))
        return torch.tensor(len(labels) / (len(names) * counts), dtype=torch.float32)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ConfigError(
            f"class_weight names the class {unknown[0]!r}, which the labels have not. "
            f"They have {', '.join(names[:20])}."
        )
    return torch.tensor([wanted.get(name, 1.0) for name in names], dtype=torch.float32)
