"""Tensors of a saved network: their expected shapes, and a reader that validates each tensor.

A saved model may come from an untrusted source. Before C code, ONNX Runtime or numba use a tensor,
its name, shape, type and values are checked against the settings.
Shapes: V words, E embedding width, h GRU units, D state width, M heads, k rank, C classes.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lamatext.errors import ModelError
from lamatext.ngrams.model import MAX_WEIGHT, is_within
from lamatext.saved.format import CONFIG, VOCAB, WEIGHTS
from lamatext.saved.quantization import SCALE, Array
from lamatext.saved.safetensors_layout import read_tensors
from lamatext.settings import ModelSettings, Recipe

Shapes = dict[str, tuple[int, ...]]

MAX_LOG_TEMPERATURE = 20  # its exponential multiplies the scores
_WINDOWS = (3, 4, 5)  # widths of the CNN filters, in words


def read_network_tensors(
    folder: Path, recipe: Recipe, *, vocabulary: int, classes: int
) -> dict[str, Array]:
    """Read the tensors of a saved network and validate them against the settings."""
    path = folder / WEIGHTS
    tensors = read_tensors(path)
    layered = recipe.model.name in ("te", "lama-blocks")
    if layered and recipe.model.transformer_layers > len(tensors):
        raise ModelError(
            f"{path}: {len(tensors)} tensors, too few for the {recipe.model.transformer_layers} "
            f"layers in {CONFIG}. Train the model again."
        )
    shapes = network_shapes(recipe, vocabulary=vocabulary, classes=classes)
    stored_scales = {name + SCALE for name, tensor in tensors.items() if tensor.dtype == np.int8}
    if unknown := tensors.keys() - shapes.keys() - stored_scales:
        raise ModelError(
            f"{path}: {min(unknown)} is no tensor of {recipe.model.name} as {CONFIG} describes it. "
            "The files belong to different models: train the model again."
        )
    for name, shape in shapes.items():
        _check_tensor(path, name, tensors, shape)
    return tensors


def read_usable_tensors(folder: Path) -> dict[str, Array]:
    """Read a saved ``bert`` network's tensors and check their types and values but not shapes.

    The expected shapes of ``bert`` are known only once the transformers library has built the
    network.
    """
    path = folder / WEIGHTS
    tensors = read_tensors(path)
    for name, tensor in tensors.items():
        if name.removesuffix(SCALE) not in tensors:
            raise ModelError(f"{path}: {name} belongs to no tensor. Copy the folder again.")
        if not name.endswith(SCALE):
            _check_tensor(path, name, tensors, tensor.shape)
    return tensors


def _check_tensor(
    path: Path, name: str, tensors: Mapping[str, Array], shape: tuple[int, ...]
) -> None:
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape:
        found = "missing" if tensor is None else tensor.shape
        raise ModelError(
            f"{path}: {name} is {found}, but {CONFIG} and {VOCAB} require {shape}. The files "
            "belong to different models: train the model again."
        )
    if tensor.dtype == np.int8:
        scale = tensors.get(name + SCALE)
        valid = scale is not None and scale.dtype == np.float32 and scale.shape == shape[:1]
        if scale is None or not valid or tensor.ndim != 2:
            raise ModelError(
                f"{path}: {name} is stored as int8 without a float32 scale for each of its rows. "
                "Save or copy the model again."
            )
        tensor = scale
    limit = MAX_LOG_TEMPERATURE if name.endswith("log_temperature") else MAX_WEIGHT
    if tensor.dtype not in (np.float32, np.float16) or not is_within(tensor, limit):
        raise ModelError(
            f"{path}: {name} must hold finite float32, float16 or int8 numbers of at most "
            f"{limit:,}. The file is damaged, or training diverged: train the model again."
        )


def network_shapes(recipe: Recipe, *, vocabulary: int, classes: int) -> Shapes:
    """Return the expected tensor shapes of a saved network by name, for all models but ``bert``."""
    model, width = recipe.model, recipe.text.vector_width
    shapes: Shapes = {"embedding.weight": (vocabulary, width)}
    match model.name:
        case "avg" | "lama-encoder":
            states = width
        case "te":
            states = width
            shapes |= _transformer_shapes(recipe)
        case "lama-blocks":
            states = width
            shapes |= _blocks_shapes(recipe)
        case "cnn":
            states = len(_WINDOWS) * model.cnn_filters
            for number, size in enumerate(_WINDOWS):
                shapes[f"encoder.windows.{number}.weight"] = (model.cnn_filters, width, size)
                shapes[f"encoder.windows.{number}.bias"] = (model.cnn_filters,)
        case _:
            states = 2 * model.hidden_size
            shapes |= _gru_shapes(width, model.hidden_size)
    if model.name == "lama-phrases" and model.phrases == "punctuation":
        shapes["phrases.ends"] = (vocabulary,)
    pooling, rows = _pooling_shapes(recipe, states=states)
    return shapes | pooling | _classifier_shapes(recipe, inputs=rows * states, classes=classes)


def _gru_shapes(width: int, hidden: int) -> Shapes:
    sizes = {
        "weight_ih": (3 * hidden, width),
        "weight_hh": (3 * hidden, hidden),
        "bias_ih": (3 * hidden,),
        "bias_hh": (3 * hidden,),
    }
    return {
        f"encoder.gru.{name}_l0{direction}": shape
        for direction in ("", "_reverse")
        for name, shape in sizes.items()
    }


def _transformer_shapes(recipe: Recipe) -> Shapes:
    model, width = recipe.model, recipe.text.vector_width
    inner = model.transformer_feed_forward
    sizes = {
        "self_attn.in_proj_weight": (3 * width, width),
        "self_attn.in_proj_bias": (3 * width,),
        "self_attn.out_proj.weight": (width, width),
        "self_attn.out_proj.bias": (width,),
        "linear1.weight": (inner, width),
        "linear1.bias": (inner,),
        "linear2.weight": (width, inner),
        "linear2.bias": (width,),
        **{f"norm{n}.{part}": (width,) for n in (1, 2) for part in ("weight", "bias")},
    }
    positions: Shapes = {"encoder.positions.weight": (model.transformer_positions, width)}
    return positions | {
        f"encoder.layers.{layer}.{name}": shape
        for layer in range(model.transformer_layers)
        for name, shape in sizes.items()
    }


def _blocks_shapes(recipe: Recipe) -> Shapes:
    model, width = recipe.model, recipe.text.vector_width
    inner, window = model.transformer_feed_forward, 2 * model.window_radius + 1
    shapes: Shapes = {}
    for name in ("positions", "end_positions")[: 1 + model.end_positions]:
        if model.position_encoding == "learned":
            shapes[f"encoder.{name}.weight"] = (model.transformer_positions, width)
        elif model.position_encoding == "sinusoidal":
            shapes[f"encoder.{name}.gain"] = (width,)
    if model.window_radius:
        shapes |= {"encoder.window.weight": (width, 1, window), "encoder.window.bias": (width,)}
    sizes = {
        **_low_rank_shapes(model, "attention", states=width, context=width),
        "output.weight": (width, width),
        "linear1.weight": (inner, width),
        "linear1.bias": (inner,),
        "linear2.weight": (width, inner),
        "linear2.bias": (width,),
        **{f"norm{n}.{part}": (width,) for n in (1, 2) for part in ("weight", "bias")},
    }
    return shapes | {
        f"encoder.blocks.{block}.{name}": shape
        for block in range(model.transformer_layers)
        for name, shape in sizes.items()
    }


def _pooling_shapes(recipe: Recipe, *, states: int) -> tuple[Shapes, int]:
    """Return a saved network's pooling tensor shapes and its number of text embedding rows."""
    model, context = recipe.model, recipe.text.vector_width
    if model.name in ("avg", "bigru", "cnn", "te"):
        return {}, 1
    if model.name == "san":
        inner = model.san_width
        return {"pooling.w1.weight": (inner, states), "pooling.w2.weight": (model.heads, inner)}, (
            model.heads
        )
    if model.name == "bilinear":
        shapes = _projection_shapes(model, "pooling", states)
        return shapes | {"pooling.weight": (context, states)}, 1
    if model.name == "lama":
        shapes = _low_rank_shapes(model, "pooling", states=states, context=states)
        return shapes | {"pooling.context": (states,)}, model.heads
    if model.name == "lama-phrases":
        summaries = model.model_copy(update={"score_input": "states"})
        shapes = {
            **_low_rank_shapes(model, "pooling.words", states=states, context=context),
            **_low_rank_shapes(summaries, "pooling.phrases", states=states, context=context),
        }
        return shapes, model.heads
    return _low_rank_shapes(model, "pooling", states=states, context=context), model.heads


def _low_rank_shapes(model: ModelSettings, layer: str, *, states: int, context: int) -> Shapes:
    """Return the tensor shapes of a saved LAMA attention layer, without its learned context."""
    scores = model.heads * model.rank
    shapes = _projection_shapes(model, layer, states)
    shapes |= {f"{layer}.p.weight": (scores, context), f"{layer}.q.weight": (scores, states)}
    if model.initial_temperature is not None:
        shapes[f"{layer}.log_temperature"] = (model.heads,)
    return shapes


def _projection_shapes(model: ModelSettings, layer: str, states: int) -> Shapes:
    if model.score_input == "states":
        return {}
    return {f"{layer}.project.weight": (states, states), f"{layer}.project.bias": (states,)}


def _classifier_shapes(recipe: Recipe, *, inputs: int, classes: int) -> Shapes:
    hidden = recipe.model.classifier_width
    if not hidden:
        return {"classifier.1.weight": (classes, inputs), "classifier.1.bias": (classes,)}
    return {
        "classifier.0.weight": (hidden, inputs),
        "classifier.0.bias": (hidden,),
        "classifier.3.weight": (classes, hidden),
        "classifier.3.bias": (classes,),
    }
