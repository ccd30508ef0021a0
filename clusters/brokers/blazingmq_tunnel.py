"""The one way of a client library to its node: through a port of our own loopback, and only once.

A library that reconnects by itself would hide from the history that a connection was lost, and might send again what we
have given up. Here there is nothing that it could reconnect to. And a library that insists on a name for the address
that it dials, as BlazingMQ's does, gets one that every machine has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

_CHUNK = 1 << 16


class Tunnel:
    """One TCP connection to a node, for whoever dials `port` of 127.0.0.1 first. `lost` is called once, with the
    reason, when it ended and was not closed by us."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self.port = 0
        self._lost = lost
        self._closed = False
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: list[asyncio.Task[None]] = []

    @staticmethod
    async def open(address: str, port: int, lost: Callable[[str], None]) -> Tunnel:
        """Connect to the node, and wait on loopback. Raises OSError."""
        tunnel = Tunnel(lost)
        there = await asyncio.open_connection(address, port)
        tunnel._writers.append(there[1])
        try:
            tunnel._server = await asyncio.start_server(lambda *here: tunnel._bridge(here, there), "127.0.0.1", 0)
        except BaseException:
            tunnel.close()
            raise
        tunnel.port = tunnel._server.sockets[0].getsockname()[1]
        return tunnel

    def close(self) -> None:
        """End it, both ways."""
        self._closed = True
        self._end()

    async def _bridge(
        self,
        here: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        if self._pumps or self._closed:
            here[1].close()
            return
        if self._server is not None:
            self._server.close()
        self._writers.append(here[1])
        self._pumps = [
            asyncio.ensure_future(self._pump(here[0], there[1], "closed by the client library")),
            asyncio.ensure_future(self._pump(there[0], here[1], "closed by the broker")),
        ]

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, why: str) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                target.write(data)
                await target.drain()
        if not self._closed:
            self._closed = True
            self._lost(why)
        self._end()

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        for pump in self._pumps:
            if pump is not asyncio.current_task():
                pump.cancel()
