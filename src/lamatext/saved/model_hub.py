"""Saved models on the Hugging Face Hub: download ``hf:OWNER/NAME`` and upload a model folder.

Only the files of the saved format are transferred, and a download is validated like any other
folder. The package huggingface_hub reads ``$HF_ENDPOINT`` and ``$HF_TOKEN``.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from lamatext.errors import ConfigError, ModelError, require
from lamatext.saved.format import CARD, FILES, load_config
from lamatext.saved.model_card import FOLDER_PLACEHOLDER

PREFIX = "hf:"
_ADDRESS = re.compile(r"hf:(?://)?(?P<name>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>\w[\w./-]*))?")


def local_folder(source: str | PathLike[str]) -> Path:
    """Return the local folder of a saved model, downloading it from the Hub if necessary.

    Args:
        source: a folder, ``hf:OWNER/NAME`` or ``hf:OWNER/NAME@REVISION``.
    """
    address = fspath(source)
    if not address.startswith(PREFIX):
        return Path(address)
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(f"{address}: expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION.")
    name, revision = match["name"], match["revision"] or "main"
    hub: Any = require("huggingface_hub", extra="hub", purpose=f"loading {address}")
    from lamatext.data.cache import (
        cache_folder,
    )  # imports pyarrow, which a local folder may not need

    folder = cache_folder() / "models" / f"{name}@{revision}".replace("/", "--")
    with _hub_errors(address):
        hub.snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=[*FILES])
    return folder


def push_to_hub(
    folder: str | PathLike[str], name: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a saved model to the Hugging Face Hub and return its address ``hf:OWNER/NAME``.

    Args:
        folder: the saved model.
        name: ``OWNER/NAME``; the repository is created if it does not exist.
        private: whether a new repository is private.
        token: an access token; None uses the one of ``hf auth login`` or ``$HF_TOKEN``.
    """
    folder, name = Path(folder), name.removeprefix(PREFIX)
    if _ADDRESS.fullmatch(f"{PREFIX}{name}") is None:
        raise ConfigError(f"{name}: expected OWNER/NAME, the name of a model on the Hub.")
    load_config(folder)
    hub: Any = require("huggingface_hub", extra="hub", purpose="uploading to the Hub")
    card = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else ""
    files = [file for file in FILES if file != CARD and (folder / file).is_file()]
    with tempfile.TemporaryDirectory() as temporary, _hub_errors(name):
        readme = Path(temporary) / CARD
        readme.write_text(card.replace(FOLDER_PLACEHOLDER, f"{PREFIX}{name}"), encoding="utf-8")
        api = hub.HfApi(token=token)
        api.create_repo(name, private=private, exist_ok=True)
        sources = [(file, folder / file) for file in files] + [(CARD, readme)]
        operations = [
            hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=path)
            for file, path in sources
        ]
        old = {*FILES} & {*api.list_repo_files(name)} - {file for file, _ in sources}
        operations += [hub.CommitOperationDelete(path_in_repo=file) for file in sorted(old)]
        api.create_commit(name, operations, commit_message="Upload a lamatext model")
    return f"{PREFIX}{name}"


@contextmanager
def _hub_errors(address: str) -> Iterator[None]:
    """Convert Hugging Face Hub and network errors to a ModelError that names the model."""
    try:
        yield
    except Exception as error:
        if not _is_hub_error(error):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(
            f"{address}: the Hub refused or could not be reached: {reason[:200]}. Check the name, "
            "your access token (hf auth login) and the network."
        ) from error


def _is_hub_error(error: Exception) -> bool:
    """Return whether an error was raised by huggingface_hub or by the HTTP client that it uses.

    Its own errors are OSError or ValueError. Which client it uses depends on its version (requests,
    httpx, httpx2); the base class of all their errors is an OSError or named HTTPError.
    """
    is_of_client = any(base.__name__ == "HTTPError" for base in type(error).__mro__)
    return isinstance(error, OSError | ValueError) or is_of_client
