"""Clock jumps: run a lamatext command whose wall clock jumps by a day, back and forth.

python -m hardening.clock_jumps train DATA --out DIR …
"""

import itertools
import sys
import time
from collections.abc import Callable

JUMPS = (0.0, 86_400.0, -86_400.0, 3_600.0, -3_600.0)  # seconds, one after the other


def jumping_clock(clock: Callable[[], float]) -> Callable[[], float]:
    """Return a wall clock that jumps at every reading."""
    offsets = itertools.cycle(JUMPS)
    return lambda: max(0.0, clock() + next(offsets))


def main(arguments: list[str]) -> int:
    """Run the command under a jumping wall clock and return its exit status."""
    time.time = jumping_clock(time.time)
    from lamatext.cli.main import run

    sys.argv = ["lamatext", *arguments]
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
