"""``lamatext explain``: show which words led to a prediction."""

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamatext.cli import options, output
from lamatext.cli.text_input import TextInput, check_is_no_text
from lamatext.errors import ConfigError, plural

if TYPE_CHECKING:
    from lamatext.data.read_options import ReadOptions
    from lamatext.explain.explanation import Explanation, Label
    from lamatext.runtime.predictor import Predictor

NAME = "explain"
EXAMPLES = """\
lamatext explain runs/reviews --text "a thoughtful film"
lamatext explain runs/reviews new.csv --out reasons.jsonl
lamatext explain runs/reviews new.csv --html reasons.html"""

MAX_PAGE_TEXTS = 300  # a page of more texts is slow to open
RECORD_WORDS = 5  # words for the label, and as many against it, in a line of JSON


@options.reads(*options.TEXTS)
def run(  # noqa: PLR0913 - one argument per option of the command
    model: options.Model,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT", help="A file, a folder, a pattern of files, or - for stdin."
        ),
    ] = None,
    *,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A text to explain instead of INPUT; can be repeated."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="The label to explain. [default: the predicted label, or the most probable ones]"
        ),
    ] = None,
    heads: Annotated[
        bool,
        typer.Option("--heads", help="Also show the attention heads, and how the score adds up."),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write the explanations to this HTML file instead.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .jsonl file for the explanations of INPUT, one text per line. [default: stdout]"
        ),
    ] = None,
    reading: "ReadOptions",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all numbers as JSON, for INPUT one text per line.")
    ] = False,
    force: options.Force = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Explain predictions by the words that support and oppose them.

    For each text, this shows the predicted label and the words with the largest contributions to
    it. With INPUT, the explanations are JSON lines: text, label, probability, and the strongest
    words for and against the label.
    """
    from lamatext.runtime.predictor import Predictor
    from lamatext.views.terminal_explanation import show_explanation

    _check_arguments(source, text, out)
    _check_page_options(html, label, out, as_json=as_json)
    options.check_outputs(out, pages=[html], force=force, inputs=(source,), models=(model,))
    predictor = Predictor.load(model)
    explained_label = _find_label(predictor, label)
    read = None if source is None else TextInput.open(model, source, reading)
    texts = iter(text or ()) if read is None else chain.from_iterable(read.texts())
    if html is not None:
        _write_page(predictor, texts, html, (source, model.resolve().name), quiet=quiet)
    elif source is not None:
        _write_records(predictor, texts, out, explained_label, all_numbers=as_json, quiet=quiet)
    elif as_json:
        dictionaries = [predictor.explain(one).as_dict(explained_label) for one in texts]
        print(json.dumps(dictionaries[0] if len(dictionaries) == 1 else dictionaries))
    else:
        for number, one in enumerate(texts):
            if number:
                output.out().print()
            show_explanation(
                predictor.explain(one), output.out(), label=explained_label, heads=heads
            )
    if read is not None:
        read.show_reading(quiet=quiet)
    if not quiet and not as_json and text and html is None:
        page = ["--html", output.unused_name("explanation.html")]
        is_complete = heads or not predictor.uses_network
        more = (
            [] if is_complete else [output.command("explain", model, "--text", text[0], "--heads")]
        )
        output.next_steps(*more, output.command("explain", model, "--text", text[0], *page))


def _check_arguments(source: str | None, text: list[str] | None, out: Path | None) -> None:
    if (source is None) == (not text):
        problem = "nothing to explain." if source is None else "expected one of the two."
        raise ConfigError(f"{problem} Give an INPUT (a file, or - for stdin) or --text.")
    check_is_no_text(source)
    if out is not None and (source is None or out.suffix not in (".jsonl", ".ndjson")):
        raise ConfigError(
            f"--out {out}: expected a .jsonl file for the explanations of an INPUT. "
            "For a page, use --html; for --text, --json."
        )


def _check_page_options(
    html: Path | None, label: str | None, out: Path | None, *, as_json: bool
) -> None:
    if html is None:
        return
    if label is not None:
        raise ConfigError("--label with --html: leave out --label; choose the label on the page.")
    if out is not None or as_json:
        option = "--json" if out is None else "--out"
        raise ConfigError(f"{option} with --html: one or the other. Run the command twice.")


def _find_label(predictor: "Predictor", label: str | None) -> "Label | None":
    labels: dict[str, Label] = {str(name): name for name in predictor.classes_.tolist()}
    if label is not None and label not in labels:
        raise ConfigError(
            f"--label {label}: the model has no such label. It has {', '.join(list(labels)[:20])}."
        )
    return None if label is None else labels[label]


def _write_page(
    predictor: "Predictor",
    texts: Iterator[str],
    html: Path,
    names: tuple[str | None, str],
    *,
    quiet: bool,
) -> None:
    """Write the HTML page of ``lamatext explain --html``, which explains the first texts of a file.

    ``names`` are the name of the input (None without an input) and the name of the model.
    """
    from lamatext.atomic_write import write_text
    from lamatext.data.read_options import source_title
    from lamatext.views.explanation_page import explanation_page

    with output.progress(quiet=quiet) as progress:
        progress.stage("explaining")
        explanations = []
        for one in islice(texts, MAX_PAGE_TEXTS):
            explanations.append(predictor.explain(one))
            progress.advance(detail=plural(len(explanations), "text"))
    is_cut = next(texts, None) is not None
    source, model = names
    title = "Explanation"
    if source is not None:
        count = plural(len(explanations), "text")
        title = f"{source_title(source)}: {'the first ' if is_cut else ''}{count}"
    write_text(html, explanation_page(explanations, title, f"Model: {model}"))
    if not quiet:
        cut = f" It has the first {MAX_PAGE_TEXTS} texts; --out FILE.jsonl takes all."
        output.message(f"Written to {html}: open it in a browser.{cut if is_cut else ''}")


def _write_records(
    predictor: "Predictor",
    texts: Iterator[str],
    out: Path | None,
    label: "Label | None",
    *,
    all_numbers: bool,
    quiet: bool,
) -> None:
    from lamatext.atomic_write import replace_atomically

    def lines() -> Iterator[str]:
        for one in texts:
            explanation = predictor.explain(one)
            fields = explanation.as_dict(label) if all_numbers else _record(explanation, label)
            yield json.dumps(fields)

    if out is None:
        for line in lines():
            print(line)
        return
    count = 0
    with (
        output.progress(quiet=quiet) as progress,
        replace_atomically(out) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        progress.stage("explaining")
        for count, line in enumerate(lines(), start=1):
            file.write(f"{line}\n")
            progress.advance(detail=plural(count, "text"))
    if not quiet:
        output.message(f"Explanations of {plural(count, 'text')} written to {out}")


def _record(explanation: "Explanation", label: "Label | None") -> dict[str, Any]:
    """Return an output record of ``lamatext explain`` with the words for and against a label."""
    from lamatext.views.word_shading import strongest_words

    column = explanation.column(label)
    supporting, opposing = (
        {word.word: round(word.contribution, 4) for word in words}
        for words in strongest_words(explanation, column, limit=RECORD_WORDS)
    )
    several = {}
    if explanation.thresholds is not None:
        several = {"labels": [str(name) for name in explanation.predicted_labels]}
    return {
        "text": explanation.text,
        **several,
        "label": str(explanation.labels[column]),
        "probability": round(float(explanation.probabilities[column]), 6),
        "for": supporting,
        "against": opposing,
        **({"empty": True} if explanation.is_empty else {}),
    }
