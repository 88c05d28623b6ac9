import asyncio
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from lamatext.serve.request_batching import Batcher, OverloadedError


def shout(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


async def ask(batcher: Batcher[str], *requests: Sequence[str]) -> list[Sequence[str]]:
    return await asyncio.gather(*(batcher(texts) for texts in requests))


def held(work: Callable[[list[str]], list[str]], until: Event) -> Callable[[list[str]], list[str]]:
    def wait_and_work(texts: list[str]) -> list[str]:
        until.wait(5)
        return work(texts)

    return wait_and_work


def test_texts_that_arrive_together_are_read_together() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.05, on_batch=sizes.append)

    found = asyncio.run(ask(batcher, ["a", "b"], ["c"], ["d"]))

    assert found == [["A", "B"], ["C"], ["D"]]
    assert sizes == [4]
    batcher.close()


def test_a_batch_ends_at_its_budget() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.01, characters=10, on_batch=sizes.append)

    found = asyncio.run(ask(batcher, *(["four"] for _ in range(5))))

    assert found == [["FOUR"]] * 5
    assert sizes == [2, 2, 1]
    batcher.close()


def test_a_text_longer_than_the_budget_is_read_alone() -> None:
    sizes: list[int] = []
    batcher = Batcher(shout, wait=0.01, characters=3, on_batch=sizes.append)

    assert asyncio.run(ask(batcher, ["longer"], ["b"])) == [["LONGER"], ["B"]]
    assert sizes == [1, 1]
    batcher.close()


def test_an_error_reaches_every_request_of_the_batch_and_the_next_batch_is_read() -> None:
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


def test_texts_beyond_the_waiting_room_are_sent_away() -> None:
    async def scenario() -> None:
        free = Event()
        batcher = Batcher(held(shout, free), most=3, wait=0)
        first = asyncio.create_task(batcher(["a"]))
        await asyncio.sleep(0.05)  # it is being read now
        waiting = asyncio.create_task(batcher(["b", "c", "d"]))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await batcher(["e"])
        free.set()
        assert [await first, await waiting] == [["A"], ["B", "C", "D"]]
        batcher.close()

    asyncio.run(scenario())


def test_a_request_that_was_given_up_is_not_read() -> None:
    async def scenario() -> None:
        free, seen = Event(), list[str]()

        def note(texts: list[str]) -> list[str]:
            seen.extend(texts)
            return texts

        batcher = Batcher(held(note, free), wait=0)
        first = asyncio.create_task(batcher(["a"]))
        await asyncio.sleep(0.05)
        given_up = asyncio.create_task(batcher(["b"]))
        await asyncio.sleep(0)
        given_up.cancel()
        last = asyncio.create_task(batcher(["c"]))
        free.set()
        assert [await first, await last] == [["a"], ["c"]]
        assert seen == ["a", "c"]
        batcher.close()

    asyncio.run(scenario())
