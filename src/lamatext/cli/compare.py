"""``lamatext compare``: compare our model with baselines and saved models on the user's data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lamatext.cli import options, output
from lamatext.data.read_options import source_name

if TYPE_CHECKING:
    from lamatext.comparison import Comparison
    from lamatext.data.read_options import ReadOptions
    from lamatext.data.summary import Summary

NAME = "compare"
EXAMPLES = """\
lamatext compare reviews.csv
lamatext compare reviews.csv --with tfidf,fasttext,runs/reviews --html comparison.html"""


@options.reads(*options.LABELLED, *options.SPLIT)
def run(  # noqa: PLR0913 - one argument per option of the command
    data: options.Data,
    *,
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="MODELS",
            help="What to compare with, separated by commas: tfidf, tfidf-svc, tfidf-chars, "
            "tfidf-chars-lr, fasttext, fasttext-bigrams, avg, minilm, or folders written by "
            "`lamatext train`.",
        ),
    ] = "tfidf,tfidf-svc",
    test: options.TestData = None,
    validation: options.ValidationData = None,
    reading: "ReadOptions",
    recipe: options.RecipeName = None,
    set_: options.SettingValues = None,
    seed: options.Seed = None,
    device: options.Device = "auto",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the comparison as a page.")
    ] = None,
    json_: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Also write the comparison as JSON; - prints it instead of the table.",
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Compare a new lamatext model with baselines and saved models on your data.

    The comparison shows the score and the costs of each model, and which model is best on which
    kinds of texts. New models are trained on the same texts, and all models predict the same test
    texts. The intervals are of the difference between two models on these texts; a difference that
    can be due to chance is called a tie.
    """
    from lamatext.contestants import check_contestants, compare_models
    from lamatext.pipeline import DataSources, read_splits
    from lamatext.recipes import parse_assignments, resolve_recipe
    from lamatext.views.terminal_dataset import show_dataset

    names = list(dict.fromkeys(name for name in with_.split(",") if name))
    inputs = (data, test, validation, recipe)
    is_printed = str(json_) == "-"  # as JSON
    json_file = None if is_printed else json_
    options.check_outputs(json_file, pages=[html], force=force, inputs=inputs, models=names)
    values = {} if seed is None else {"seed": seed}
    settings = resolve_recipe(recipe=recipe, values={**values, **parse_assignments(set_ or [])})
    check_contestants(names)
    with output.explain_interrupt(lambda: "a comparison is saved only when it is complete"):
        with output.progress(quiet=quiet) as progress:
            options.check_device(device)
            progress.stage(f"reading {source_name(data)}")
            sources = DataSources(data, test, validation, reading=reading)
            splits = read_splits(sources, settings, progress)
            summary = show_dataset(
                splits.train,
                splits.validation,
                splits.test,
                progress,
                folds=len(splits.folds),
                held_out=settings.training.validation_fraction,
            )
            progress.section("Training")
            comparison = compare_models(splits, settings, names, device, progress)
        if not is_printed:
            _show(comparison, summary)  # first, in case a file cannot be written
        _write(comparison, html, json_)
    if not (quiet or is_printed):
        given = {"--test": test, "--validation": validation, "--recipe": recipe, "--seed": seed}
        rest = [*_train_options(given, set_ or []), *output.reading_options(reading)]
        _print_next(data, rest, [path for path in (html, json_) if path is not None])


def _show(comparison: "Comparison", summary: "Summary") -> None:
    from lamatext.views.comparison_display import show_comparison
    from lamatext.views.terminal_dataset import overlap_warning

    show_comparison(output.out(), comparison)
    if (warning := overlap_warning(summary)) is not None:
        output.out().print(warning, markup=False)


def _train_options(given: Mapping[str, object], settings: list[str]) -> list[str]:
    """Return the options of the ``lamatext train`` command that ``lamatext compare`` suggests.

    They are the options given to ``lamatext compare`` that ``lamatext train`` has, too.
    """
    pairs = [*given.items(), *(("--set", setting) for setting in settings)]
    return [str(part) for name, value in pairs if value is not None for part in (name, value)]


def _print_next(data: str, rest: list[str], written: list[Path]) -> None:
    for path in written:
        is_page = path.suffix.lower() in (".html", ".htm")
        output.message(f"Written to {path}{': open it in a browser.' if is_page else '.'}")
    if data != "-":
        output.next_steps(
            output.command("train", data, "--out", output.unused_name("runs/first"), *rest)
        )


def _write(comparison: "Comparison", html: Path | None, json_: Path | None) -> None:
    from lamatext.atomic_write import unfinished_until_end, write_text
    from lamatext.views.comparison_display import write_comparison_page

    text = json.dumps(comparison.as_dict(), ensure_ascii=False, indent=2)
    with unfinished_until_end(html, json_):
        if html is not None:
            write_comparison_page(comparison, html)
        if str(json_) == "-":
            print(text)
        elif json_ is not None:
            write_text(json_, f"{text}\n")
