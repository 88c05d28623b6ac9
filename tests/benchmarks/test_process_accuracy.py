"""The benchmark of training in process groups: its records and its summary."""

from benchmarks.process_accuracy import NO_DROPOUT, group_records, summarize
from paper.records import Record


def records(size: int, accuracy: float, seed: int = 0, *, dropout: bool = True) -> list[Record]:
    epochs = [{"loss": accuracy / 2, "seconds": 1.0}, {"loss": accuracy / 4, "seconds": 2.0}]
    metrics = {"test": {"accuracy": accuracy}, "history": epochs}
    return group_records(metrics, "mr", size, seed, {} if dropout else dict(NO_DROPOUT), "cpu")


def test_the_accuracy_with_dropout_is_compared_over_seeds() -> None:
    alone = [*records(0, 0.79), *records(0, 0.81, 1), *records(0, 0.5, dropout=False)]

    lines = summarize([*alone, *records(2, 0.80), *records(2, 0.78, 1)], "mr")

    assert lines == ["group of 2: accuracy 0.7900, without a group 0.8000 ± 0.0141 over 2 seeds"]


def test_the_losses_without_dropout_are_compared_by_seed() -> None:
    alone = [*records(0, 0.8, dropout=False), *records(0, 0.4, 1, dropout=False)]

    lines = summarize([*alone, *records(1, 0.8002, dropout=False)], "mr")

    assert lines == ["group of 1: the losses differ by at most 1.0e-04"]
