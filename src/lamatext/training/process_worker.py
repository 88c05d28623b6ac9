"""Worker process of a training on several devices: runs its part of each training loop.

``python -m lamatext.training.process_worker DEVICE`` is what ``--devices`` starts.
"""

import os
import signal
import sys

from lamatext.errors import LamatextError, ProcessError
from lamatext.training.loop import LoopJob, run_job
from lamatext.training.process_group import (
    LOST_CONNECTION,
    ProcessGroup,
    training_processes,
)
from lamatext.training.trainer import pick_device


def work(group: ProcessGroup) -> None:
    """Train on this process's share of each mini-batch when process 0 starts a training loop."""
    while (job := group.receive_job()) is not None:
        assert isinstance(job, LoopJob)
        try:
            run_job(job.on(group.device))
        except ProcessError:
            raise
        except LamatextError:
            pass  # process 0 has the same error and reports it


def main(device: str) -> int:
    """Run a worker process, which joins the process group and trains until it is told to stop."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    try:
        with training_processes(None, pick_device(device)) as group:
            assert isinstance(group, ProcessGroup)
            work(group)
    except ProcessError as error:
        if os.getppid() != parent:  # otherwise process 0 reports which one has ended
            sys.stderr.write(f"lamatext: {error} Process 0 (pid {parent}) has ended.\n")
        return LOST_CONNECTION
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
