import asyncio
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from lamatext.serve.request_batching import Batcher, OverloadedError


def shout(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


async def ask(batcher: Batcher[str], *requests: Sequence[str]) -> list[Sequence[str]]:
    return await asyncio.gather(*(batcher(texts) for texts in requests))


def blocked(
    work: Callable[[list[str]], list[str]], release: Event
) -> Callable[[list[str]], list[str]]:
    def wait_and_work(texts: list[str]) -> list[str]:
        release.wait(5)
        return work(texts)

    return wait_and_work


def test_concurrent_requests_share_one_batch() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.05, on_batch=sizes.append)

    results = asyncio.run(ask(batcher, ["a", "b"], ["c"], ["d"]))

    assert results == [["A", "B"], ["C"], ["D"]]
    assert sizes == [4]
    batcher.close()


def test_a_batch_stops_at_its_size_limit() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.01, characters=10, on_batch=sizes.append)

    results = asyncio.run(ask(batcher, *(["four"] for _ in range(5))))

    assert results == [["FOUR"]] * 5
    assert sizes == [2, 2, 1]
    batcher.close()


def test_a_text_longer_than_the_size_limit_gets_its_own_batch() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.01, characters=3, on_batch=sizes.append)

    assert asyncio.run(ask(batcher, ["longer"], ["b"])) == [["LONGER"], ["B"]]
    assert sizes == [1, 1]
    batcher.close()


def test_an_error_reaches_every_request_of_its_batch_and_the_next_batch_runs() -> None:
    def fail_on_x(texts: list[str]) -> list[str]:
        if "x" in texts:
            raise ValueError("no x")
        return texts

    async def scenario() -> None:
        batcher = Batcher(fail_on_x, wait=0.01)
        failed = await asyncio.gather(batcher(["x"]), batcher(["y"]), return_exceptions=True)
        assert [type(error) for error in failed] == [ValueError, ValueError]
        assert await batcher(["z"]) == ["z"]
        batcher.close()

    asyncio.run(scenario())


def test_texts_beyond_the_capacity_are_refused() -> None:
    async def scenario() -> None:
        release = Event()
        batcher = Batcher(blocked(shout, release), capacity=3, wait=0)
        first = asyncio.create_task(batcher(["a"]))
        await asyncio.sleep(0.05)  # its batch is running now
        waiting = asyncio.create_task(batcher(["b", "c", "d"]))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await batcher(["e"])
        release.set()
        assert [await first, await waiting] == [["A"], ["B", "C", "D"]]
        batcher.close()

    asyncio.run(scenario())


def test_a_cancelled_request_is_not_computed() -> None:
    async def scenario() -> None:
        release, computed = Event(), list[str]()

        def record(texts: list[str]) -> list[str]:
            computed.extend(texts)
            return texts

        batcher = Batcher(blocked(record, release), wait=0)
        first = asyncio.create_task(batcher(["a"]))
        await asyncio.sleep(0.05)
        cancelled = asyncio.create_task(batcher(["b"]))
        await asyncio.sleep(0)
        cancelled.cancel()
        last = asyncio.create_task(batcher(["c"]))
        release.set()
        assert [await first, await last] == [["a"], ["c"]]
        assert computed == ["a", "c"]
        batcher.close()

    asyncio.run(scenario())


def test_a_cancelled_request_leaves_the_queue_at_once() -> None:
    async def scenario() -> None:
        release = Event()
        batcher = Batcher(blocked(shout, release), capacity=3, wait=0)
        first = asyncio.create_task(batcher(["a"]))
        await asyncio.sleep(0.05)  # its batch is running now
        cancelled = asyncio.create_task(batcher(["b", "c", "d"]))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        last = asyncio.create_task(batcher(["e", "f", "g"]))  # has room again
        await asyncio.sleep(0)
        release.set()
        assert [await first, await last] == [["A"], ["E", "F", "G"]]
        batcher.close()

    asyncio.run(scenario())


def test_a_large_request_does_not_hold_up_a_small_one() -> None:
    async def scenario() -> None:
        computed: list[str] = []

        def record(texts: list[str]) -> list[str]:
            computed.extend(texts)
            return texts

        large = [f"{index}".ljust(6000) for index in range(10)]
        batcher = Batcher(record, wait=0)
        first = asyncio.create_task(batcher(large))
        await asyncio.sleep(0)
        second = asyncio.create_task(batcher(["small"]))

        assert await second == ["small"]
        assert await first == large
        assert computed.index("small") <= 2
        batcher.close()

    asyncio.run(scenario())
