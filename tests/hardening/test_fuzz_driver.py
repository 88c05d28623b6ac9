"""The fuzz driver attributes planted faults to their input and goes on with the next one."""

from pathlib import Path

import pytest

from hardening import fuzz_driver
from hardening.fuzz_driver import FuzzResult, repeat_case, run_fuzz_target
from hardening.fuzz_worker import Job

FAULTY = "tests.hardening.faulty_target:"
CASES = 4  # the seed inputs of a faulty target


def run_faulty(name: str) -> FuzzResult:
    return run_fuzz_target(Job(FAULTY + name, seed=0, first=0, count=CASES, folder=""))


@pytest.mark.parametrize(
    ("name", "kind", "signature"),
    [
        ("exception", "exception", "KeyError at tests/hardening/faulty_target.py"),
        ("invariant", "exception", "planted"),
        ("crash", "crash", "crash: SIGSEGV"),
        ("memory", "memory", "MemoryError"),
    ],
)
def test_a_fault_is_a_finding_of_its_case(name: str, kind: str, signature: str) -> None:
    result = run_faulty(name)

    assert (result.inputs, result.accepted, result.rejected, result.findings) == (4, 2, 1, 1)
    assert result.examples[0]["kind"] == kind
    assert result.examples[0]["case"] == 2
    assert result.examples[0]["signature"].startswith(signature)


def test_a_hang_is_repeated_alone_and_then_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_driver, "HANG_SECONDS", 0.5)

    result = run_faulty("hang")

    assert (result.accepted, result.rejected, result.findings) == (2, 1, 1)
    assert result.examples[0]["kind"] == "hang"


def test_failing_inputs_are_kept(tmp_path: Path) -> None:
    job = Job(FAULTY + "exception", seed=0, first=0, count=CASES, folder="")

    run_fuzz_target(job, inputs_folder=tmp_path)

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"exception"]


def test_a_target_that_cannot_be_built_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        run_fuzz_target(Job("no.such.module:x", seed=0, first=0, count=1, folder=""))


def test_one_case_can_be_repeated_with_its_exception() -> None:
    assert repeat_case(FAULTY + "x", 0, 0)
    assert not repeat_case(FAULTY + "x", 0, 1)
    with pytest.raises(KeyError, match="planted"):
        repeat_case(FAULTY + "exception", 0, 2)
