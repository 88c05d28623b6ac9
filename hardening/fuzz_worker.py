"""The fuzz worker: a child process that runs fuzz inputs and writes down which one it is at.

    python -m hardening.fuzz_worker JOB.json

A crash, a hang or a full memory ends only the worker. ``fuzz_driver.py`` reads the shared state,
attributes the failure to the current input and starts another worker.
"""

import base64
import hashlib
import json
import mmap
import os
import resource
import struct
import sys
import time
import traceback
import warnings
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hardening.fuzz_target import FindingError, FuzzTarget, load_target
from hardening.mutation import MAX_BYTES, UNUSUAL_TEXT, make_case

HEADER = struct.Struct("<qqqqdq")  # case, accepted, rejected, findings, start time, input bytes
STATE_BYTES = HEADER.size + (1 << 22)
KEPT_PER_SIGNATURE = 3  # findings written in full; further ones are only counted
KEPT_INPUT = 2048  # bytes of an input that a finding quotes
ROOT = Path(__file__).parents[1]


@dataclass(slots=True)
class Job:
    """What a fuzz worker is to run."""

    target: str
    seed: int
    first: int  # number of the first case
    count: int
    folder: str  # of the shared state and the findings
    memory_mb: int = 1024  # allowed beyond the memory after start-up; 0 for no limit
    input_file: str | None = None  # run only this input
    seconds: float = 1e9
    is_coverage_guided: bool = False


class SharedState:
    """State of a fuzz worker in a mapped file, which survives its crash."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(STATE_BYTES))
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), STATE_BYTES)
        self.case, self.accepted, self.rejected, self.findings, self.started, _ = self.read()

    def read(self) -> tuple[int, int, int, int, float, int]:
        """Read the worker's current case, counts, start time and input length."""
        case, accepted, rejected, findings, started, size = HEADER.unpack_from(self.map)
        return case, accepted, rejected, findings, started, size

    def current_input(self) -> bytes:
        """Return the fuzz input that the worker has started last."""
        size = self.read()[5]
        return self.map[HEADER.size : HEADER.size + size]

    def start(self, case: int, data: bytes) -> None:
        """Write down that the worker starts an input."""
        self.case = case
        part = data[: STATE_BYTES - HEADER.size]
        self.map[HEADER.size : HEADER.size + len(part)] = part
        self._write(time.monotonic(), len(part))

    def finish(self) -> None:
        """Write down that the worker has finished its input; no time limit applies in between."""
        self._write(0.0, 0)

    def _write(self, started: float, size: int) -> None:
        counts = (self.accepted, self.rejected, self.findings)
        HEADER.pack_into(self.map, 0, self.case, *counts, started, size)


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that ended in neither acceptance nor a named error."""

    target: str
    kind: str  # exception, memory, crash, hang
    signature: str  # equal for inputs that fail at the same place
    case: int
    seed: int
    message: str
    input_base64: str  # the first bytes
    input_sha256: str

    @classmethod
    def of(cls, job: Job, case: int, data: bytes, failure: tuple[str, str, str]) -> "Finding":
        """Return the finding for an input and its kind, signature and message."""
        kind, signature, message = failure
        quoted = base64.b64encode(data[:KEPT_INPUT]).decode()
        digest = hashlib.sha256(data).hexdigest()[:16]
        return cls(job.target, kind, signature, case, job.seed, message, quoted, digest)


class CaseRunner:
    """Runs the inputs of a fuzz target and writes its findings to the job's folder."""

    def __init__(self, job: Job, target: FuzzTarget, state: SharedState) -> None:
        self.job, self.target, self.state = job, target, state
        self.signatures: dict[str, int] = {}

    def run(self, case: int, data: bytes) -> None:
        """Run one fuzz input, count its outcome and keep a finding."""
        self.state.start(case, data)
        try:
            accepted = self.target.accepts(data)
        except Exception as error:
            self.state.findings += 1
            kind = "memory" if isinstance(error, MemoryError) else "exception"
            self._keep(case, data, (kind, signature_of(error), describe(error)))
        else:
            self.state.accepted += accepted
            self.state.rejected += not accepted
        self.state.finish()

    def _keep(self, case: int, data: bytes, failure: tuple[str, str, str]) -> None:
        signature = failure[1]
        self.signatures[signature] = self.signatures.get(signature, 0) + 1
        if self.signatures[signature] > KEPT_PER_SIGNATURE:
            failure = (failure[0], signature, "")
            data = b""
        finding = Finding.of(self.job, case, data, failure)
        write_finding(Path(self.job.folder), finding, data)


