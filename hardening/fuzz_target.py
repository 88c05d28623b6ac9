"""The fuzz target: a function that reads hostile bytes, its seed inputs and its dictionary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from lamatext.errors import LamatextError


class FindingError(Exception):
    """A result of a fuzz target that violates an invariant, such as a NaN probability."""


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """A fuzz target: hostile bytes may be accepted or rejected with a named error, nothing else.

    ``run`` returns if the input was accepted and raises LamatextError if it was rejected. Any other
    exception, an input that takes more than 5 s or more than 1 GB, and a crash are findings.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()  # dictionary: inserted by mutations
    large_inputs: Sequence[bytes] = field(default=())  # run once, never mutated

    def check(self, data: bytes) -> None:
        """Run one fuzz input; raise only if it is a finding."""
        self.accepts(data)

    def accepts(self, data: bytes) -> bool:
        """Return whether the fuzz target accepted an input; a finding raises its exception."""
        try:
            self.run(data)
        except LamatextError:
            return False
        return True


TARGETS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("csv", "tsv", "jsonl", "parquet", "excel", "fasttext", "lines", "compressed"),
            *("label_folders", "suspects", "probabilities"),
        ),
        "reader_targets",
    ),
    **dict.fromkeys(("tokenizer", "text_encoder", "ngrams", "settings"), "text_targets"),
    **dict.fromkeys(("model_folder", "web_model", "bert_folder"), "model_folder_target"),
    **dict.fromkeys(("http", "http_json"), "http_targets"),
}
"""The module of each fuzz target."""

CAMPAIGNS: dict[str, tuple[str, ...]] = {
    "readers": tuple(name for name, module in TARGETS.items() if module == "reader_targets"),
    "texts": tuple(name for name, module in TARGETS.items() if module == "text_targets"),
    "folders": ("model_folder", "web_model", "bert_folder"),
    "http": ("http", "http_json"),
}
"""The fuzz targets of each fuzzing campaign."""


def load_target(name: str) -> FuzzTarget:
    """Build a fuzz target by name, or by ``MODULE:NAME``; its module is imported only now."""
    module, _, own_name = name.rpartition(":")
    build: Callable[[str], FuzzTarget]
    build = import_module(module or f"hardening.{TARGETS[name]}").build_target
    return build(own_name)
