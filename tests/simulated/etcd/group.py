"""A simulated etcd for tests, and a client of it that keeps what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop, run_virtual
from clusters.simulated.etcd.group import BOOT, CLIENTS_OF_ETCD, PEERS, EtcdGroup, Times
from clusters.simulated.etcd.member import ANSWER, UNAVAILABLE
from clusters.simulated.network import Message, Network

T = TypeVar("T")
MACHINES = ("n1", "n2", "n3")


class Unavailable(Exception):
    """What etcd says when it cannot tell whether it was done."""


class Client:
    """A client on a machine, of the process on a machine. `told`: what was sent beside answers, in order."""

    def __init__(self, group: Etcd, source: str, target: str) -> None:
        self.told: list[Message] = []
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._connection = group.network.connect(source, f"{target}/etcd", CLIENTS_OF_ETCD, 1000 * SECOND, SECOND)
        self._connection.receive[0] = self._receive
        group.nodes[target].accept(self._connection)

    def ask(self, kind: int, a: Any, b: Any = None) -> asyncio.Future[Any]:
        self._number += 1
        self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._connection.send(0, (0, "client", (kind, self._number, a, b)))
        return self._waiting[self._number]

    def _receive(self, batch: list[Message]) -> None:
        for _, name, message in batch:
            assert name == "client"
            waiting = self._waiting.pop(message[1], None) if message[0] in (ANSWER, UNAVAILABLE) else None
            if waiting is None:
                self.told.append(message)
            elif message[0] == ANSWER:
                waiting.set_result(message[2])
            else:
                waiting.set_exception(Unavailable(message[2]))


class Etcd(EtcdGroup):
    """Three processes, with what tests do to them."""

    def __init__(self, loop: VirtualLoop, seed: int, times: Times) -> None:
        streams = Streams(seed)
        self.loop = loop
        self.network = Network(loop, streams, 300_000, 100_000)
        super().__init__(MACHINES, loop, self.network, streams, 2 * MILLISECOND, times)

    def start(self, *machines: str) -> None:
        for machine in machines:
            self.nodes[machine].start(BOOT)

    def kill(self, *machines: str) -> None:
        for machine in machines:
            self.nodes[machine].die("is killed")
            self.network.close(f"{machine}/etcd")

    def cut(self, alone: str) -> None:
        for one, other in self._links(alone):
            self.network.link(one, other, PEERS).cut(self.loop.now())

    def mend(self, alone: str) -> None:
        for one, other in self._links(alone):
            self.network.link(one, other, PEERS).mend()

    async def led(self) -> str:
        """The machine that leads, as soon as one does."""
        for _ in range(1000):
            leader = self.leader()
            if leader is not None:
                return leader
            await asyncio.sleep(0.01)
        raise AssertionError("nobody leads")

    def _links(self, alone: str) -> list[tuple[str, str]]:
        others = [machine for machine in MACHINES if machine != alone]
        return [pair for other in others for pair in ((alone, other), (other, alone))]


def simulate(main: Callable[[Etcd], Coroutine[Any, Any, T]], seed: int = 1, times: Times | None = None) -> T:
    """Run `main` on three processes, one of which leads."""

    async def on(loop: VirtualLoop) -> T:
        etcd = Etcd(loop, seed, times or Times())
        etcd.start(*MACHINES)
        await etcd.led()
        return await main(etcd)

    return run_virtual(on)
