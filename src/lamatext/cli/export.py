"""``lamatext export``: the model for other programs, and for a browser alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError, ModelError, require

if TYPE_CHECKING:
    from lamatext.runtime.engine import Engine
    from lamatext.runtime.export import Batch, ExportReport
    from lamatext.saved.model_io import SavedModel
    from lamatext.saved.quantization import Storage
    from lamatext.views.web_export import WebExport

NAME = "export"
EXAMPLE = "Example: lamatext export runs/reviews --web reviews.html"

LENGTHS = (1, 2, 5, 20, 60, 200)  # words of the texts that the copy is compared on
TEXTS = 16  # of each length


def run(
    model: options.Model,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the model with its ONNX graph.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="float32, float16 or int8. [default: as saved; in a page float16 where that "
            "changes nothing by more than 0.001]"
        ),
    ] = None,
    web: Annotated[
        Path | None, typer.Option(help="Write one HTML file that classifies by itself.")
    ] = None,
    quiet: options.IsQuiet = False,
) -> None:
    """Write a model anew: an ONNX folder, checked against the original, or one HTML file."""
    if out is None and web is None:
        raise ConfigError("export needs --out DIR, --web FILE.html, or both.")
    from lamatext.saved.format import load_config

    storage = _checked(weights)
    if out is not None:
        saved: Storage = load_config(model)["storage"]
        print(_told(_export(model, out, storage or saved)), file=sys.stderr)
    if web is not None:
        from lamatext.views.web_export import export_web

        written = export_web(model, web, storage=storage)
        print(_told_of_page(written), file=sys.stderr)
    if not quiet:
        folder = f'lamatext predict {out} --text "…"'
        output.next_steps(*([folder] if out else []), *([f"open {web}"] if web else []))


def _checked(weights: str | None) -> "Storage | None":
    match weights:
        case None | "float32" | "float16" | "int8":
            return weights
    raise ConfigError(f"--weights {weights}: expected float32, float16 or int8.")


def _export(folder: Path, out: Path, storage: "Storage") -> "ExportReport":
    require("onnx", extra="train", purpose="lamatext export --out")
    from lamatext.runtime.export import export
    from lamatext.saved.model_io import load_model, save_model
    from lamatext.saved.onnx_graph import NOT_HELD

    model = load_model(folder)
    if model.recipe.model.name in NOT_HELD:
        raise ModelError(
            f"{folder}: {model.recipe.model.name} has no ONNX graph, it runs in PyTorch alone. "
            f"Use `lamatext serve {folder}`, or train one of the other systems."
        )
    return export(
        folder,
        out,
        lambda place: save_model(place, model, storage=storage),
        reference=_original(folder, model),
        batches=_texts(len(model.tensors["embedding.weight"])),
        storage=storage,
    )


def _original(folder: Path, model: "SavedModel") -> "Engine":
    """The network in torch, or where there is no torch in the graph that was saved with it."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        from lamatext.runtime.onnx_engine import OnnxEngine

        return OnnxEngine.load(folder)
    from lamatext.runtime.torch_engine import TorchEngine
    from lamatext.saved.model_io import load_network

    return TorchEngine(load_network(model))


def _texts(vocabulary: int) -> "Iterator[Batch]":
    """Random words, some texts of every length."""
    import numpy as np

    draw = np.random.default_rng(0)
    for words in LENGTHS:
        ids = draw.integers(1, vocabulary, (TEXTS, words), dtype=np.int32)
        yield ids, draw.integers(1, words + 1, TEXTS, dtype=np.int32)


def _told(report: "ExportReport") -> str:
    compared = report.comparison
    return (
        f"{report.folder}: weights in {report.storage}, {report.bytes_after / 1e6:.2f} MB instead "
        f"of {report.bytes_before / 1e6:.2f}; compared on {compared.texts} texts, largest "
        f"difference {compared.difference:.1g}, another label on {compared.changed}"
    )


def _told_of_page(written: "WebExport") -> str:
    told = (
        f"{written.file}: one page of {written.bytes / 1e6:.2f} MB, weights in {written.storage}; "
        "it needs no server and no network\n"
    )
    found = written.agreement
    if found is None:
        return f"{told}Its weights are the model's own."
    nearer = "" if found.holds else " Without --weights the page stays nearer to the model."
    return f"{told}Compared with the model, {found}.{nearer}"
