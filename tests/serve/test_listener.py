"""The port: opened, taken, and closed with guests before it."""

import asyncio
import socket
import sys
import threading
from pathlib import Path
from time import sleep

import pytest
import uvicorn

from lamatext.errors import ConfigError
from lamatext.serve.app import create_app
from lamatext.serve.listener import last_guests, listen
from lamatext.serve.registry import load_models
from lamatext.serve.server import Server

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"cannot listen at 127.0.0.1, port {port}"):
            listen("127.0.0.1", port)


def test_who_stands_at_the_door_when_it_closes_is_answered(folder: Path) -> None:
    app = create_app(load_models([folder]))
    config = uvicorn.Config(app, log_level="warning")
    door = listen("127.0.0.1", 0)
    guests = [socket.create_connection(door.getsockname(), timeout=20) for _ in range(5)]
    for guest in guests:
        guest.sendall(REQUEST)

    async def leave() -> None:
        server = Server(config, app.state.lifecycle, drain=0)
        config.load()
        server.servers = []  # none has opened the door yet
        server.lifespan = config.lifespan_class(config)
        await server.lifespan.startup()
        app.state.lifecycle.draining = True
        await server.shutdown([door])

    asyncio.run(leave())

    answers = [guest.recv(1000) for guest in guests]
    assert [answer.split(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * 5
    for guest in guests:
        guest.close()


@pytest.mark.skipif(sys.platform != "linux", reason="packet filters are Linux's")
def test_who_comes_after_the_last_guest_is_refused_and_not_reset() -> None:
    door = listen("127.0.0.1", 0)
    address = door.getsockname()
    early = socket.create_connection(address, timeout=20)
    told: list[str] = []

    def come_late() -> None:
        try:
            socket.create_connection(address, timeout=20).recv(1)
        except OSError as error:
            told.append(type(error).__name__)

    guests = last_guests(door)
    late = threading.Thread(target=come_late)
    late.start()
    sleep(0.2)
    door.close()
    late.join()

    assert [guest.getpeername() for guest in guests] == [early.getsockname()]
    assert told == ["ConnectionRefusedError"]
    for connection in (early, *guests):
        connection.close()
