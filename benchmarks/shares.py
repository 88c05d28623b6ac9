"""Where the time of a training step goes, by part, on one thread."""

from collections.abc import Callable, Mapping

from torch.profiler import ProfilerActivity, profile

# By the first part whose mark is in the name of torch's operation; all else is "the rest".
MARKS: Mapping[str, tuple[str, ...]] = {
    "encoder": ("BiGru",),
    "attention": ("CpuAttention", "tanh", "bmm", "softmax", "vector_norm"),
    "word vectors and optimiser": ("sgd", "SGD", "zero_", "fill_", "embedding", "index_select"),
    "matrix products": ("mm",),
}


def shares(run: Callable[[], object], steps: int) -> dict[str, float]:
    """Milliseconds of a step in each part; ``run`` makes so many steps.

    The products of the classifier, and of an attention that is plain torch, are told together.
    """
    run()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run()
    found = dict.fromkeys((*MARKS, "the rest"), 0.0)
    for event in seen.key_averages():
        found[_part(event.key)] += event.self_cpu_time_total / 1e3 / steps
    return {part: round(time, 3) for part, time in found.items()}


def _part(operation: str) -> str:
    for part, marks in MARKS.items():
        if any(mark in operation for mark in marks):
            return part
    return "the rest"
