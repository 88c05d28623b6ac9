"""``lamatext export``: the model for other programs, and for a browser alone."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError

if TYPE_CHECKING:
    from lamatext.runtime.folder_export import FolderExport
    from lamatext.saved.quantization import Storage
    from lamatext.views.web_export import WebExport

NAME = "export"
EXAMPLE = "Example: lamatext export runs/reviews --web reviews.html"


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
    storage = _checked(weights)
    if out is not None:
        from lamatext.runtime.folder_export import export_folder

        print(_told(export_folder(model, out, storage=storage)), file=sys.stderr)
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


def _told(report: "FolderExport") -> str:
    compared = report.parity
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
    found = written.parity
    if found is None:
        return f"{told}Its weights are the model's own."
    nearer = "" if found.holds else " Without --weights the page stays nearer to the model."
    return f"{told}Compared with the model, {found}.{nearer}"
