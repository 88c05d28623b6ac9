"""``lamatext export``: write a model as an ONNX folder or as one HTML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.atomic_write import unfinished_until_end
from lamatext.cli import options, output
from lamatext.errors import ConfigError, plural
from lamatext.views.formatting import file_size

if TYPE_CHECKING:
    from lamatext.runtime.model_export import FolderExport, OnnxExport
    from lamatext.saved.quantization import Storage
    from lamatext.views.web_export import WebExport

NAME = "export"
EXAMPLES = "lamatext export runs/reviews --web reviews.html"


def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A new folder for the model and its ONNX graph."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Number format of the weights: float32, float16 or int8. [default: as saved; "
            "with --web float16 if it changes no result by more than 0.001]"
        ),
    ] = None,
    web: Annotated[
        Path | None,
        typer.Option(help="An HTML file that classifies texts in a browser, without a server."),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            help="An ONNX file of the whole model after tokenization: network, n-grams, softmax."
        ),
    ] = None,
    hub: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Upload the folder to the Hugging Face Hub."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="With --hub: make a new repository private.")
    ] = False,
    force: options.Force = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Export a saved model as a folder, an ONNX file or an HTML file, or upload it to the Hub."""
    if not (out or web or onnx or hub):
        raise ConfigError(
            "export needs --out DIR, --web FILE.html, --onnx FILE.onnx or --hub OWNER/NAME."
        )
    options.check_outputs(onnx, pages=[web], force=force, models=(model,))
    storage = _storage_of(weights)
    _export_files(model, out, web, onnx, storage)
    if hub is not None:
        from lamatext.saved.model_hub import push_to_hub

        address = push_to_hub(model, hub, private=private)
        output.message(f"Uploaded to {address}")
        if not quiet:
            output.next_steps(output.command("predict", address, "--text", output.YOUR_TEXT))
    if out is not None and not quiet:
        output.next_steps(output.command("predict", out, "--text", output.YOUR_TEXT))


def _export_files(
    model: Path, out: Path | None, web: Path | None, onnx: Path | None, storage: "Storage | None"
) -> None:
    """Write the outputs of ``lamatext export``, after checking that its folder is new or empty."""
    from lamatext.runtime.model_export import check_export_folder, export_folder, export_onnx
    from lamatext.views.web_export import export_web

    if out is not None:
        check_export_folder(out)
    with unfinished_until_end(web, onnx):
        if web is not None:
            output.message(_describe_page(export_web(model, web, storage=storage)))
        if onnx is not None:
            output.message(_describe_file(export_onnx(model, onnx, storage=storage)))
        if out is not None:
            output.message(_describe_export(export_folder(model, out, storage=storage)))


def _storage_of(weights: str | None) -> "Storage | None":
    match weights:
        case None | "float32" | "float16" | "int8":
            return weights
    raise ConfigError(f"--weights {weights}: expected float32, float16 or int8.")


def _describe_export(report: "FolderExport") -> str:
    comparison = report.parity
    return (
        f"{report.folder}: weights in {report.storage}, {file_size(report.bytes_after)} (the "
        f"original has {file_size(report.bytes_before)}). Compared on {comparison.texts} texts: "
        f"largest difference {comparison.difference:.1g}, "
        f"{plural(comparison.changed, 'label')} changed."
    )


def _describe_file(written: "OnnxExport") -> str:
    return (
        f"{written.file}: {file_size(written.bytes)}. Compared with the model on {written.texts} "
        f"texts: a probability differs by at most {written.difference:.1g}."
    )


def _describe_page(written: "WebExport") -> str:
    sentences = (
        f"{written.file}: one page of {file_size(written.bytes)}, weights in {written.storage}. "
        "Open it in a browser; it needs no server and no network.\n"
    )
    comparison = written.parity
    if comparison is None:
        return f"{sentences}It predicts what the model predicts."
    closer = "" if comparison.holds else " Without --weights the page is closer to the model."
    return f"{sentences}Compared with the model, {comparison}.{closer}"
