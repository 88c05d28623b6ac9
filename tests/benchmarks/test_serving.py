import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from benchmarks.load import Connection, Load, Run, _request
from benchmarks.serving import made_up_texts

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read(reader: asyncio.StreamReader) -> str:
    """The text of the next request; none when the client has gone."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return ""
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    text: str = json.loads(await reader.readexactly(length))["text"]
    return text


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says 200, and 500 to the text "bad"; its answers come in two pieces."""
    while text := await read(reader):
        status = b"500 Error" if text == "bad" else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{")
        await writer.drain()
        writer.write(b"}")
    writer.close()


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that closes a connection soon after its first answer, without having said so."""
    await read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    await asyncio.sleep(0.01)
    writer.close()


async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that closes each connection after its first answer, and says so."""
    await read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\n{}")
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that reads a request and closes the connection."""
    await read(reader)
    writer.close()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def load(server: Talk, *, rate: float | None, bodies: list[str], connections: int = 4) -> Run:
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    run = Run(Load(port_of(listening), bodies, 0.4, connections, rate=rate))
    await run.go()
    await hang_up_all(run)
    listening.close()
    return run


async def hang_up_all(run: Run) -> None:
    run.end = 0.0
    for connection in run.idle:
        assert connection.transport is not None
        connection.transport.close()
    await asyncio.sleep(0.05)


def test_a_load_at_a_rate_asks_that_often() -> None:
    run = asyncio.run(load(answer, rate=100, bodies=["good"]))

    found = run.figures(0.4)
    assert 30 <= found.requests <= 41
    assert found.errors == {}
    assert 0 < found.p50 <= found.p99 <= found.longest


def test_a_load_without_a_rate_asks_again_at_once_and_counts_errors_by_their_status() -> None:
    run = asyncio.run(load(answer, rate=None, bodies=["good", "bad"]))

    found = run.figures(0.4)
    assert found.requests > 8
    assert found.errors.keys() == {"status 500"}
    assert abs(found.errors["status 500"] - found.requests / 2) <= 1


def test_every_connection_is_in_use() -> None:
    run = asyncio.run(load(answer_once, rate=50, bodies=["good"], connections=10))

    assert run.figures(0.4).reopened >= 10


@pytest.mark.parametrize("server", [answer_once, answer_and_close])
def test_a_connection_that_the_server_closed_while_idle_is_opened_again(server: Talk) -> None:
    async def ask_twice() -> Run:
        async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
            run = Run(Load(port_of(listening), ["good"], 1.0, rate=1.0))
            run.end = float("inf")
            await run.connect()
            for times in (1, 2):
                run.due.append(0.0)
                run.ask()
                while run.reopened < times:
                    await asyncio.sleep(0.01)
            await hang_up_all(run)
        return run

    found = asyncio.run(ask_twice()).figures(1.0)

    assert found.errors == {}
    assert found.requests == 2


def test_a_request_on_a_connection_that_breaks_is_an_error_and_not_repeated() -> None:
    run = asyncio.run(load(hang_up, rate=50, bodies=["good"]))

    found = run.figures(0.4)
    assert found.requests == 0
    assert found.errors == {"closed without an answer": run.asked}


def test_a_server_that_goes_away_is_told_by_the_name_of_the_exception() -> None:
    async def go_away() -> Run:
        async def close_the_door(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            listening.close()
            await hang_up(reader, writer)

        listening = await asyncio.start_server(close_the_door, "127.0.0.1", 0)
        run = Run(Load(port_of(listening), ["good"], 1.0, rate=1.0))
        run.end = float("inf")
        await run.connect()
        run.due.extend([0.0, 0.0])
        run.ask()
        while len(run.errors) < 2:
            await asyncio.sleep(0.01)
        return run

    errors = asyncio.run(go_away()).figures(1.0).errors

    assert errors == {"closed without an answer": 1, "ConnectionRefusedError": 1, "not sent": 1}


def test_a_request_without_an_answer_is_an_error() -> None:
    run = Run(Load(1, ["a"], 1.0))
    run.since[Connection(run.answered, run.lost)] = 0.0

    assert run.figures(1.0).errors == {"no answer": 1}


def test_a_request_says_how_long_it_is() -> None:
    head, _, body = _request("/predict", "é").partition(b"\r\n\r\n")

    assert f"Content-Length: {len(body)}".encode() in head


def test_texts_are_made_of_the_models_words(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<pad>\n<unk>\ngood\nbad\n", encoding="utf-8")

    texts = made_up_texts(tmp_path, 5, texts=3)

    assert [len(text.split()) for text in texts] == [5, 5, 5]
    assert {word for text in texts for word in text.split()} <= {"good", "bad"}
