"""``lamatext clean``: list the texts whose labels are probably wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.atomic_write import unfinished_until_end
from lamatext.cli import options, output
from lamatext.data.read_options import source_name
from lamatext.errors import plural

if TYPE_CHECKING:
    from lamatext.data.dataset import Dataset
    from lamatext.data.read_options import ReadOptions
    from lamatext.progress import Progress
    from lamatext.suspect_labels import SuspectSearch

NAME = "clean"
EXAMPLES = """\
lamatext clean reviews.csv --out suspects.csv --html review.html
lamatext train reviews.csv --without suspects.csv --out runs/reviews"""


@options.reads(*options.LABELLED, options.MERGE_LABELS)
def run(  # noqa: PLR0913 - one argument per option of the command
    data: options.Data,
    *,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The list of suspects: a .csv, .tsv, .jsonl or .parquet file. An interrupted "
            "command continues when repeated.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page to review the suspects, which downloads the corrected data.",
        ),
    ] = None,
    reading: "ReadOptions",
    seed: Annotated[int, typer.Option(min=0, help="The seed of the folds.")] = 0,
    safe_csv: options.SafeCsv = False,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """List probably wrong labels, near-duplicates with different labels, and outliers.

    Every text is predicted by models that were trained neither on it nor on a near-duplicate. A
    label is suspect if they give it a probability below 10 %; the most suspect comes first, with
    the label that they suggest and the words that support it. Nothing in DATA is changed: delete
    the lines of texts that should stay from the list, and leave out the others with
    `lamatext train --without`, or correct the labels in the page --html.
    """
    from lamatext.errors import require

    require("torch", extra="train", purpose="finding suspect labels")
    from lamatext.data.suspects_file import suspects_table
    from lamatext.data.writers import open_writer
    from lamatext.suspect_labels import find_suspects, suspect_rows
    from lamatext.views.formatting import one_line
    from lamatext.views.review_page import write_review_page
    from lamatext.views.terminal_suspects import show_suspects

    _check_format(out, safe_csv=safe_csv)
    partial_folder = out.with_name(f"{out.name}.partial")
    options.check_outputs(out, pages=[html], force=force, inputs=(data,))
    reading = replace(reading, keep_lines=True)
    with (
        output.explain_interrupt(lambda: _kept(partial_folder)),
        output.progress(quiet=quiet) as progress,
        unfinished_until_end(out, html),
    ):
        dataset = _read(data, reading, progress)
        with find_suspects(
            dataset,
            partial_folder=partial_folder,
            seed=seed,
            progress=progress,
        ) as search:
            rows = suspect_rows(search, dataset)
            if html is not None:
                write_review_page(search, dataset, rows, reading, html)
            with open_writer(out, safe_csv=safe_csv) as write:
                write(suspects_table(rows))
    if as_json:
        print(json.dumps({"texts": search.texts, "suspects": rows}))
        return
    if not quiet:
        output.section("Result")
    show_suspects(output.out(), search, rows)
    for line in (out, *([] if html is None else [f"{html}: open it in a browser."])):
        output.out().print(one_line(f"Written to {line}"), markup=False)
    if not quiet and data != "-":
        _print_next(data, out, search, dataset, reading, html)


def _check_format(out: Path, *, safe_csv: bool) -> None:
    from lamatext.data.writers import check_safe_csv, output_format

    format = output_format(out)
    if safe_csv:
        check_safe_csv(format)


def _read(data: str, reading: "ReadOptions", progress: "Progress") -> "Dataset":
    from lamatext.data.labels import class_counts, merge_label_variants
    from lamatext.data.sources import load_dataset
    from lamatext.views.terminal_dataset import class_line, label_hints, show_reading

    progress.stage(f"reading {source_name(data)}")
    dataset = load_dataset(data, reading)
    if reading.merge_labels:
        dataset = merge_label_variants(dataset)
    progress.section("Data")
    show_reading(dataset, progress)
    progress.note(plural(len(dataset), "text"))
    for hint in label_hints(dataset):
        progress.note(hint.text)
    progress.note(class_line(class_counts(dataset), len(dataset)))
    return dataset


def _kept(partial_folder: Path) -> str:
    """Return a phrase stating what an interrupted ``lamatext clean`` has saved."""
    finished = len(list(partial_folder.glob("part-*.parquet")))
    return f"finished folds are kept in {partial_folder}" if finished else "nothing is saved"


def _print_next(
    data: str,
    out: Path,
    search: "SuspectSearch",
    dataset: "Dataset",
    reading: "ReadOptions",
    html: Path | None,
) -> None:
    """Print commands that review the suspects and train without them.

    Training without texts that are only unusual is not suggested: their labels may be right.
    """
    from lamatext.views.terminal_dataset import label_hints

    page = output.unused_name("review.html")
    review = output.repeated("--force", options=("--html", page, "--force"))
    again = [
        output.repeated("--force", options=("--force", *hint.options))
        for hint in label_hints(dataset)
        if hint.options == ("--merge-labels",)  # `clean` reads one label per text
    ]
    read_as = output.reading_options(reading)
    folder = output.unused_name("runs/clean")
    train = output.command("train", data, "--without", out, "--out", folder, *read_as)
    has_wrong_labels = any(suspect.is_label_suspect for suspect in search.suspects)
    commands = [review] if html is None and search.suspects else []
    commands += [train] if has_wrong_labels else []
    if again or commands:
        output.next_steps(*(again or commands))
