"""``lamatext report``: write one self-contained HTML report about a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.data.read_options import source_name

if TYPE_CHECKING:
    from lamatext.data.read_options import ReadOptions

NAME = "report"
EXAMPLES = "lamatext report runs/reviews held-out.csv --out report.html"


@options.reads(*options.LABELLED)
def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    data: options.Data,
    *,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")],
    title: Annotated[
        str | None, typer.Option(help="The heading of the page. [default: the folder of MODEL]")
    ] = None,
    reading: "ReadOptions",
    seed: Annotated[
        int, typer.Option(help="Selects the texts that the report examines in detail.")
    ] = 0,
    force: options.Force = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Write a self-contained HTML report on a model's scores, mistakes and explanations."""
    from lamatext.evaluation import load_evaluation_data
    from lamatext.saved.format import load_config
    from lamatext.views.formatting import one_line
    from lamatext.views.report.collect import collect_findings
    from lamatext.views.report.report_page import write_report
    from lamatext.views.terminal_dataset import show_reading
    from lamatext.views.terminal_scores import scores_sentence

    options.check_outputs(pages=[out], force=force, inputs=(data,), models=(model,))
    load_config(model)
    with output.progress(quiet=quiet) as progress:
        progress.stage(f"reading {source_name(data)}")
        test = load_evaluation_data(model, data, reading)
        show_reading(test.texts, progress)
        progress.note(f"{source_name(data)}: {test.about}")
        findings = collect_findings(model, test, seed=seed, progress=progress)
        write_report(findings, out, title=title)
    console = output.out()
    console.print(scores_sentence(findings.scores, is_seen=test.is_seen), markup=False)
    console.print(findings.faithfulness.verdict(), markup=False)
    console.print(one_line(f"Written to {out}: open it in a browser."), markup=False)
    if not quiet:
        output.next_steps(output.command("explain", model, "--text", output.YOUR_TEXT))
