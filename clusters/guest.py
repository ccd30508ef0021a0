"""The hosts of a broker of the user's own: nothing on them is ours but the agent, which hurts it where it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from chaos.model.schedule import CLOCK, CRASH_LOOP, DAMAGE, MEMBERS, OWN_DISK, STARVE
from clusters.base import PLAIN, Client, QueueOptions, Setup
from clusters.brokers.base import BROKER, CLIENTS, Anatomy, Broker, Command, QueueState
from clusters.hosted import HostedCluster
from clusters.hosts.base import Bare, File, Image
from clusters.hosts.inventory import inventory


class Guest(Broker):
    """A broker like `like` that somebody else started, whose clients use these ports."""

    ours: ClassVar[bool] = False
    settings = ()
    versions = ()
    never_normal = re.compile(r"(?!)")
    unable: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*OWN_DISK, DAMAGE), "its data are its owner's, and stay where they are"),
        **dict.fromkeys((CRASH_LOOP, STARVE, CLOCK), "only a process that we start ourselves can be held so"),
        **dict.fromkeys(MEMBERS, "who belongs to it is its owner's to say"),
    }

    def __init__(self, like: Broker, ports: Sequence[int]) -> None:
        self.services = {**like.services, CLIENTS: tuple(ports)}
        process = like.anatomy.process
        assert process is not None, "a broker that can be somebody's own says how its process is found"
        found = {**like.anatomy.daemons, BROKER: replace(process, ports=tuple(ports))}
        self.anatomy = Anatomy(found)  # type: ignore[misc]

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        return ()

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        return {}

    def logs(self, node: str) -> Sequence[str]:
        return ()

    def image(self) -> Image:
        raise NotImplementedError("its hosts are there")

    def reporter(self) -> str:
        raise NotImplementedError("it has none of ours")

    async def connect(self, address: str, node: str, name: str) -> Client:
        raise NotImplementedError("its clients go to its own addresses")

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        raise NotImplementedError("its clients go to its own addresses")

    async def version(self, address: str) -> str:
        raise NotImplementedError("its clients go to its own addresses")

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        raise NotImplementedError("it has no reporter of ours")

    def bare(self, addresses: Mapping[str, str]) -> Bare:
        """It is there, and nothing is moved."""
        return Bare(packages=(), needs={}, version=(), units=(), ports=(), folders=(), data=(), users=())


def hosts_of(setup: Setup, broker: Broker, ports: Sequence[int]) -> HostedCluster:
    """Those of a broker like `broker` whose clients use these ports: `up` puts our agents there, and no more."""
    from clusters.hosts.ssh import SshHosts  # whoever has no hosts pays for no SSH

    guest = Guest(broker, ports)
    return HostedCluster(setup, SshHosts(setup.run, inventory(setup.hosts["ssh"]), guest, setup.verbs), guest)
