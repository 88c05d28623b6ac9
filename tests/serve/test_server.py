"""The server process: its listening socket, signals and shutdown."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from time import sleep

import pytest
import uvicorn

from lamatext.cli import serve as verb
from lamatext.errors import ConfigError
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.serve.server import DrainingServer, drain_backlog, open_listener

START = "import sys, typer; from lamatext.cli import serve; typer.run(serve.run)"


@pytest.fixture
def process(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", START, str(folder), "--port", "0", "--drain", "0.5"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def port_of(process: "subprocess.Popen[str]") -> int:
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("Serving"))
    return int(re.findall(r":(\d+)", line)[-1])


def predict(connection: HTTPConnection) -> tuple[int, bool]:
    """Send one request; return its status and whether the server closes the connection."""
    body = json.dumps({"text": "a good film"})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("connection") == "close"


@pytest.mark.slow
def test_no_request_is_lost_when_the_server_shuts_down(
    process: "subprocess.Popen[str]",
) -> None:
    port = port_of(process)
    statuses: list[int] = []
    refused: list[str] = []

    def keep_sending() -> None:
        """Send requests on one connection until the server closes it, then open the next."""
        while True:
            connection = HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.connect()
                status, closing = predict(connection)
            except RemoteDisconnected:  # accepted, but not answered
                return
            # Reset: while the socket closes, on systems without packet filters (see below).
            except (ConnectionRefusedError, ConnectionResetError) as error:
                refused.append(type(error).__name__)
                return
            statuses.append(status)
            while not closing:
                status, closing = predict(connection)
                statuses.append(status)
            connection.close()

    clients = [threading.Thread(target=keep_sending) for _ in range(8)]
    for client in clients:
        client.start()
    sleep(1.5)
    before = len(statuses)
    process.send_signal(signal.SIGTERM)
    for client in clients:
        client.join(20)

    assert process.wait(20) == 0
    assert len(refused) == 8
    assert set(statuses) == {200}
    assert len(statuses) > before > 8


@pytest.mark.slow
def test_the_server_listens_on_localhost_only_and_logs_no_texts(
    process: "subprocess.Popen[str]",
) -> None:
    port = port_of(process)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as response:
        assert response.status == 200
    connection = HTTPConnection("127.0.0.1", port)
    assert predict(connection) == (200, False)
    connection.close()

    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{port:04X}" in listening
    assert f"00000000:{port:04X}" not in listening
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert "good film" not in process.stderr.read()


def test_an_idle_connection_stays_open_longer_than_proxies_keep_theirs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []

    def run(server: DrainingServer, sockets: list[socket.socket]) -> None:
        timeouts.append(server.config.timeout_keep_alive)
        for listener in sockets:
            listener.close()

    monkeypatch.setattr(DrainingServer, "run", run)

    verb.run([str(folder)], port=0)

    assert timeouts == [75]


def test_an_api_key_that_does_not_fit_in_a_header_is_refused(folder: Path) -> None:
    for key in ("schlüssel", " "):
        with pytest.raises(ConfigError, match="printable ASCII"):
            verb.run([str(folder)], api_key=key)


def test_a_port_in_use_is_a_config_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"port {port}: Address already in use\. Choose"):
            open_listener("127.0.0.1", port)


def test_connections_in_the_backlog_are_answered_before_shutdown(folder: Path) -> None:
    app = create_app(load_models([folder]))
    config = uvicorn.Config(app, log_level="warning")
    listener = open_listener("127.0.0.1", 0)
    clients = [socket.create_connection(listener.getsockname(), timeout=20) for _ in range(5)]
    for client in clients:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

    async def shut_down() -> None:
        server = DrainingServer(config, app.state.server, drain=0)
        config.load()
        server.servers = []  # nothing has accepted a connection yet
        server.lifespan = config.lifespan_class(config)
        await server.lifespan.startup()
        app.state.server.draining = True
        await server.shutdown([listener])

    asyncio.run(shut_down())

    responses = [client.recv(1000) for client in clients]
    assert [response.split(b"\r\n")[0] for response in responses] == [b"HTTP/1.1 200 OK"] * 5
    for client in clients:
        client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these packet filters")
def test_a_connection_after_the_backlog_was_drained_is_refused_and_not_reset() -> None:
    listener = open_listener("127.0.0.1", 0)
    address = listener.getsockname()
    early = socket.create_connection(address, timeout=20)
    errors: list[str] = []

    def connect_late() -> None:
        try:
            socket.create_connection(address, timeout=20).recv(1)
        except OSError as error:
            errors.append(type(error).__name__)

    accepted = drain_backlog(listener)
    late = threading.Thread(target=connect_late)
    late.start()
    sleep(0.2)
    listener.close()
    late.join()

    assert [connection.getpeername() for connection in accepted] == [early.getsockname()]
    assert errors == ["ConnectionRefusedError"]
    for connection in (early, *accepted):
        connection.close()
