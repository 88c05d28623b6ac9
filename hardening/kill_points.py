"""Kill points: run a lamatext command that kills itself before its n-th file operation.

    python -m hardening.kill_points NUMBER[+SECONDS] FOLDER train DATA --out DIR …

With SECONDS it dies so much later, while it writes. Only operations on files below FOLDER count.
With the number 0 the command runs to its end and writes the operations and their times to
``kill_points.txt`` in FOLDER.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "os.truncate"}
EVENTS |= {"os.link"}
LOG = "kill_points.txt"


class KillPoint:
    """An audit hook that counts a process's file operations and kills it at one of them."""

    def __init__(self, number: int, folder: Path, delay: float = 0.0) -> None:
        self.number, self.folder, self.delay = number, str(folder.resolve()), delay
        self.started = time.monotonic()
        self.operations: list[str] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Count one audited operation; kill the process if it is the kill point."""
        if event not in EVENTS or not arguments or not isinstance(arguments[0], str | Path):
            return
        path = os.path.join(os.getcwd(), arguments[0])  # noqa: PTH109, PTH118 - runs in an audit hook
        if not path.startswith(self.folder) or path.endswith(LOG) or is_read(event, arguments):
            return
        seconds = time.monotonic() - self.started
        self.operations.append(f"{seconds:.3f} {event} {path.removeprefix(self.folder)}")
        if len(self.operations) != self.number:
            return
        if self.delay:
            threading.Timer(self.delay, kill_this_process).start()
        else:
            kill_this_process()


def kill_this_process() -> None:
    """Kill the process of a kill point, without any chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def is_read(event: str, arguments: tuple[object, ...]) -> bool:
    """Return whether an audited file operation only opens a file for reading."""
    if event != "open" or len(arguments) < 3:
        return False
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return not set(mode) & set("wax+")
    return isinstance(flags, int) and not flags & (os.O_WRONLY | os.O_RDWR)


def main(moment: str, folder: Path, arguments: list[str]) -> int:
    """Run the command with its kill point and return its exit status."""
    number, _, delay = moment.partition("+")
    point = KillPoint(int(number), folder, float(delay or 0))
    sys.addaudithook(point)
    from lamatext.cli.main import run

    sys.argv = ["lamatext", *arguments]
    status = run(arguments)
    if not point.number:
        (folder / LOG).write_text("\n".join(point.operations), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
