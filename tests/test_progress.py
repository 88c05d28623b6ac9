from lamatext.progress import SILENT, NamedProgress, Progress, track_progress


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


def test_the_progress_of_a_part_carries_its_name_and_no_notes() -> None:
    class Whole(Progress):
        def __init__(self) -> None:
            self.reports: list[str] = []

        def stage(self, name: str, total: int | None = None) -> None:
            self.reports.append(f"{name} of {total}")

        def advance(self, steps: int = 1, detail: str = "") -> None:
            self.reports.append(f"{steps} {detail}")

        def note(self, text: str) -> None:
            self.reports.append(text)

    whole = Whole()
    part = NamedProgress("baseline avg", whole)

    part.stage("epoch 1/2", 5)
    part.advance(3, "loss 1")
    part.note("epoch 1/2  loss 1.0")

    assert whole.reports == ["baseline avg: epoch 1/2 of 5", "3 loss 1"]
