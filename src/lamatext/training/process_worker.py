"""Worker process for training on several devices: runs its share of each training loop.

``--devices`` starts it as ``python -m lamatext.training.process_worker DEVICE PARENT``, in which
PARENT is the process id of process 0.
"""

import os
import signal
import sys
import threading

from lamatext.errors import LamatextError, ProcessError
from lamatext.training.loop import LoopJob, run_job
from lamatext.training.process_group import (
    LOST_CONNECTION,
    ProcessGroup,
    training_processes,
)
from lamatext.training.trainer import pick_device


def work(group: ProcessGroup) -> None:
    """Run this worker process's share of every training loop that process 0 starts."""
    while (job := group.receive_job()) is not None:
        assert isinstance(job, LoopJob)
        try:
            run_job(job.on(group.device))
        except ProcessError:
            raise
        except LamatextError:
            pass  # process 0 has the same error and reports it


def _exit_without(parent: int, has_joined: threading.Event) -> None:
    """Exit this worker process if process 0 ends before both have joined the process group.

    Once both have joined, the lost connection ends the worker. Until then, the worker would wait
    for process 0 for days.
    """
    while not has_joined.wait(0.5):
        if os.getppid() != parent:
            os._exit(LOST_CONNECTION)


def main(device: str, parent: int) -> int:
    """Run a worker process: join the process group and train until process 0 ends the training."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    has_joined = threading.Event()
    threading.Thread(target=_exit_without, args=(parent, has_joined), daemon=True).start()
    try:
        with training_processes(None, pick_device(device)) as group:
            has_joined.set()
            assert isinstance(group, ProcessGroup)
            work(group)
    except ProcessError as error:
        if os.getppid() != parent:  # otherwise process 0 reports which one has ended
            sys.stderr.write(f"lamatext: {error} Process 0 (pid {parent}) has ended.\n")
        return LOST_CONNECTION
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
