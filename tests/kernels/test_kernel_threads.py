import threading
import time
from collections.abc import Iterator

import pytest

from lamatext.errors import ConfigError
from lamatext.kernels.kernel_threads import parallel_map, thread_count, usable_cores


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_results_are_in_the_order_of_the_items(workers: int | None) -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    assert list(parallel_map(work, range(20), workers=workers)) == [n * n for n in range(20)]


def test_only_a_few_items_are_drawn_ahead() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for item in range(100):
            drawn.append(item)
            yield item

    next(results := parallel_map(str, items(), workers=2))

    assert len(drawn) == 3
    results.close()  # type: ignore[attr-defined]


def test_items_are_processed_in_parallel() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def work(_: int) -> bool:
        meeting.wait()
        return True

    assert list(parallel_map(work, range(2), workers=2)) == [True, True]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_work_reaches_the_caller(workers: int) -> None:
    def work(item: int) -> int:
        return 1 // item

    with pytest.raises(ZeroDivisionError):
        list(parallel_map(work, [1, 0, 1], workers=workers))


def test_at_least_one_core_is_usable() -> None:
    assert usable_cores() >= 1


@pytest.mark.parametrize("given", ["two", "0", "-1", "1.5"])
def test_a_wrong_number_of_threads_is_an_error(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_THREADS", given)

    with pytest.raises(ConfigError, match=f"LAMATEXT_THREADS={given}: expected a number"):
        thread_count(2)
