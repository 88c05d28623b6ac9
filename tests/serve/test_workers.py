"""Servers in their own processes: workers, reloads, TLS, access log and limits."""

import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from lamatext.cli import serve as verb
from lamatext.errors import ConfigError
from lamatext.saved.format import load_config, model_hash
from lamatext.serve.connection_limits import ConnectionLimits
from lamatext.serve.server import open_listeners
from lamatext.serve.tls import TlsFiles
from tests.serve.saved import save

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")

START = "import sys; from lamatext.cli.main import run; sys.exit(run(['serve', *sys.argv[1:]]))"
HEADERS = {"Content-Type": "application/json"}


class RunningServer:
    """A ``lamatext serve`` process, its port and its messages."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", START, *arguments, "--port", "0", "--drain", "0.2"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.messages: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = int(re.findall(r":(\d+)", self.wait_for("Serving"))[-1])

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.messages.extend(iter(self.process.stderr.readline, ""))

    def wait_for(self, text: str, *, count: int = 1) -> str:
        """Wait for a message that contains ``text``."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            lines = [line for line in [*self.messages] if text in line]
            if len(lines) >= count:
                return lines[count - 1]
            time.sleep(0.01)
        raise AssertionError(f"no message {text!r} in {self.messages}")

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        process = self.process.pid
        children = Path(f"/proc/{process}/task/{process}/children").read_text()
        return [int(child) for child in children.split()]

    def ask(self, path: str = "/predict", body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", path, json.dumps(body or {"text": "a good film"}), HEADERS)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def get(self, path: str) -> str:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text


@contextmanager
def serving(*arguments: object) -> Iterator[RunningServer]:
    server = RunningServer(*map(str, arguments))
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(20) == 0
        server.reader.join(20)
        assert server.process.stderr is not None
        server.process.stderr.close()


@contextmanager
def load(server: RunningServer, clients: int = 6) -> Iterator[Counter[str]]:
    """Send requests without a pause on some connections, and count their results."""
    results: Counter[str] = Counter()
    stop = threading.Event()
    body = json.dumps({"text": "a good film"})

    def keep_asking() -> None:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
        while not stop.is_set():
            try:
                connection.request("POST", "/predict", body, HEADERS)
                response = connection.getresponse()
                answer = json.loads(response.read())
                results[answer["hash"] if response.status == 200 else str(response.status)] += 1
            except (OSError, HTTPException):
                results["lost"] += 1
                connection.close()
        connection.close()

    threads = [threading.Thread(target=keep_asking) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_worker_loses_only_its_own_requests_and_is_started_again(folder: Path) -> None:
    clients = 6
    with serving(folder, "--workers", "2") as server:
        before = server.workers()
        with load(server, clients) as results:
            wait_until(lambda: results.total() > 50)
            os.kill(before[0], signal.SIGKILL)
            server.wait_for("was ended by signal 9; starting it again")
            wait_until(lambda: len({*server.workers()} - {*before}) == 1)
            answered = results.total()
            wait_until(lambda: results.total() > answered + 100)
        after = server.workers()
        with load(server, clients) as later:
            wait_until(lambda: later.total() > 100)

    assert len(after) == 2
    assert before[1] in after
    assert 0 <= results.pop("lost", 0) <= clients  # at most one request per connection
    assert set(results) == set(later) == {model_hash(folder, load_config(folder))}


@pytest.mark.slow
def test_connections_do_not_wait_for_a_worker_that_cannot_start(tmp_path: Path) -> None:
    folder, hidden = save(tmp_path / "reviews"), tmp_path / "hidden"
    with serving(folder, "--workers", "2", "--no-watch") as server:
        before = server.workers()
        folder.rename(hidden)
        os.kill(before[0], signal.SIGKILL)
        server.wait_for("ended with status 2; starting it again")

        answers = [server.ask() for _ in range(40)]  # each on a connection of its own

        assert len({answer["hash"] for answer in answers}) == 1
        hidden.rename(folder)
        wait_until(lambda: len(server.workers()) == 2)
        os.kill(before[1], signal.SIGKILL)  # the new one answers, and a successor is started
        server.wait_for("was ended by signal 9; starting it again", count=2)
        assert all("hash" in server.ask() for _ in range(20))


@pytest.mark.slow
def test_a_changed_folder_is_served_by_all_workers_without_a_lost_request(tmp_path: Path) -> None:
    folder = save(tmp_path / "reviews")
    old = model_hash(folder, load_config(folder))
    with (
        serving(folder, "--workers", "2", "--no-watch") as server,
        load(server) as results,
    ):
        wait_until(lambda: results[old] > 50)
        save(folder, labels=["no", "yes"])
        new = model_hash(folder, load_config(folder))
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reviews: reloaded", count=2)
        wait_until(lambda: results[new] > 50)
        stale = results[old]
        time.sleep(0.3)

        assert results[old] - stale <= 6  # those that were already being answered
        assert set(results) == {old, new}


@pytest.mark.slow
def test_workers_stop_without_a_lost_request_and_with_their_supervisor(folder: Path) -> None:
    with serving(folder, "--workers", "2") as server:
        workers = server.workers()
        with load(server) as results:
            wait_until(lambda: results.total() > 50)
        assert "lost" not in results
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)

    with serving(folder, "--workers", "2") as server:
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not any(_is_alive(worker) for worker in workers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_", "times", "workers"),
    [(signal.SIGTERM, 1, 2), (signal.SIGINT, 1, 2), (signal.SIGTERM, 2, 2), (signal.SIGINT, 2, 1)],
)
def test_a_signal_to_the_whole_process_group_ends_the_server_quietly(
    folder: Path, signal_: signal.Signals, times: int, workers: int
) -> None:
    with serving(folder, "--workers", workers) as server:
        processes = server.workers()
        server.wait_for("in a browser")
        server.ask()  # announced a moment before it handles signals
        shown = len(server.messages)
        for _ in range(times):
            os.killpg(server.process.pid, signal_)
            time.sleep(0.05)
        assert server.process.wait(20) == 0
        server.reader.join(20)

    assert server.messages[shown:] == []
    assert not any(_is_alive(process) for process in processes)


def _is_alive(process: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_metrics_are_those_of_all_workers(folder: Path) -> None:
    with serving(folder, "--workers", "2") as server:
        for _ in range(40):
            server.ask()
        time.sleep(1.2)
        for _ in range(6):  # whichever worker answers
            counts = re.findall(
                r'requests_total\{route="/predict".*\} (\d+)', server.get("/metrics")
            )
            assert counts == ["40"]
        os.kill(server.workers()[0], signal.SIGKILL)
        server.wait_for("starting it again")
        time.sleep(1)
        metrics = server.get("/metrics")

    assert 'lamatext_texts_total{route="/predict"} 40' in metrics


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path / "none"), "--port", "0"]
    done = subprocess.run(
        [*command, "--workers", "3"], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 2
    assert done.stderr.count("no such folder") == 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    _make_certificate(place)
    return place / "cert.pem", place / "key.pem"


def _make_certificate(place: Path) -> None:
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(place / "key.pem"), "-out", str(place / "cert.pem")]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-days", "2", *files, *subject]
    subprocess.run(command, check=True, capture_output=True)


