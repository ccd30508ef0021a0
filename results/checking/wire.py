"""What goes over the pipes between whoever asks and a process that judges: pickled, each with its length before it."""

from __future__ import annotations

import os
import pickle
import struct
from typing import Any, BinaryIO

HEAD = struct.Struct("<Q")


def put(descriptor: int, message: Any) -> None:
    """Write one message."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    rest = memoryview(HEAD.pack(len(body)) + body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def take(file: BinaryIO) -> Any:
    """Read the next message. Raises EOFError when there is none."""
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        raise EOFError
    (length,) = HEAD.unpack(head)
    body = file.read(length)
    if len(body) < length:
        raise EOFError
    return pickle.loads(body)
