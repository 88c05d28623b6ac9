"""The fuzz driver: runs a fuzz target in workers and attributes crashes, hangs and full memory."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hardening.fuzz_target import load_target
from hardening.fuzz_worker import (
    ROOT,
    Finding,
    Job,
    SharedState,
    case_input,
    write_finding,
)

HANG_SECONDS = 5.0  # an input that takes longer is a finding
START_SECONDS = 120.0  # for a worker to import its target on a busy machine
POLL_SECONDS = 0.05
MIN_PER_WORKER = 100  # inputs, before a full memory only restarts the worker


@dataclass(slots=True)
class FuzzResult:
    """Counts and findings of one fuzz target."""

    target: str
    engine: str  # atheris or mutation
    seed: int
    inputs: int = 0
    accepted: int = 0
    rejected: int = 0  # with a named error
    findings: int = 0
    seconds: float = 0.0
    sanitizers: str = ""  # with which the C extension was built
    signatures: dict[str, int] = field(default_factory=dict)  # findings by place
    examples: list[dict[str, Any]] = field(default_factory=list)  # one per signature


def is_atheris_installed() -> bool:
    """Return whether coverage-guided fuzzing with atheris is possible in this interpreter."""
    return find_spec("atheris") is not None


def run_fuzz_target(job: Job, *, inputs_folder: Path | None = None) -> FuzzResult:
    """Run the fuzz inputs of a job in workers; keep failing inputs in ``inputs_folder``."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        job.folder = folder
        state = SharedState(Path(folder) / "state", create=True)
        totals = Counter[str]()
        end, next_case, last_case = started + job.seconds, job.first, job.first + job.count
        while next_case < last_case and time.monotonic() < end:
            rest = Job(**asdict(job))
            rest.first, rest.count = next_case, last_case - next_case
            rest.seconds = end - time.monotonic()
            failure = _run_worker(rest, state)
            case, accepted, rejected, findings, *_ = state.read()
            totals += Counter(accepted=accepted, rejected=rejected, findings=findings)
            if failure is None:
                break
            if failure[0] == "restart" and accepted + rejected + findings > MIN_PER_WORKER:
                next_case = case + 1
                continue
            totals += _attribute(rest, state, failure)
            next_case = case + 1
        result = FuzzResult(job.target, _engine(job), job.seed, sanitizers=active_sanitizers())
        result.accepted, result.rejected = totals["accepted"], totals["rejected"]
        result.findings = totals["findings"]
        result.inputs = result.accepted + result.rejected + result.findings
        result.seconds = round(time.monotonic() - started, 1)
        _collect_findings(Path(folder), result)
        if inputs_folder is not None:
            _keep_inputs(Path(folder), inputs_folder)
        return result


def repeat_case(target_name: str, seed: int, case: int, input_file: Path | None = None) -> bool:
    """Run one fuzz input in this process, so that its traceback shows; return if accepted."""
    target = load_target(target_name)
    data = input_file.read_bytes() if input_file else case_input(target, seed, case)
    return target.accepts(data)


def active_sanitizers() -> str:
    """Return the sanitizers whose libraries ``.ci/sanitizers`` preloads into the fuzz workers."""
    libraries = {"libasan": "address", "libubsan": "undefined"}
    preloaded = os.environ.get("LD_PRELOAD", "")
    return ",".join(name for library, name in libraries.items() if library in preloaded)


def memory_folder() -> str | None:
    """Return a folder in memory for scratch files of fuzz inputs, where the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _engine(job: Job) -> str:
    return "atheris" if job.is_coverage_guided else "mutation"


def _run_worker(job: Job, state: SharedState) -> tuple[str, str] | None:
    """Run a worker to its end; return kind and description of a failure that ended it early."""
    state.case, state.accepted, state.rejected, state.findings = job.first, 0, 0, 0
    state.finish()
    path = Path(job.folder) / "job.json"
    path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": job.folder}
    inherited = environment.get("PYTHONPATH", "")  # first: it may name another build of lamatext
    environment["PYTHONPATH"] = os.pathsep.join([inherited, str(ROOT / "src"), str(ROOT)])
    log_path = Path(job.folder) / "worker.log"
    with log_path.open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "hardening.fuzz_worker", str(path)],
            stdout=log, stderr=log, cwd=job.folder, env=environment, start_new_session=True,
        )  # fmt: skip
        hung = _watch(worker, state)
        _end(worker)
    if hung:
        return "hang", f"hang over {HANG_SECONDS:g} s"
    has_started = state.read()[4] > 0 or sum(state.read()[1:4]) > 0
    if worker.returncode == 0:
        return None
    log_tail = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
    if not has_started:
        raise RuntimeError(f"the fuzz worker of {job.target} did not start:\n{log_tail}")
    if not state.read()[4]:
        if "MemoryError" in log_tail:  # of memory that libraries keep for later inputs
            return "restart", ""
        raise RuntimeError(f"the fuzz worker of {job.target} ended between inputs:\n{log_tail}")
    kind = "memory" if "MemoryError" in log_tail or "bad_alloc" in log_tail else "crash"
    status = worker.returncode
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return kind, f"{kind}: {how} at {_place_in_log(log_tail)}"


def _place_in_log(log: str) -> str:
    """Return the innermost line of the product in faulthandler's traceback."""
    lines = [line for line in log.splitlines() if "/lamatext/" in line and "File" in line]
    return lines[0].strip().rpartition("/lamatext/")[2].replace('"', "") if lines else "unknown"


def _watch(worker: "subprocess.Popen[bytes]", state: SharedState) -> bool:
    """Wait for the worker's end; return whether one of its inputs took too long."""
    begin = time.monotonic()
    has_started = False
    while worker.poll() is None:
        time.sleep(POLL_SECONDS)
        case, *_, started, _ = state.read()
        has_started = has_started or started > 0
        now = time.monotonic()
        if started and now - started > HANG_SECONDS and state.read()[0] == case:
            return True
        if not has_started and now - begin > START_SECONDS:
            return False
    return False


def _end(worker: "subprocess.Popen[bytes]") -> None:
    """Kill the worker with the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def _attribute(job: Job, state: SharedState, failure: tuple[str, str]) -> Counter[str]:
    """Return the count of the input at which a worker failed; repeat a hang alone first."""
    kind, description = failure
    data, case = state.current_input(), state.read()[0]
    if kind == "hang" and not job.input_file:
        path = Path(job.folder) / "repeat.bin"
        path.write_bytes(data)
        again = Job(**asdict(job))
        again.first, again.count, again.input_file = case, 1, str(path)
        again.is_coverage_guided = False
        if _run_worker(again, state) is None:  # the machine was busy
            _, accepted, rejected, findings, *_ = state.read()
            return Counter(accepted=accepted, rejected=rejected, findings=findings)
    write_finding(Path(job.folder), Finding.of(job, case, data, (kind, description, "")), data)
    return Counter(findings=1)


def _collect_findings(folder: Path, result: FuzzResult) -> None:
    path = folder / "findings.jsonl"
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        finding = json.loads(line)
        signature = finding["signature"]
        if signature not in result.signatures:
            result.examples.append(finding)
        result.signatures[signature] = result.signatures.get(signature, 0) + 1


def _keep_inputs(folder: Path, destination: Path) -> None:
    for path in folder.glob("*.bin"):
        if path.name != "repeat.bin":
            destination.mkdir(parents=True, exist_ok=True)
            (destination / path.name).write_bytes(path.read_bytes())
