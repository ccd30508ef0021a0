"""Faults of links, packets, processes and clocks, on hosts over SSH: they bite as in containers, and are undone."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from chaos.model.schedule import CLOCK, CUT, KILL, LOSS, PAUSE, SHAPE, STOP, Action
from clusters.agent.verbs import FAULTS
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster
from clusters.hosts.inventory import understand
from tests.docker.cluster import Seen, all_serve, new_run, setup, until
from tests.ssh.machines import VERSION, Machines

pytestmark = pytest.mark.docker

SECOND = 10**9
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
    [Action(SHAPE, ("n1",), {"links": AROUND, "loss": 0.5})],
]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def cluster(hosts: Machines, loop: asyncio.Runner) -> Iterator[HostedCluster]:
    told = setup(new_run(), Seen(), version=VERSION)
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
            await asyncio.gather(*(cluster.inject(f"{number} {action.verb}", action) for action in actions))
            await asyncio.sleep(3)  # of the brokers' own traffic
            for action in reversed(actions):
                undone = await cluster.undo(f"{number} {action.verb}")
                assert undone.bit is True, (action.verb, undone.evidence)
            await until(lambda: all_serve(cluster), 90)

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
        await until(lambda: all_serve(cluster))

    loop.run(main())
