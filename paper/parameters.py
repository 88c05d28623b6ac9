"""Trainable parameters by component as the number of heads grows, next to the published totals."""

from dataclasses import replace

from lamatext.nn.network import build_network, count_parameters
from lamatext.recipes import load_recipe
from paper.datasets import TokenizedDataset
from paper.markdown import MISSING, markdown_table, system_title
from paper.published_results import PARAMETERS
from paper.records import Record, Records

PARAMETER_HEADS = (2, 4, 8, 16, 32, 64)
PAPER_SIZES = {"model.hidden_size": 512, "model.classifier_width": 1024}
COMPONENTS = ("embedding", "encoder", "attention", "classifier", "total")
COMPARED = ("lama-ctx", "te")


def count_all_parameters(records: Records, data: TokenizedDataset) -> None:
    """Record the parameter counts of LAMA+ctx and TE, at the paper's sizes and at our recipe's.

    The vocabulary is that of the whole training part.
    """
    vocabulary = len(data.tokens.types) + 2
    for model in COMPARED:
        for heads in PARAMETER_HEADS:
            for sizes in ({}, PAPER_SIZES):
                records.add(_count_components(model, heads, sizes, vocabulary, data))


def _count_components(
    model: str, heads: int, sizes: dict[str, int], vocabulary: int, data: TokenizedDataset
) -> list[Record]:
    settings: dict[str, object] = {"model.heads": heads, **sizes}
    recipe = load_recipe(f"paper/{model}").with_values(settings)
    network = build_network(
        recipe.model,
        vocabulary=vocabulary,
        width=recipe.text.vector_width,
        classes=len(data.classes),
    )
    counts = count_parameters(network)
    published = PARAMETERS[model][heads] if sizes else None
    total = Record("parameters", data.name, model, "total", 0.0, device="CPU", config=settings)
    total = total.with_provenance()
    return [
        replace(total, value=float(sum(counts.values())), paper=published),
        *(replace(total, metric=part, value=float(count)) for part, count in counts.items()),
    ]


def parameter_count(
    records: Records, model: str, component: str, heads: int, *, paper_sizes: bool = True
) -> Record | None:
    """Return the record of a component's parameter count."""
    for record in records.of("parameters"):
        same_count = (record.model, record.metric, record.config["model.heads"])
        at_paper_sizes = "model.hidden_size" in record.config
        if same_count == (model, component, heads) and at_paper_sizes == paper_sizes:
            return record
    return None


def parameters_table(records: Records) -> str:
    """Format the parameter counts in millions by component, next to the published totals."""
    rows = []
    for model in COMPARED:
        for heads in PARAMETER_HEADS:
            counts = [parameter_count(records, model, part, heads) for part in COMPONENTS]
            ours = parameter_count(records, model, "total", heads, paper_sizes=False)
            total = counts[-1]
            cells = [None if record is None else record.number for record in counts]
            cells.append(None if total is None else total.paper)
            cells.append(None if ours is None else ours.number)
            rows.append([f"{system_title(model)}, m = {heads}", *map(_millions, cells)])
    header = ("millions of parameters", *COMPONENTS, "paper's total", "total of our recipe")
    return markdown_table(header, rows)


def _millions(count: float | None) -> str:
    return MISSING if count is None else f"{count / 1e6:.3f}"
