"""Faults of links, packets, processes, clocks, disks and machines, on hosts over SSH: they bite as in containers, and
are undone."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from chaos.model.schedule import (
    CLOCK,
    CRASH_LOOP,
    CUT,
    DAMAGE,
    DISK_FULL,
    DISK_READ_ONLY,
    DISK_SLOW,
    KILL,
    LOSS,
    NODE_STOP,
    OWN_DISK,
    PAUSE,
    POWER_OFF,
    SHAPE,
    STARVE,
    STOP,
    Action,
)
from clusters.agent.verbs import FAULTS
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster
from clusters.hosts.inventory import understand
from tests.docker.cluster import Seen, new_run, serve, setup, until
from tests.ssh.machines import VERSION, Machines

pytestmark = pytest.mark.docker

SECOND = 10**9
SEEN = Seen()
AROUND = [["n1", "n2"], ["n2", "n1"], ["n1", "n3"], ["n3", "n1"]]
# Side by side, as far as they leave each other's node alone; then the rest.
ACTIONS = [
    [
        Action(LOSS, ("n1",), {"links": AROUND, "probability": 0.5}),
        Action(PAUSE, ("n2",)),
        Action(CLOCK, ("n3",), {"offset": 20 * SECOND}),
    ],
    [Action(CUT, ("n1",), {"links": AROUND, "service": "replication"}), Action(STOP, ("n3",))],
    [Action(CUT, ("n1",), {"links": AROUND}), Action(KILL, ("n2",))],
    [
        Action(SHAPE, ("n1",), {"links": AROUND, "loss": 0.2, "duplicate": 0.2, "rate": 4000}),
        Action(STARVE, ("n2",), {"cpu": 0.01}),
        Action(DISK_SLOW, ("n3",), {"rate": 200_000}),
    ],
    [Action(STARVE, ("n1",), {"memory": 512 << 10}), Action(DISK_FULL, ("n2",), {"restart": True})],
    [Action(CRASH_LOOP, ("n2",), {"times": 2})],
    [Action(DISK_READ_ONLY, ("n1",)), Action(NODE_STOP, ("n3",))],
]
# The last of all: RabbitMQ writes some files without syncing them, and of a damaged one it says so and stays down.
LAST = [
    Action(POWER_OFF, ("n2",)),
    Action(DAMAGE, ("n3",), {"how": "flip", "what": "wal", "files": 1, "draw": 7}),
]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def cluster(hosts: Machines, loop: asyncio.Runner) -> Iterator[HostedCluster]:
    told = replace(setup(new_run(), SEEN, version=VERSION), verbs=(*OWN_DISK, STARVE))
    made = RabbitmqQuorum.cluster(replace(told, hosts=understand(tomllib.loads(hosts.inventory()))), "ssh")
    assert isinstance(made, HostedCluster)
    before = hosts.states()
    try:
        loop.run(made.up(print))
        loop.run(made.declare("jobs"))
        yield made
    finally:
        loop.run(made.down())
    assert [now ^ then for now, then in zip(hosts.states(), before, strict=True)] == [set(), set(), set()]


def test_each_bites(cluster: HostedCluster, loop: asyncio.Runner) -> None:
    async def main() -> None:
        able = {verb for verb in FAULTS if cluster.abilities()[verb] is None}
        assert {action.verb for actions in ACTIONS for action in actions} <= able
        for number, actions in enumerate(ACTIONS):
            begun = len(SEEN.exits)
            client = await cluster.connect("n1", "test")
            await asyncio.gather(*(cluster.inject(f"{number} {action.verb}", action) for action in actions))
            sent = [asyncio.ensure_future(client.publish("jobs", b"x" * 1000)) for _ in range(100)]
            await asyncio.sleep(3)  # of that, and of the brokers' own traffic
            await client.close()
            await asyncio.gather(*sent, return_exceptions=True)
            if actions[0].verb == CRASH_LOOP:
                await until(partial(ended, begun + 2))
            for action in reversed(actions):
                undone = await cluster.undo(f"{number} {action.verb}")
                assert undone.bit is True, (action.verb, undone.evidence)
            await serve(cluster, 90)

    async def ended(times: int) -> bool:
        return len(SEEN.exits) >= times

    loop.run(main())


def test_clients_can_be_cut_off_and_our_own_way_in_stays_open(cluster: HostedCluster, loop: asyncio.Runner) -> None:
    async def main() -> None:
        client = await cluster.connect("n2", "test")
        links = [["clients", "n2"], ["n2", "clients"]]
        await cluster.inject("clients", Action(CUT, ("n2",), {"links": links}))
        publish = asyncio.ensure_future(client.publish("jobs", b"x"))
        done, _ = await asyncio.wait([publish], timeout=2)
        assert not done
        assert (await cluster._nodes.agents["n2"].call("abilities", timeout=5))["unable"]["cut"] is None
        assert (await cluster.undo("clients")).bit is True
        await asyncio.wait_for(publish, 30)
        await client.close()
        await serve(cluster)

    loop.run(main())


def test_power_and_damage(cluster: HostedCluster, loop: asyncio.Runner) -> None:
    async def main() -> None:
        for action in LAST:
            await cluster.inject(action.verb, action)
        for action in LAST:
            undone = await cluster.undo(action.verb)
            assert undone.bit is True, (action.verb, undone.evidence)

    loop.run(main())
