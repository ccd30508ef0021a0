"""The frames in which a docker exec's output comes, cut anywhere."""

from __future__ import annotations

import asyncio
import socket

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.hosts.docker import ExecChannel


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"") + b"\n")), st.integers(1, 7))
def test_lines_come_whole_whatever_the_frames(lines: list[bytes], size: int) -> None:
    async def main() -> tuple[list[bytes], str, bytes]:
        ours, engines = socket.socketpair()
        channel = await ExecChannel.open(ours)
        output = b"".join(lines)
        for start in range(0, len(output), size):
            engines.sendall(frame(1, output[start : start + size]) + frame(2, b"!"))
        channel.write(b"hello")
        await channel.close()
        engines.shutdown(socket.SHUT_WR)
        read = []
        while line := await channel.readline():
            read.append(line)
        said = engines.recv(100)
        engines.close()
        return read, channel.complaints(), said

    read, complaints, said = asyncio.run(main())
    assert read == lines
    assert set(complaints) <= {"!"}
    assert said == b"hello"
