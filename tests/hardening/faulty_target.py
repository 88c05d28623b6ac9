"""Fuzz targets with planted faults, for the tests of the fuzz driver."""

import ctypes
import time

from hardening.fuzz_target import FindingError, FuzzTarget
from lamatext.errors import DataError


def build_target(name: str) -> FuzzTarget:
    seeds = [b"fine", b"reject", name.encode(), b"fine as well"]
    return FuzzTarget(name, run, seeds)


def run(data: bytes) -> None:
    match data:
        case b"reject":
            raise DataError("no")
        case b"exception":
            raise KeyError("planted")
        case b"invariant":
            raise FindingError("planted: 1")
        case b"crash":
            ctypes.string_at(0)
        case b"hang":
            time.sleep(60)
        case b"memory":
            bytearray(2 << 30)
