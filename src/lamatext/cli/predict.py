"""``lamatext predict``: predict the labels of new texts as a stream."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamatext.cli import options, output
from lamatext.cli.text_input import TextInput, check_is_no_text
from lamatext.errors import ConfigError, plural
from lamatext.progress import Progress
from lamatext.views.formatting import (
    label_names,
    listed_label,
    one_line,
    probability,
    terminal_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lamatext.data.read_options import ReadOptions
    from lamatext.runtime.prediction_parts import PartEngine, PredictionOutput
    from lamatext.runtime.predictor import Predictor

NAME = "predict"
EXAMPLES = """\
lamatext predict runs/reviews --text "a thoughtful film"
lamatext predict runs/reviews new.csv --out labelled.csv"""


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
        typer.Option("--text", help="A text to predict instead of INPUT; can be repeated."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A .csv, .tsv, .jsonl or .parquet file; or, if it ends with /, a folder of "
            "Parquet files with a manifest. An interrupted command continues when repeated. "
            "[default: stdout]",
        ),
    ] = None,
    reading: "ReadOptions",
    top_k: Annotated[int, typer.Option(min=1, help="Output the k most probable labels.")] = 1,
    proba: Annotated[
        bool, typer.Option("--proba", help="Output the probability of every label.")
    ] = False,
    unsure: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Output LABEL if the largest probability is below the threshold that `lamatext "
            "evaluate --target-accuracy --save` has stored. [default: every text gets a class]",
        ),
    ] = None,
    outlier: Annotated[
        bool,
        typer.Option(
            "--outlier",
            help="Output how unusual each text is: outlier_score 0.99 is more unusual than 99 % of "
            "the validation texts, a score above 1 than all of them; outlier is true from 0.99, "
            "empty is true for empty texts.",
        ),
    ] = False,
    label_separator: Annotated[
        str, typer.Option(help="Joins the labels of a multi-label model in CSV and TSV output.")
    ] = ",",
    safe_csv: options.SafeCsv = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Predict the labels of new texts, streaming the input so that memory use stays constant."""
    from lamatext.runtime.predict_table import predict_batches
    from lamatext.runtime.prediction_parts import local_engine, predict_in_parts

    _check_options(source, text, out, engine, address)
    target = _parse_output(
        out, source, model, safe_csv=safe_csv, folder=engine == "ray", force=force
    )
    written_as = _output_format(target, as_json)
    predictor = _load_predictor(model, unsure, top_k)
    if text is not None and out is None:
        top = len(predictor.classes_) if proba else top_k
        _print_predictions(
            predictor, text, as_json=as_json, top=top, unsure=unsure, outlier=outlier
        )
        return
    texts = (
        TextInput.open(model, source, reading, written_as)
        if source is not None
        else _table_of(text or [])
    )
    shape: dict[str, Any] = {
        "top_k": top_k,
        "proba": proba,
        "unsure": unsure,
        "outlier": outlier,
        "label_separator": label_separator if written_as in ("csv", "tsv") else None,
        "rounded": written_as != "parquet",
    }

    def label(part: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        return predict_batches(predictor, part, texts.columns, **shape)

    with output.progress(quiet=quiet or out is None) as progress:
        progress.stage("predicting")
        if target is not None and source is not None and target.is_resumable(source):
            read_as = {
                "format": reading.format,
                "encoding": reading.encoding,
                "separator": reading.separator,
            }
            job = _describe_job(model, source, texts.columns, {**shape, "read_as": read_as})
            ray = _ray_engine(engine, model, texts.columns, shape, address)
            rows = predict_in_parts(
                target, job, texts.batches, ray or local_engine(label), progress
            )
        else:
            path = None if target is None else target.path
            rows = _write_stream(
                label(texts.batches), path, written_as, progress, safe_csv=safe_csv
            )
    texts.show_reading(quiet=quiet)
    if not quiet and out is not None:
        _show_written(rows, out, model)


def _load_predictor(model: Path, unsure: str | None, top_k: int) -> "Predictor":
    from lamatext.runtime.predict_table import check_label_options
    from lamatext.runtime.predictor import Predictor

    predictor = Predictor.load(model)
    if unsure is not None:
        predictor.require_threshold(unsure)
    check_label_options(predictor, top_k, None)
    return predictor


def _check_options(
    source: str | None, text: list[str] | None, out: str | None, engine: str, address: str | None
) -> None:
    _check_input(source, text)
    if engine == "ray" and (source in (None, "-") or out is None):
        raise ConfigError("--engine ray needs a file as INPUT and --out.")
    options.check_engine(engine, address)


def _ray_engine(
    engine: str, model: Path, columns: tuple[str, ...], shape: dict[str, Any], address: str | None
) -> "PartEngine | None":
    if engine != "ray":
        return None
    from lamatext.runtime.ray_engine import ray_engine

    return ray_engine(model, columns, shape, address=address)


def _parse_output(
    out: str | None, source: str | None, model: Path, *, safe_csv: bool, folder: bool, force: bool
) -> "PredictionOutput | None":
    from lamatext.runtime.prediction_parts import PredictionOutput

    if out is None:
        return None
    target = PredictionOutput.parse(out, safe_csv=safe_csv, folder=folder)
    if not target.is_folder:  # a folder is checked later: it may be the result of the same job
        options.check_outputs(target.path, force=force, inputs=(source,), models=(model,))
    return target


def _output_format(target: "PredictionOutput | None", as_json: bool) -> str:
    """Return the file format in which ``lamatext predict`` writes its predictions."""
    from lamatext.data.writers import output_format

    default = "jsonl" if as_json else "csv"
    if target is None:
        return default
    return "parquet" if target.is_folder else output_format(target.path, default)


def _describe_job(
    model: Path, source: str, columns: tuple[str, ...], shape: dict[str, Any]
) -> dict[str, Any]:
    """Return a dictionary that identifies a ``lamatext predict`` job by input, model and options.

    A later run with an equal dictionary reuses the finished parts of an interrupted run.
    """
    from lamatext.runtime.prediction_parts import describe_job
    from lamatext.saved.format import load_config, model_hash

    config = load_config(model)
    identity = {"hash": model_hash(model, config), "version": config.get("saved", "")}
    return describe_job(source, text_columns=columns, model=identity, options=shape)


def _write_stream(
    labelled: Iterator["pa.RecordBatch"],
    path: Path | None,
    kind: str,
    progress: Progress,
    *,
    safe_csv: bool,
) -> int:
    """Write the predictions of ``lamatext predict`` batch by batch; return the number of rows."""
    from lamatext.data.writers import open_writer

    if path is None and sys.stdout.isatty():
        labelled = map(_visible_batch, labelled)
    rows = 0
    with open_writer(path, kind, safe_csv=safe_csv) as write:
        for batch in labelled:
            write(batch)
            rows += len(batch)
            progress.advance(len(batch), plural(rows, "text"))
    return rows


def _table_of(texts: list[str]) -> TextInput:
    import pyarrow as pa

    from lamatext.data.readers.read_log import ReadLog
    from lamatext.data.readers.table import Table
    from lamatext.data.tokenizer import encodable

    batch = pa.RecordBatch.from_pydict({"text": list(map(encodable, texts))})
    table = Table("--text", ("text",), lambda _: iter([batch]), ReadLog("--text"))
    return TextInput(table, ("text",), table.all_batches())


def _check_input(source: str | None, text: list[str] | None) -> None:
    if source is not None and text is not None:
        raise ConfigError("give either an INPUT (a file, or - for stdin) or --text, not both.")
    if source is None and text is None:
        raise ConfigError("nothing to predict. Give an INPUT (a file, or - for stdin) or --text.")
    check_is_no_text(source)


def _show_written(rows: int, out: str, model: Path) -> None:
    output.message(f"Labels of {plural(rows, 'text')} are in {out}")
    output.next_steps(output.command("explain", model, "--text", output.YOUR_TEXT))


def _visible_batch(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Make control characters visible in predictions that are printed to the terminal."""
    import pyarrow as pa

    def visible(column: pa.Array) -> pa.Array:
        if not pa.types.is_string(column.type):
            return column
        values = (None if value is None else terminal_text(value) for value in column.to_pylist())
        return pa.array(values, pa.string())

    names = [one_line(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays([visible(column) for column in batch.columns], names=names)


def _print_predictions(
    predictor: "Predictor",
    texts: list[str],
    *,
    as_json: bool,
    top: int,
    unsure: str | None,
    outlier: bool,
) -> None:
    from lamatext.outliers import outlier_json
    from lamatext.runtime.predict_table import warn_of_empty_rows
    from lamatext.runtime.predictor import round_probability

    warn_of_empty_rows(sum(not text.strip() for text in texts))
    classes = [str(label) for label in predictor.classes_.tolist()]
    assessed = predictor.assess(texts) if outlier else None
    rows = predictor.predict_proba(texts) if assessed is None else assessed.probabilities
    is_unsure = predictor.is_unsure(rows)
    for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
        ranked = sorted(zip(classes, row.tolist(), strict=True), key=lambda pair: -pair[1])
        probabilities = {name: round_probability(p) for name, p in ranked}
        if unsure is not None and is_unsure[number]:
            ranked[0] = (unsure, ranked[0][1])
        score = {} if assessed is None else outlier_json(assessed.outlier_scores[number])
        score |= {} if text.strip() else {"empty": True}
        if predictor.thresholds is not None:
            chosen = {classes[i] for i in predictor.thresholds.decide(row).nonzero()[0]}
            _print_labels({"text": text, **score}, ranked, chosen, as_json=as_json, top=top)
        elif as_json:
            label, value = ranked[0]
            prediction = {"text": text, "label": label, "probability": round_probability(value)}
            print(json.dumps({**prediction, "probabilities": probabilities, **score}))
        else:
            shown = [
                f"{one_line(listed_label(label))} {probability(value)}"
                for label, value in ranked[:top]
            ]
            shown += [f"outlier score {score['outlier_score']:.4f}"] if assessed else []
            print("  ".join(shown))


def _print_labels(
    fields: dict[str, Any],
    ranked: list[tuple[str, float]],
    chosen: set[str],
    *,
    as_json: bool,
    top: int,
) -> None:
    """Print the labels that a multi-label model assigns to a text, the most probable first.

    With ``top`` above 1, that many labels are printed, whether they reach their thresholds or not.
    ``fields`` are the other fields of the output, such as the text and its outlier score.
    """
    labels = [name for name, _ in ranked if name in chosen]
    if as_json:
        from lamatext.runtime.predictor import round_probability

        probabilities = {name: round_probability(p) for name, p in ranked}
        print(json.dumps({**fields, "labels": labels, "probabilities": probabilities}))
        return
    shown = ranked[:top] if top > 1 else [pair for pair in ranked if pair[0] in chosen]
    cells = [f"{one_line(listed_label(name))} {probability(p)}" for name, p in shown] or [
        label_names([])
    ]
    if "outlier_score" in fields:
        cells.append(f"outlier score {fields['outlier_score']:.4f}")
    print("  ".join(cells))
