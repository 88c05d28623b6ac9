"""The folder of a run: made, found unfinished, found finished."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamatext.errors import ConfigError
from lamatext.saved.format import CHECKPOINT, CONFIG, load_config, recipe_of
from lamatext.settings import Recipe


@contextmanager
def run_folder(folder: Path, *, resume: bool) -> Iterator[None]:
    """Make the folder of a run; one that got nowhere leaves no empty folder behind."""
    prepare_folder(folder, resume=resume)
    try:
        yield
    finally:
        with suppress(OSError):  # there is something in it
            folder.rmdir()


def prepare_folder(folder: Path, *, resume: bool) -> None:
    """Make the folder, or raise where the run cannot go there."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file. Give --out a folder.")
    if resume and not folder.is_dir():
        raise ConfigError(
            f"{folder}: no such folder, so there is no run to resume. Leave --resume out to train."
        )
    if folder.is_dir() and any(folder.iterdir()) and not _is_ours(folder):
        raise ConfigError(
            f"{folder}: not empty, and not a model of lamatext. Give --out a new folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made: {error.strerror}.") from error


def is_finished(folder: Path, recipe: Recipe, source: str) -> bool:
    """Whether the folder holds the model that this very run came to."""
    if (folder / CHECKPOINT).is_file() or not (folder / CONFIG).is_file():
        return False
    config = load_config(folder)
    found = recipe_of(folder, config)
    same_data = config.get("data", {}).get("source") == source
    if same_data and _agrees(recipe.model_dump(), found.model_dump()):
        return True
    raise ConfigError(
        f"{folder}: nothing to resume, it holds the finished model of another run. "
        "Leave --resume out to train anew, or name another folder."
    )


def written(path: Path) -> int | None:
    """When a file was last written, in nanoseconds; none where there is no such file."""
    return path.stat().st_mtime_ns if path.is_file() else None


def _agrees(asked: object, found: object) -> bool:
    """Whether these settings were asked for; ``auto`` asks for whatever was found."""
    if isinstance(asked, dict) and isinstance(found, dict):
        return all(_agrees(value, found.get(key)) for key, value in asked.items())
    return asked in ("auto", found)


def _is_ours(folder: Path) -> bool:
    """Whether the folder holds a model, or what a run leaves that was killed early."""
    if (folder / CONFIG).is_file() or (folder / CHECKPOINT).is_file():
        return True
    return all(path.name.startswith(f".{CHECKPOINT}") for path in folder.iterdir())