def write_finding(folder: Path, finding: Finding, data: bytes) -> None:
    """Append a fuzz finding to the findings of a job, with its input in a file of its own."""
    with (folder / "findings.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(finding)) + "\n")
    if data:
        (folder / f"{finding.target}-{finding.input_sha256}.bin").write_bytes(data)


def signature_of(error: BaseException) -> str:
    """Return the exception's type and the innermost line of lamatext that a fuzz input reached."""
    if isinstance(error, FindingError):
        return str(error).partition(":")[0]
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/lamatext/" in frame.filename] or [
        frame for frame in frames if "/hardening/" in frame.filename
    ]
    place = ours[-1] if ours else frames[-1]
    path = Path(place.filename)
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return f"{type(error).__name__} at {name}:{place.lineno}"


def describe(error: BaseException) -> str:
    """Return an exception of a fuzz input as one short line of ASCII."""
    return ascii(f"{type(error).__name__}: {error}")[1:300]


def case_input(target: FuzzTarget, seed: int, number: int) -> bytes:
    """Return the fuzz input of a case number: large inputs, seed inputs, then mutations."""
    large = target.large_inputs
    if number < len(large):
        return large[number]
    return make_case(target.seeds, target.words, seed, number - len(large))


def limit_memory(megabytes: int) -> None:
    """Limit the fuzz worker's writable private memory to its present size plus ``megabytes``."""
    if not megabytes or not sys.platform.startswith("linux"):
        return
    status = Path("/proc/self/status").read_text(encoding="ascii")
    data_kb = next(int(line.split()[1]) for line in status.splitlines() if "VmData" in line)
    limit = data_kb * 1024 + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def run_cases(job: Job, runner: CaseRunner) -> None:
    """Run the numbered fuzz inputs of a job in order, until its time is over."""
    end = time.monotonic() + job.seconds
    for number in range(job.first, job.first + job.count):
        runner.run(number, case_input(runner.target, job.seed, number))
        if time.monotonic() > end:
            return


def run_atheris(job: Job, runner: CaseRunner) -> None:
    """Run coverage-guided fuzz inputs with atheris; libFuzzer ends the process itself."""
    import atheris

    folder = Path(job.folder)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate(runner.target.seeds):
        (corpus / f"seed-{number}").write_bytes(data[:MAX_BYTES])
    dictionary = folder / "words.dict"
    words = runner.target.words or UNUSUAL_TEXT  # libFuzzer refuses an empty dictionary
    lines = ["".join(f"\\x{byte:02x}" for byte in word[:64]) for word in words]
    dictionary.write_text("".join(f'"{line}"\n' for line in lines if line), encoding="ascii")
    for number, data in enumerate(runner.target.large_inputs):
        if number >= job.first:
            runner.run(number, data)
    numbers = iter(range(max(job.first, len(runner.target.large_inputs)), sys.maxsize))
    arguments = [
        "hardening", str(corpus), f"-runs={job.count}", f"-seed={job.seed + job.first + 1}",
        f"-max_len={MAX_BYTES}", f"-dict={dictionary}", f"-artifact_prefix={folder}/",
        f"-max_total_time={max(1, int(min(job.seconds, 1e8)))}", "-timeout=60",
        "-rss_limit_mb=0", "-verbosity=0", "-len_control=20",
    ]  # fmt: skip
    atheris.Setup(arguments, lambda data: runner.run(next(numbers), bytes(data)))
    atheris.Fuzz()


def main(arguments: list[str]) -> None:
    """Run the fuzz worker's job and leave without waiting for servers and threads."""
    job = Job(**json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        if job.is_coverage_guided:
            import atheris

            stack.enter_context(atheris.instrument_imports(include=["lamatext"]))
        target = load_target(job.target)
        with suppress(Exception):
            target.accepts(target.seeds[0])  # loads what is imported on first use
        limit_memory(job.memory_mb)
        runner = CaseRunner(job, target, SharedState(Path(job.folder) / "state"))
        if job.input_file is not None:
            runner.run(job.first, Path(job.input_file).read_bytes())
        elif job.is_coverage_guided:
            run_atheris(job, runner)
        else:
            run_cases(job, runner)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
