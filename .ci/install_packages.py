"""Run ``pip install``, with one line per step instead of the output of pip.

If it fails, the last lines of that output are printed, too.
"""

import os
import subprocess  # nosec B404 # runs pip
import sys
from collections import deque

STEPS = {  # first words of a line of pip: what it begins
    "Obtaining": "reading pyproject.toml",
    "Collecting": "downloading the packages, a minute or more",
    "Building": "building lamatext with its C code",
    "Installing collected": "installing the packages, a minute or more",
}
SHOWN_LINES = 30


def install(arguments: list[str]) -> int:
    """Run ``pip install`` with the given arguments, print its steps and return its exit status."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    waiting, last = list(STEPS), deque[str](maxlen=SHOWN_LINES)
    with subprocess.Popen(  # nosec B603 # no shell
        [*command, "--progress-bar", "off", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            last.append(line)
            begun = next((words for words in waiting if line.startswith(words)), None)
            if begun is not None:
                waiting = waiting[waiting.index(begun) + 1 :]
                print(f"  step {len(STEPS) - len(waiting)} of {len(STEPS)}: {STEPS[begun]}")
    if pip.returncode:
        print("".join(last), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.exit(install(sys.argv[1:]))
