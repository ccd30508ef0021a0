"""A client of a simulated node that appends to streams and reads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from clusters.base import Entry, Failed, Start, Unknown
from clusters.simulated.channel import PUBLISH
from clusters.simulated.client import SimulatedClient
from clusters.simulated.network import Message
from clusters.simulated.stream.channel import CANCEL, ENTRIES, GRANT, READ


class SimulatedLogClient(SimulatedClient):
    """Implements `clusters.base.LogClient`."""

    def append(self, log: str, body: bytes) -> Awaitable[int | None]:
        return self._ask(PUBLISH, log, body)

    async def read(self, log: str, start: Start, credit: int, deliver: Callable[[Entry], None]) -> None:
        self._deliver[self._number + 1] = (log, deliver)
        self._readings[log] = self._number + 1
        try:
            await self._ask(READ, log, start, credit)
        except Failed as error:
            self._readings.pop(log, None)
            raise Unknown(str(error)) from None

    def grant(self, entry: Entry) -> None:
        if self._gone is None:
            self._number += 1
            self._connection.send(0, (GRANT, self._number, entry.log, entry.tag, 1))

    async def stop(self, log: str) -> None:
        number = self._readings.pop(log, None)
        if number is not None:
            del self._deliver[number]
            await self._ask(CANCEL, log, number)

    def _made(self) -> None:
        self._readings: dict[str, int] = {}  # by log: its number
        self._deliver: dict[int, tuple[str, Callable[[Entry], None]]] = {}

    def _other(self, message: Message) -> None:
        tag, number, items = message
        assert tag == ENTRIES
        if number in self._deliver:
            log, deliver = self._deliver[number]
            for offset, body in items:
                deliver(Entry(log, offset, body, number))
