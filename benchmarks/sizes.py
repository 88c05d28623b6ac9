"""Whether the automatic choice of a GRU is ever the slower one: forward and backward, many sizes.

Of each width the size at which ``torch.nn.GRU`` comes nearest is told, the others are in the
record; sizes that are left to torch are there too, but compare it with itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks import encoder
from benchmarks.encoder import Shape
from benchmarks.figures import Figure

HIDDEN = (50, 128, 256)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LENGTHS = ((1, 8), (8, 8), (50, 200))  # words of a text: messages, all of one length, articles
WORDS = 12_800  # of a batch, about at most: the texts of a large one are shorter
MOST_TURNS, LEAST_TURNS = 100, 3
WORK = 2_000_000  # words times units of a batch that all turns together do


def figures(hidden: Sequence[int] = HIDDEN, batches: Sequence[int] = BATCHES) -> list[Figure]:
    """The worst ratio of each width, with all of them as its details."""
    return [_worst(units, batches) for units in hidden]


def shapes(hidden: int, batches: Sequence[int]) -> Iterator[Shape]:
    """Every size of one width."""
    for batch in batches:
        for shortest, longest in LENGTHS:
            shrunk = max(1, batch * longest // WORDS)
            yield Shape(batch, shortest // shrunk or 1, longest // shrunk, hidden=hidden)


def _worst(hidden: int, batches: Sequence[int]) -> Figure:
    ratios: dict[str, dict[str, float]] = {}
    found: list[Figure] = []
    for shape in shapes(hidden, batches):
        turns = WORK // (shape.batch * shape.longest * hidden)
        both = encoder.figures(shape, turns=max(LEAST_TURNS, min(turns, MOST_TURNS)))
        name = f"{shape.batch} texts of {shape.shortest} to {shape.longest} words"
        if both[0].details["kernel"]:
            found += both
        else:
            name += ", left to torch"
        ratios[name] = {figure.what: round(figure.ratio, 3) for figure in both}
    worst = min(found, key=lambda figure: figure.ratio)
    return replace(
        worst,
        what=f"slowest at {hidden} units, nn.GRU",
        details={"against": worst.what, "sizes": ratios},
    )
