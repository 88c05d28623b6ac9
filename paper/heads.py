"""The number of attention heads: chosen by 3-fold cross-validation on three data sets."""

from collections.abc import Sequence

import numpy as np

from paper.markdown import MISSING, dataset_heading, markdown_table, system_title, three_digits
from paper.records import Record, Records
from paper.training_run import FOLDS

HEADS = (1, 5, 10, 15, 20)
DEFAULT_HEADS = 15
TUNED_DATASETS = ("r8", "imdb", "clothing-long")
TUNED_MODELS = ("lama-ctx", "san")


def fold_accuracies(records: Sequence[Record], dataset: str, model: str, heads: int) -> list[float]:
    """Return the validation accuracy of each cross-validation fold for a number of heads."""
    return [
        record.number
        for record in records
        if (record.dataset, record.model, record.metric) == (dataset, model, "validation_accuracy")
        and record.config.get("model.heads") == heads
    ]


def chosen_heads(records: Sequence[Record], dataset: str, model: str) -> int | None:
    """Return the number of heads with the best mean over folds; None until all folds are done."""
    by_heads = {heads: fold_accuracies(records, dataset, model, heads) for heads in HEADS}
    if any(len(accuracies) < FOLDS for accuracies in by_heads.values()):
        return None
    return max(HEADS, key=lambda heads: float(np.mean(by_heads[heads])))


def heads_table(records: Records) -> str:
    """Format the mean cross-validation accuracy by number of heads; the chosen one is bold."""
    fold_records, rows = records.of("heads"), []
    for dataset in TUNED_DATASETS:
        for model in TUNED_MODELS:
            chosen = chosen_heads(fold_records, dataset, model)
            cells = []
            for heads in HEADS:
                accuracies = fold_accuracies(fold_records, dataset, model, heads)
                mean = three_digits(float(np.mean(accuracies))) if accuracies else MISSING
                cells.append(f"**{mean}**" if heads == chosen else mean)
            rows.append([f"{dataset_heading(dataset)}, {system_title(model)}", *cells])
    return markdown_table(("3-fold cross-validation", *(f"m = {heads}" for heads in HEADS)), rows)
