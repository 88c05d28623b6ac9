from lamatext.progress import SILENT, Progress, track_progress


class Told(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def advance(self, steps: int = 1, detail: str = "") -> None:
        assert not detail
        self.steps.append(steps)


def test_only_items_that_were_consumed_are_reported() -> None:
    progress = Told()
    items = track_progress(range(150), progress)

    assert [next(items) for _ in range(65)] == list(range(65))
    assert progress.steps == [64]
    assert list(items) == list(range(65, 150))
    assert progress.steps == [64, 64, 22]


def test_silent_progress_yields_all_items() -> None:
    assert list(track_progress("abc", SILENT)) == ["a", "b", "c"]
