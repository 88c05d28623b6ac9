"""Whether the automatic choice of a GRU is ever the slower one: forward and backward, many sizes.

Of each width the size at which ``torch.nn.GRU`` comes nearest is told, the others in the record.
"""

from collections.abc import Iterator, Sequence

from lamatext.bench import encoder
from lamatext.bench.encoder import Shape
from lamatext.bench.figures import Figure

HIDDEN = (50, 128, 256)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LENGTHS = ((1, 8), (50, 200))  # words of a text: messages, articles
WORDS = 16_000  # of a batch, at most: the texts of a large one are shorter
MOST_TURNS, LEAST_TURNS = 100, 3
WORK = 2_000_000  # words times units of a batch that all turns together do


def figures(hidden: Sequence[int] = HIDDEN, batches: Sequence[int] = BATCHES) -> list[Figure]:
    """The worst ratio of each width, with all of them as its details."""
    return [_worst(units, batches) for units in hidden]


def shapes(hidden: int, batches: Sequence[int]) -> Iterator[Shape]:
    """Every size of one width."""
    for batch in batches:
        for shortest, longest in LENGTHS:
            most = min(longest, WORDS // batch)
            yield Shape(batch, min(shortest, most // 4 or 1), most, hidden=hidden)


def _worst(hidden: int, batches: Sequence[int]) -> Figure:
    ratios: dict[str, dict[str, float]] = {}
    found: list[Figure] = []
    for shape in shapes(hidden, batches):
        turns = WORK // (shape.batch * shape.longest * hidden)
        both = encoder.figures(shape, turns=max(LEAST_TURNS, min(turns, MOST_TURNS)))
        name = f"{shape.batch} texts of {shape.shortest} to {shape.longest} words"
        ratios[name] = {figure.what: round(figure.ratio, 3) for figure in both}
        found += both
    worst = min(found, key=lambda figure: figure.ratio)
    return Figure(
        f"slowest at {hidden} units, nn.GRU",
        worst.ratio,
        worst.low,
        worst.high,
        worst.ours,
        worst.theirs,
        worst.unit,
        {"against": worst.what, "sizes": ratios},
    )
