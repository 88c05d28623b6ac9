"""The port: it is opened, and it is closed so that nobody who came in time is left outside."""

import ctypes
import socket
import struct
import sys
from contextlib import suppress

from lamatext.errors import ConfigError

ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux, which the socket module does not name
# A filter of packets, an instruction a line: load the flags of TCP; where SYN is among them go on,
# otherwise leave out one line; keep nothing of the packet; keep all of it.
DROP_SYN = [(0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF)]


def listen(host: str, port: int) -> socket.socket:
    """An open port; what comes in before the models are loaded waits."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}. "
            "Name another with --host and --port; --port 0 takes any that is free."
        ) from error


def last_guests(door: socket.socket) -> list[socket.socket]:
    """Connections that were made but not yet taken; close the door when you have them."""
    ignore_knocks(door)
    door.setblocking(False)
    guests = []
    with suppress(OSError):  # there is none left, or no room for one
        while True:
            guests.append(door.accept()[0])
    return guests


def ignore_knocks(door: socket.socket) -> None:
    """Leave new connections unanswered, where the system can: they try again and are refused.

    Otherwise one that is made between the last that was taken and the closing would be reset.
    """
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *line) for line in DROP_SYN)
    program = ctypes.create_string_buffer(code, len(code))
    with suppress(OSError):
        filters = struct.pack("HP", len(DROP_SYN), ctypes.addressof(program))
        door.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, filters)
