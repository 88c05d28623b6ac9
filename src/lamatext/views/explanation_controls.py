"""The switches of a page of explanations: which class, which part of the model, which head."""

from lamatext.explain.explanation import Explanation
from lamatext.views.formatting import escaped

PILLS = 8  # more classes than this are chosen from a list


def controls(first: Explanation) -> str:
    """The switches: a class's contributions, or the attention of one head or all."""
    names = [str(label) for label in first.labels]
    best = (
        '<label><input type="radio" name="view" value="best" checked><span>predicted</span></label>'
    )
    if len(names) <= PILLS:
        classes = best + "".join(_pill(row, name) for row, name in enumerate(names))
        chooser = ""
    else:
        options = "".join(
            f'<option value="{row}" data-class>{escaped(name)}</option>'
            for row, name in enumerate(names)
        )
        blank = '<option value="">another class …</option>'
        classes = best
        chooser = f'<select name="class" aria-label="Another class">{blank}{options}</select>'
    rows = _row("by-class", "Contribution", classes, chooser)
    if first.parts:
        rows += "\n" + _row("by-part", "of it", _part_pills(list(first.parts)))
    if first.weights is not None:
        heads = ["mean", *(str(j) for j in range(1, len(first.weights) + 1))]
        pills = "".join(_pill(row, name, "") for row, name in enumerate(heads, start=len(names)))
        rows += "\n" + _row("by-head", "Attention", pills)
    return rows


def _part_pills(names: list[str]) -> str:
    """Radio buttons of their own: everything, or what one part of the model adds."""
    return "".join(
        f'<label><input type="radio" name="part" value="{number}"{" checked" * (number < 0)}>'
        f"<span{' data-part' * (number >= 0)}>{escaped(name)}</span></label>"
        for number, name in enumerate(["all", *names], start=-1)
    )


def _pill(row: int, name: str, kind: str = " data-class") -> str:
    return (
        f'<label><input type="radio" name="view" value="{row}">'
        f"<span{kind}>{escaped(name)}</span></label>"
    )


def _row(kind: str, name: str, pills: str, chooser: str = "") -> str:
    return (
        f'<div class="row {kind}" role="group" aria-label="{name}"><b>{name}</b>'
        f'<div class="pills">{pills}</div>{chooser}</div>'
    )