def ask_securely(port: int, certificate: Path) -> int:
    context = ssl.create_default_context(cafile=str(certificate))
    connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
    connection.request("POST", "/predict", json.dumps({"text": "a good film"}), HEADERS)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_https_with_a_certificate_that_can_be_renewed(
    workers: str, folder: Path, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    for file in certificate:
        shutil.copy(file, tmp_path)
    files = ("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    with serving(folder, *files, "--workers", workers) as server:
        assert "https://" in server.wait_for("Serving")
        assert ask_securely(server.port, certificate[0]) == 200
        with pytest.raises((OSError, HTTPException)):
            server.ask()  # without TLS
        _make_certificate(tmp_path)
        with pytest.raises(ssl.SSLError):
            ask_securely(server.port, tmp_path / "cert.pem")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reviews: reloaded", count=int(workers))
        assert ask_securely(server.port, tmp_path / "cert.pem") == 200


@pytest.mark.slow
def test_a_tls_handshake_has_a_time_limit(folder: Path, certificate: tuple[Path, Path]) -> None:
    files = ("--tls-cert", certificate[0], "--tls-key", certificate[1])
    with serving(folder, *files, "--header-timeout", "0.5") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as silent:
            started = time.monotonic()
            assert silent.recv(1) == b""
        assert time.monotonic() - started < 5


@pytest.mark.slow
def test_clients_that_never_finish_the_handshake_do_not_keep_others_out(
    folder: Path, certificate: tuple[Path, Path]
) -> None:
    files = ("--tls-cert", certificate[0], "--tls-key", certificate[1])
    with serving(folder, *files, "--max-connections", 20) as server, ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            for _ in range(60)
        ]
        started = time.monotonic()

        assert [ask_securely(server.port, certificate[0]) for _ in range(3)] == [200] * 3
        assert time.monotonic() - started < 5
        assert is_closed(silent[0])  # replaced by a later one


@pytest.mark.slow
def test_tls_handshakes_count_as_connections(folder: Path, certificate: tuple[Path, Path]) -> None:
    files = ("--tls-cert", certificate[0], "--tls-key", certificate[1])
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with serving(folder, *files, "--max-connections", 20) as server, ExitStack() as stack:
        used = [
            stack.enter_context(closing(HTTPSConnection("127.0.0.1", server.port, context=context)))
            for _ in range(16)
        ]

        def are_answered() -> bool:
            for client in used:
                client.request("GET", "/healthz")
            return all(client.getresponse().read() for client in used)

        assert are_answered()
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            for _ in range(30)
        ]
        deadline = time.monotonic() + 5  # handshakes end by themselves after 10 s
        while time.monotonic() < deadline and not select.select([silent[24]], [], [], 0.1)[0]:
            pass

        are_open = [not select.select([client], [], [], 0)[0] for client in silent]
        assert are_open == [False] * 25 + [True] * 5  # a quarter of the limit
        assert are_answered()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_certificate_that_cannot_be_used_is_a_config_error(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "no.pem").write_text("no certificate")

    with pytest.raises(ConfigError, match="cannot be used for TLS"):
        TlsFiles(tmp_path / "no.pem")
    with pytest.raises(ConfigError, match=r"none.pem: no such file"):
        TlsFiles(certificate[0], tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"cannot be used for TLS.*--tls-key"):
        TlsFiles(certificate[0])


