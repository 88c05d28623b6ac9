"""Attacks on a server on 127.0.0.1: a short version of the server campaign."""

from pathlib import Path
from typing import ClassVar

import pytest

from hardening import server_attacks
from hardening.base_models import make_base_models
from hardening.fuzz_target import FindingError
from hardening.http_client import PoliteClient, ServerProcess
from hardening.http_targets import status_of
from hardening.server_attacks import (
    ATTACKS,
    AttackResult,
    measure_attack,
    measure_soak,
    run_server_campaign,
)

SHORT = ("deep JSON", "huge body", "TLS: handshakes never finished", "2 workers: slow headers")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_base_models(tmp_path_factory.mktemp("models"))[:1]


@pytest.mark.slow
def test_polite_requests_are_answered_during_an_attack(models: list[Path]) -> None:
    results = run_server_campaign(models, 2.0, 0, SHORT)

    assert [result.attack for result in results] == list(SHORT)
    assert [result.failures for result in results] == [0] * len(SHORT)
    assert all(result.requests > 0 for result in results)  # few, if the machine is busy


@pytest.mark.slow
def test_memory_stays_flat_on_many_connections(models: list[Path]) -> None:
    result = measure_soak(models, 3.0, 0, connections=8)

    assert result.failures == 0
    assert result.requests > 50


class StubClient:
    """A polite client whose p99 in each half of a round is known in advance."""

    p99s: ClassVar[list[float]] = []
    failures: ClassVar[list[str]] = ["timeout"]
    latencies: ClassVar[list[float]] = [0.1, 0.2]

    def __init__(self, server: ServerProcess) -> None:
        pass

    def __enter__(self) -> "StubClient":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def p99(self) -> float:
        return self.p99s.pop(0)


class StubServer(ServerProcess):
    def memory_mb(self) -> float:
        return 100.0


def test_a_stall_of_the_machine_in_one_round_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_attacks, "PoliteClient", StubClient)
    monkeypatch.setattr(server_attacks, "request", lambda *_: (200, b""))
    monkeypatch.setattr(StubClient, "p99s", [10.0, 500.0, 10.0, 15.0, 900.0, 16.0])
    monkeypatch.setitem(ATTACKS, "nothing", lambda _: None)

    server, control = StubServer(0, 0), StubServer(0, 0)
    result = measure_attack(AttackResult("nothing", 0, 0.0, rounds=3), server, control)

    assert (result.p99_control_ms, result.p99_ms) == (10.0, 16.0)
    assert (result.requests, result.failures) == (6, 3)
    assert result.problems == ["3 polite requests failed: timeout"]


def test_the_ratio_ignores_latencies_below_the_noise() -> None:
    quick = AttackResult("x", 0, 1.0, p99_ms=4.0, p99_control_ms=1.0)
    slow = AttackResult("x", 0, 1.0, p99_ms=40.0, p99_control_ms=10.0)

    assert (quick.ratio, slow.ratio) == (1.0, 4.0)


def test_every_attack_says_what_it_does() -> None:
    assert all((attack.__doc__ or "").startswith("Attack with") for attack in ATTACKS.values())


def test_the_p99_is_in_milliseconds() -> None:
    client = PoliteClient(ServerProcess(0, 0), latencies=[0.001] * 98 + [0.5, 0.7])

    assert client.p99() == 700.0


@pytest.mark.parametrize("answer", [b"HTTP/1.1 500 x\r\n", b"garbage", b"HTTP/1.1 x"])
def test_a_failure_of_the_server_is_a_finding(answer: bytes) -> None:
    with pytest.raises(FindingError):
        status_of(answer)


def test_overload_and_client_errors_are_no_findings() -> None:
    assert status_of(b"HTTP/1.1 503 Service Unavailable\r\n") == 503
    assert status_of(b"HTTP/1.1 400 Bad Request\r\n") == 400
