"""``lamatext explain``: which words decided."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError

NAME = "explain"
EXAMPLE = 'Example: lamatext explain runs/reviews --text "a thoughtful film"'


def run(
    model: options.Model,
    text: Annotated[list[str], typer.Option("--text", help="The text; may be given again.")],
    label: Annotated[
        str | None, typer.Option(help="Reasons for this label. [default: the predicted one]")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page instead.")] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Show each word's weight in every head and its contribution to the label."""
    from lamatext.atomic_write import write_text
    from lamatext.runtime.predictor import Predictor
    from lamatext.views.explanation_page import page
    from lamatext.views.terminal import show

    predictor = Predictor.load(model)
    known = {str(name): name for name in predictor.classes_.tolist()}
    if label is not None and label not in known:
        raise ConfigError(f"no label {label!r}. The model has {', '.join(list(known)[:20])}.")
    wanted = None if label is None else known[label]
    explanations = [predictor.explain(one) for one in text]
    if html is not None:
        write_text(html, page(explanations, "Why", f"by {model.name}"))
        if not quiet:
            print(f"Written to {html}", file=sys.stderr)
    elif as_json:
        found = [explanation.as_dict() for explanation in explanations]
        print(json.dumps(found[0] if len(found) == 1 else found))
    else:
        for explanation in explanations:
            show(explanation, output.out(), label=wanted)
    if not quiet and not as_json:
        again = "" if html else " --html why.html"
        output.next_steps(f'lamatext explain {model} --text "…"{again}')
