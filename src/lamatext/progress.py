"""How long work tells what it is doing; the command line shows it, Python callers get silence."""


class Progress:
    """Silent. A display overrides the three methods."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins, of ``total`` steps if that is known."""

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Some steps of the stage are done."""

    def note(self, text: str) -> None:
        """One line that stays."""


SILENT = Progress()
