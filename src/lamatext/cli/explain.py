"""``lamatext explain``: show which words led to a prediction."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lamatext.cli import options, output
from lamatext.errors import ConfigError

NAME = "explain"
EXAMPLE = 'Example: lamatext explain runs/reviews --text "a thoughtful film"'


def run(
    model: options.Model,
    text: Annotated[list[str], typer.Option("--text", help="A text to explain; can be repeated.")],
    label: Annotated[
        str | None, typer.Option(help="The label to explain. [default: the predicted label]")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the explanations to this HTML file instead.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Explain predictions: show each word's contribution to the label and its attention weights."""
    from lamatext.atomic_write import write_text
    from lamatext.runtime.predictor import Predictor
    from lamatext.views.explanation_page import explanation_page
    from lamatext.views.terminal_explanation import show_explanation

    predictor = Predictor.load(model)
    labels = {str(name): name for name in predictor.classes_.tolist()}
    if label is not None and label not in labels:
        raise ConfigError(
            f"--label {label}: the model has no such label. It has {', '.join(list(labels)[:20])}."
        )
    explanations = [predictor.explain(one) for one in text]
    if html is not None:
        write_text(html, explanation_page(explanations, "Explanation", f"by {model.name}"))
        if not quiet:
            output.message(f"Written to {html}: open it in a browser.")
    elif as_json:
        dictionaries = [explanation.as_dict() for explanation in explanations]
        print(json.dumps(dictionaries[0] if len(dictionaries) == 1 else dictionaries))
    else:
        for explanation in explanations:
            chosen = None if label is None else labels[label]
            show_explanation(explanation, output.out(), label=chosen)
    if not quiet and not as_json:
        page_option = [] if html else ["--html", "explanation.html"]
        output.next_steps(output.command("explain", model, "--text", text[0], *page_option))
