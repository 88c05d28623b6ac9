"""``lamatext report``: one page that tells a model to a colleague."""

from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import options, output

NAME = "report"
EXAMPLE = "Example: lamatext report runs/reviews held-out.csv --out report.html"


def run(  # noqa: PLR0913 - one argument for each option of the verb
    model: options.Model,
    data: options.Data,
    out: Annotated[Path, typer.Option(help="Where the page is written.")],
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    format_: Annotated[str | None, typer.Option("--format", help="Of DATA, e.g. of stdin.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the texts that are looked at closely.")] = 0,
    quiet: options.IsQuiet = False,
) -> None:
    """Write a page: data, scores, curves, mistakes, words, and how far the reasons hold."""
    from lamatext.evaluation import load_evaluation_data
    from lamatext.saved.format import load_config
    from lamatext.views.report.report_page import write_report

    load_config(model)
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        held = load_evaluation_data(
            model, data, text_column=text_column, label_column=label_column, format=format_
        )
        progress.note(f"{data}: {held.about}")
        found = write_report(model, held, out, seed=seed, progress=progress)
    console = output.out()
    console.print(f"accuracy {found.scores.accuracy:.4f} on {found.scores.texts:,} texts")
    console.print(found.faithfulness.verdict(), markup=False)
    console.print(f"Written to {out}", markup=False)
    console.print(f"How far its reasons hold is in {model}/README.md now, too.", markup=False)
    if not quiet:
        output.next_steps(f"open {out} in a browser", f'lamatext explain {model} --text "…"')