@pytest.mark.slow
def test_the_access_log_has_a_json_line_per_request_and_can_be_rotated(
    folder: Path, tmp_path: Path
) -> None:
    log, rotated = tmp_path / "access.jsonl", tmp_path / "access.jsonl.1"
    with serving(folder, "--workers", "2", "--access-log", log) as server:
        server.ask(body={"texts": ["a secret text", "another"]})
        server.get("/readyz?secret=1")
        wait_until(lambda: log.read_text().count("\n") == 2)
        log.rename(rotated)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reviews: reloaded", count=2)
        server.ask()
        wait_until(lambda: log.read_text().count("\n") == 1)

    lines = [json.loads(line) for line in rotated.read_text().splitlines()]
    first, second = sorted(lines, key=lambda line: line["path"])  # of two workers, in either order
    assert (first["path"], first["status"], first["texts"]) == ("/predict", 200, 2)
    assert first["hash"] == model_hash(folder, load_config(folder))
    assert first["client"] == "127.0.0.1"
    assert (second["method"], second["path"], "texts" in second) == ("GET", "/readyz", False)
    assert "secret" not in rotated.read_text()
    assert oct(log.stat().st_mode & 0o777) == "0o640"


@pytest.mark.slow
def test_texts_are_logged_if_asked_for(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    with serving(folder, "--access-log", log, "--log-texts") as server:
        server.ask(body={"text": "línea\n2"})
        wait_until(lambda: log.read_text().count("\n") == 1)

    assert json.loads(log.read_text())["input"] == ["línea\n2"]


@pytest.mark.slow
def test_limits_are_options(folder: Path) -> None:
    options = ("--max-texts", 2, "--max-characters", 10, "--max-body", 1000)
    with serving(folder, *options, "--workers", 2) as server:
        assert "expected 1 to 2" in server.ask(body={"texts": ["a", "b", "c"]})["detail"]
        assert "at most 10" in server.ask(body={"text": "a" * 11})["detail"]
        assert "at most 1,000 bytes" in server.ask(body={"text": "a" * 1001})["detail"]


def test_workers_share_the_limits_of_the_server() -> None:
    limits = ConnectionLimits(connections=1000, bodies=64 << 20).share_of(4)

    assert (limits.connections, limits.bodies) == (250, 16 << 20)
    assert ConnectionLimits(body=1 << 25, bodies=1 << 26).share_of(8).bodies == 1 << 25


def test_every_worker_has_a_listening_socket_on_the_same_port() -> None:
    listeners = open_listeners("127.0.0.1", 0, 3, backlog=10)

    ports = {listener.getsockname()[1] for listener in listeners}
    assert len(ports) == 1
    with pytest.raises(ConfigError, match="cannot listen on"):
        open_listeners("127.0.0.1", ports.pop(), 2, backlog=10)
    for listener in listeners:
        listener.close()


def test_options_that_need_another_option_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--tls-key: expected --tls-cert"):
        verb.run([str(folder)], tls_key=tmp_path / "key.pem")
    with pytest.raises(ConfigError, match="--log-texts: expected --access-log"):
        verb.run([str(folder)], log_texts=True)
    with pytest.raises(ConfigError, match=r"--access-log .*: cannot be written"):
        verb.run([str(folder)], access_log=str(tmp_path / "none" / "log"), port=0)
