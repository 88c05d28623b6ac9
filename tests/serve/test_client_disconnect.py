import asyncio
import json
import threading
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.serve.app import CancelOnDisconnect, ClientDisconnectedError, create_app
from lamatext.serve.registry import load_models
from lamatext.serve.schemas import Limits
from tests.serve.test_connection_limits import GET, POST, connect, exchange, running


def request(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_a_queued_request_is_not_computed_after_its_client_disconnected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.serve.registry.usable_cores", lambda: 1)  # one thread
    release, computed = threading.Event(), list[str]()

    def slow(_: Predictor, texts: list[str]) -> Any:
        computed.extend(texts)
        if texts == ["first"]:
            release.wait(10)
        return np.full((len(texts), 3), 1 / 3, np.float32)

    monkeypatch.setattr(Predictor, "predict_proba", slow)
    app = create_app(load_models([folder]), limits=Limits(queue=1))
    with running(app) as port, connect(port) as first:
        first.sendall(request("first"))
        while "first" not in computed:
            sleep(0.01)
        with connect(port) as gone:
            gone.sendall(request("gone"))
            sleep(0.2)
        deadline = monotonic() + 5
        while b'status="499"' not in exchange(port, GET.replace(b"healthz", b"metrics")):
            assert monotonic() < deadline
            sleep(0.05)
        with connect(port) as last:  # the queue of one text has room again
            last.sendall(request("last"))
            sleep(0.2)
            release.set()
            assert last.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert first.recv(65536).startswith(b"HTTP/1.1 200 ")

    assert computed == ["warm up", "first", "last"]


def test_a_cancellation_for_another_reason_is_not_taken_for_a_disconnect() -> None:
    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def scenario() -> None:
        async def wait() -> None:
            with CancelOnDisconnect(never, 60):
                await asyncio.sleep(60)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_disconnect_is_noticed_after_further_parts_of_the_body() -> None:
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def scenario() -> None:
        with pytest.raises(ClientDisconnectedError), CancelOnDisconnect(receive, 60):
            await asyncio.sleep(60)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(scenario())
