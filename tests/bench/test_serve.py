import asyncio
import json
from pathlib import Path

import pytest

from lamatext.bench.load import Connection, Load, Run, _request
from lamatext.bench.serve import made_up_texts


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says 200, and 500 to the text "bad"; its answers come in two pieces."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        text = json.loads(await reader.readexactly(length))["text"]
        status = b"500 Error" if text == "bad" else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{")
        await writer.drain()
        writer.write(b"}")


async def load(*, rate: float | None, bodies: list[str]) -> Run:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    run = Run(Load(server.sockets[0].getsockname()[1], bodies, 0.4, connections=4, rate=rate))
    await run.go()
    for connection in run.idle:
        assert connection.transport is not None
        connection.transport.close()
    await asyncio.sleep(0.05)
    server.close()
    return run


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_load_at_a_rate_asks_that_often() -> None:
    run = asyncio.run(load(rate=100, bodies=["good"]))

    found = run.figures(0.4)
    assert 30 <= found.requests <= 41
    assert found.errors == 0
    assert 0 < found.p50 <= found.p99 <= found.longest


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_load_without_a_rate_asks_again_at_once_and_counts_errors() -> None:
    run = asyncio.run(load(rate=None, bodies=["good", "bad"]))

    found = run.figures(0.4)
    assert found.requests > 8
    assert abs(found.errors - found.requests / 2) <= 1


def test_a_request_without_an_answer_is_an_error() -> None:
    run = Run(Load(1, ["a"], 1.0))
    run.since[Connection(run.answered)] = 0.0

    assert run.figures(1.0).errors == 1


def test_a_request_says_how_long_it_is() -> None:
    head, _, body = _request("/predict", "é").partition(b"\r\n\r\n")

    assert f"Content-Length: {len(body)}".encode() in head


def test_texts_are_made_of_the_models_words(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("<pad>\n<unk>\ngood\nbad\n", encoding="utf-8")

    texts = made_up_texts(tmp_path, 5, texts=3)

    assert [len(text.split()) for text in texts] == [5, 5, 5]
    assert {word for text in texts for word in text.split()} <= {"good", "bad"}
