import json
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from hardening.hostile_folders import plan_hostile_folder, read_folder
from hardening.model_folder_target import FORMAT_1, check_model
from hardening.mutation import ByteSource


def test_most_plans_change_the_folder_and_recompute_its_checksums(tmp_path: Path) -> None:
    base = read_folder(FORMAT_1)
    changed = correct = 0

    for number in range(100):
        plan = plan_hostile_folder(base, ByteSource(number.to_bytes(2, "little")))
        changed += plan.files != base or bool(plan.links) or bool(plan.folders)
        correct += has_correct_checksums(plan.files)
        plan.write(tmp_path / "model")

    assert changed > 80
    assert correct > 60


def has_correct_checksums(files: dict[str, bytes]) -> bool:
    try:
        listed = json.loads(files["config.json"])["files"]
        return all(crc32(files[name]) == crc for name, crc in listed.items() if name in files)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def test_an_unchanged_folder_passes_all_checks() -> None:
    check_model(FORMAT_1)


def test_the_mutations_put_infinite_and_missing_numbers_into_the_weights() -> None:
    base = read_folder(FORMAT_1)
    seen: set[str] = set()

    for number in range(3000):
        plan = plan_hostile_folder(base, ByteSource(number.to_bytes(2, "big")))
        for tensor in readable_tensors(plan.files.get("model.safetensors", b"")):
            seen |= {"NaN"} if np.isnan(tensor).any() else set()
            seen |= {"infinity"} if np.isinf(tensor).any() else set()

    assert seen == {"NaN", "infinity"}


def readable_tensors(content: bytes) -> list[NDArray[np.float32]]:
    try:
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError):
        return []
    return [tensor for tensor in tensors.values() if tensor.dtype == np.float32]
