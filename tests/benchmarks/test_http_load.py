import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from benchmarks.http_load import Connection, Load, LoadRun, _request
from benchmarks.serving import synthetic_texts

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read(reader: asyncio.StreamReader) -> str:
    """Return the text of the next request; empty if the client has closed the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return ""
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    text: str = json.loads(await reader.readexactly(length))["text"]
    return text


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve 200, or 500 for the text "bad"; each response is sent in two parts."""
    while text := await read(reader):
        status = b"500 Error" if text == "bad" else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{")
        await writer.drain()
        writer.write(b"}")
    writer.close()


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection soon after the first response, without announcing it."""
    await read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    await asyncio.sleep(0.01)
    writer.close()


async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection after the first response and announce it."""
    await read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\n{}")
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read a request and close the connection without a response."""
    await read(reader)
    writer.close()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def load(
    server: Talk, *, rate: float | None, bodies: list[str], connections: int = 4
) -> LoadRun:
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    run = LoadRun(Load(port_of(listening), bodies, 0.4, connections, rate=rate))
    await run.run()
    await hang_up_all(run)
    listening.close()
    return run


async def hang_up_all(run: LoadRun) -> None:
    run.end = 0.0
    for connection in run.idle:
        assert connection.transport is not None
        connection.transport.close()
    await asyncio.sleep(0.05)


def test_a_load_at_a_rate_sends_that_many_requests() -> None:
    run = asyncio.run(load(answer, rate=100, bodies=["good"]))

    result = run.result(0.4)
    assert 30 <= result.requests <= 41
    assert result.errors == {}
    assert 0 < result.p50 <= result.p99 <= result.longest


def test_a_load_without_a_rate_sends_at_once_and_counts_errors_by_status() -> None:
    run = asyncio.run(load(answer, rate=None, bodies=["good", "bad"]))

    result = run.result(0.4)
    assert result.requests > 8
    assert result.errors.keys() == {"status 500"}
    assert abs(result.errors["status 500"] - result.requests / 2) <= 1


def test_every_connection_is_used() -> None:
    run = asyncio.run(load(answer_once, rate=50, bodies=["good"], connections=10))

    assert run.result(0.4).reopened >= 10


@pytest.mark.parametrize("server", [answer_once, answer_and_close])
def test_an_idle_connection_that_the_server_closed_is_reopened(server: Talk) -> None:
    async def ask_twice() -> LoadRun:
        async with await asyncio.start_server(server, "127.0.0.1", 0) as listening:
            run = LoadRun(Load(port_of(listening), ["good"], 1.0, rate=1.0))
            run.end = float("inf")
            await run.connect()
            for times in (1, 2):
                run.due.append(0.0)
                run.send_due()
                while run.reopened < times:
                    await asyncio.sleep(0.01)
            await hang_up_all(run)
        return run

    result = asyncio.run(ask_twice()).result(1.0)

    assert result.errors == {}
    assert result.requests == 2


def test_a_request_on_a_lost_connection_is_an_error_and_not_repeated() -> None:
    run = asyncio.run(load(hang_up, rate=50, bodies=["good"]))

    result = run.result(0.4)
    assert result.requests == 0
    assert result.errors == {"closed without an answer": run.sent}


def test_a_server_that_stops_is_counted_by_the_exception() -> None:
    async def stop() -> LoadRun:
        async def stop_listening(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            listening.close()
            await hang_up(reader, writer)

        listening = await asyncio.start_server(stop_listening, "127.0.0.1", 0)
        run = LoadRun(Load(port_of(listening), ["good"], 1.0, rate=1.0))
        run.end = float("inf")
        await run.connect()
        run.due.extend([0.0, 0.0])
        run.send_due()
        while len(run.errors) < 2:
            await asyncio.sleep(0.01)
        return run

    errors = asyncio.run(stop()).result(1.0).errors

    assert errors == {"closed without an answer": 1, "ConnectionRefusedError": 1, "not sent": 1}


def test_a_request_without_an_answer_is_an_error() -> None:
    run = LoadRun(Load(1, ["a"], 1.0))
    run.in_flight[Connection(run.on_answer, run.on_lost)] = 0.0

    assert run.result(1.0).errors == {"no answer": 1}


def test_a_request_states_its_content_length() -> None:
    head, _, body = _request("/predict", "é").partition(b"\r\n\r\n")

    assert f"Content-Length: {len(body)}".encode() in head


def test_synthetic_texts_use_the_models_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<pad>\n<unk>\ngood\nbad\n", encoding="utf-8")

    texts = synthetic_texts(tmp_path, 5, texts=3)

    assert [len(text.split()) for text in texts] == [5, 5, 5]
    assert {word for text in texts for word in text.split()} <= {"good", "bad"}
