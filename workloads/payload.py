"""What a message carries: who it is, who sent it where, and a checksum over all of it.

Layout, big-endian: magic `SB1\\0`, id (int64), producer (uint32), sequence (uint64), length of the queue's name
(uint16), the name in UTF-8, filler up to the wished size, CRC-32 of everything before it.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

_MAGIC = b"SB1\0"
_HEAD = struct.Struct("!4sqIQH")
_SUM = struct.Struct("!I")
SMALLEST = _HEAD.size + _SUM.size


class Foreign(Exception):
    """A message that is not one of ours."""


class Corrupt(Exception):
    """A message that was ours and is damaged. Its argument says how; nothing in it can be believed."""


class Payload(NamedTuple):
    """id: unique per publish attempt. producer: the process that published. sequence: its place among those of the
    worker. queue: where it was sent."""

    id: int
    producer: int
    sequence: int
    queue: str


def encode(payload: Payload, size: int) -> bytes:
    """The body of a message, `size` bytes long, or as long as it must be."""
    name = payload.queue.encode()
    head = _HEAD.pack(_MAGIC, payload.id, payload.producer, payload.sequence, len(name)) + name
    body = head.ljust(size - _SUM.size, b".")
    return body + _SUM.pack(zlib.crc32(body))


def decode(body: bytes) -> Payload:
    """What a body carries. Raises Foreign or Corrupt."""
    if body[:4] != _MAGIC:
        raise Foreign(f"a message of {len(body)} bytes that does not begin as ours do")
    if len(body) < SMALLEST:
        raise Corrupt(f"cut to {len(body)} bytes")
    if zlib.crc32(body[: -_SUM.size]) != _SUM.unpack(body[-_SUM.size :])[0]:
        raise Corrupt(f"checksum of {len(body)} bytes does not match")
    _, id_, producer, sequence, length = _HEAD.unpack_from(body)
    return Payload(id_, producer, sequence, body[_HEAD.size : _HEAD.size + length].decode())
