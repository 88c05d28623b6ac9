"""``lamatext report``: write one self-contained HTML report about a model."""

from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import options, output

NAME = "report"
EXAMPLE = "Example: lamatext report runs/reviews held-out.csv --out report.html"


def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    data: options.Data,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")],
    title: Annotated[
        str | None, typer.Option(help="The heading of the page. [default: DATA]")
    ] = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    label_separator: options.LabelSeparator = None,
    format_: options.Format = None,
    max_record: options.MaxRecord = output.DEFAULT_MAX_RECORD,
    seed: Annotated[
        int, typer.Option(help="Selects the texts that the report examines in detail.")
    ] = 0,
    quiet: options.IsQuiet = False,
) -> None:
    """Write a self-contained HTML report on a model's scores, mistakes and explanations."""
    from lamatext.evaluation import load_evaluation_data
    from lamatext.saved.format import load_config
    from lamatext.views.formatting import one_line
    from lamatext.views.report.collect import collect_findings
    from lamatext.views.report.report_page import write_report

    load_config(model)
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {data}")
        test = load_evaluation_data(
            model,
            data,
            text_column=text_column,
            label_column=label_column,
            label_separator=label_separator,
            format=format_,
            max_record=max_record * 1_000_000,
        )
        progress.note(f"{data}: {test.about}")
        findings = collect_findings(
            model,
            test.texts,
            train=test.train,
            description=test.about,
            seed=seed,
            progress=progress,
        )
        write_report(findings, out, title=title)
    console = output.out()
    console.print(f"accuracy {findings.scores.accuracy:.4f} on {findings.scores.texts:,} texts")
    console.print(findings.faithfulness.verdict(), markup=False)
    console.print(one_line(f"Written to {out}: open it in a browser."), markup=False)
    if not quiet:
        output.next_steps(output.command("explain", model, "--text", "…"))
