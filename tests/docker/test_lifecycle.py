"""What cannot come up says why and leaves nothing; what a run made is found by its label, and only that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.client import HTTPResponse
from typing import Any

import pytest
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from chaos.model.errors import SplitbrainError
from clusters.brokers.base import BROKER, Command
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.faults.nftables import TABLE
from clusters.hosted import HostedCluster, hosted
from clusters.hosts import docker
from clusters.hosts.base import Image
from clusters.hosts.docker import LABEL, DockerHosts
from clusters.hosts.engine import engine
from tests.docker.cluster import Seen, new_run, setup
from tests.docker.inside import run_in

pytestmark = pytest.mark.docker


def image() -> Image:
    return RabbitmqQuorum("4.0", {}).image()


def made_by(run: str) -> list[str]:
    api, label = engine().api, {"label": f"{LABEL}={run}"}
    containers = [container["Names"][0].lstrip("/") for container in api.containers(all=True, filters=label)]
    return sorted(containers) + [network["Name"] for network in api.networks(filters=label)]


class Dying(RabbitmqQuorum):
    """Its broker complains and ends at once."""

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        argv = ("/bin/sh", "-c", "echo no license for this machine; exit 3") if node == "n2" else ("sleep", "60")
        return {BROKER: replace(super().commands(node, nodes)[BROKER], argv=argv)}


class Mute(RabbitmqQuorum):
    """Its broker runs, and never answers."""

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        thinking = ("/bin/sh", "-c", "echo thinking; sleep 60")
        return {BROKER: replace(super().commands(node, nodes)[BROKER], argv=thinking)}


@pytest.mark.parametrize(
    ("broker", "problem", "tail"),
    [
        (Dying, "n2: its broker ended while it started (exit code 3)", "n2: no license for this machine"),
        (Mute, "the cluster does not serve after 2 s: n1: nothing answers on port 5672", "n1: thinking"),
    ],
)
def test_a_node_that_never_comes_up(broker: type[RabbitmqQuorum], problem: str, tail: str) -> None:
    run, seen = new_run(), Seen()
    given = setup(run, seen, nodes=2)
    cluster = HostedCluster(given, DockerHosts(run, image()), broker("4.0", given.settings), up_limit=2)
    with pytest.raises(SplitbrainError) as raised:
        asyncio.run(cluster.up(print))
    assert str(raised.value).startswith(problem)
    assert tail in raised.value.tail
    assert made_by(run) == []


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("splitbrain/none:such", "no image 'splitbrain/none:such' on this machine's Docker engine; docker pull or"),
        ("splitbrain/debian:trixie", "n1 has no python3 (3.11 or newer, for our agent), no /usr/lib/rabbitmq/bin/"),
    ],
)
def test_an_image_that_will_not_do(image: str, problem: str) -> None:
    asyncio.run(DockerHosts("", RabbitmqQuorum("4.0", {}).image()).prepare(print))  # has its base made, if need be
    run = new_run()
    given = replace(setup(run, Seen(), nodes=1), image=image)
    with pytest.raises(SplitbrainError) as raised:
        asyncio.run(hosted(given, "docker", RabbitmqQuorum("4.0", given.settings)).up(print))
    assert str(raised.value).startswith(problem)
    assert made_by(run) == []


def test_clean_removes_what_one_run_made_and_only_that() -> None:
    runs = [new_run(), new_run()]

    async def start(run: str) -> None:
        hosts = DockerHosts(run, image())
        await hosts.prepare(print)
        assert [host.name for host in await hosts.up(["n1", "n2"], print)] == ["n1", "n2"]

    try:
        for run in runs:
            asyncio.run(start(run))
        assert sorted(docker.clean(runs[0])) == [
            f"container splitbrain-{runs[0]}-n1",
            f"container splitbrain-{runs[0]}-n2",
            f"network splitbrain-{runs[0]}",
        ]
        assert made_by(runs[1]) == [f"splitbrain-{runs[1]}-{name}" for name in ("n1", "n2")] + [f"splitbrain-{runs[1]}"]
    finally:
        for run in runs:
            docker.clean(run)
    assert [made_by(run) for run in runs] == [[], []]


def test_a_start_that_is_interrupted_leaves_nothing() -> None:
    run = new_run()

    async def main() -> None:
        hosts = DockerHosts(run, image())
        await hosts.prepare(print)
        starting = asyncio.ensure_future(hosts.up(["n1", "n2", "n3"], print))
        await asyncio.sleep(0.2)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())
    assert made_by(run) == []


def test_subnets_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own pools are said to be used up; of ours, the first is taken by another network."""
    taken, free = "10.213.250.0/26", "10.213.251.0/26"
    api = engine().api
    blocker = api.create_network(
        f"splitbrain-{new_run()}",
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=taken)]),
        labels={LABEL: "test-blocker"},
    )
    create = api.__class__.create_network

    def full(self: Any, name: str, *, ipam: Any = None, **rest: Any) -> Any:
        if ipam is None:
            raise APIError("could not find an available, non-overlapping IPv4 address pool among the defaults")
        return create(self, name, ipam=ipam, **rest)

    monkeypatch.setattr(api.__class__, "create_network", full)
    try:
        for subnets, works in (((taken,), False), ((taken, free), True)):
            assert_up(subnets, works, monkeypatch)
    finally:
        api.remove_network(blocker["Id"])


def assert_up(subnets: Sequence[str], works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run()
    monkeypatch.setattr(docker, "SUBNETS", tuple(subnets))

    async def main() -> str:
        hosts = DockerHosts(run, image())
        await hosts.prepare(print)
        try:
            (host,) = await hosts.up(["n1"], print)
        finally:
            await hosts.down()
        return host.address

    if works:
        assert asyncio.run(main()).startswith("10.213.251.")
    else:
        with pytest.raises(SplitbrainError, match="no free subnet for the run's network"):
            asyncio.run(main())
    assert made_by(run) == []


CONTROLLER = """
import asyncio, sys
from clusters.agent.link import COMMAND, AgentLink, sources
from clusters.hosts.docker import DockerHosts
from tests.docker.cluster import RealClock
from tests.docker.test_lifecycle import image

async def main():
    hosts = DockerHosts(sys.argv[1], image())
    await hosts.prepare(lambda line: None)
    (host,) = await hosts.up(["n1"], lambda line: None)
    await host.put(sources())
    agent = AgentLink("n1", await host.run(COMMAND), RealClock(), lambda event: None)
    await agent.open()
    cut = {"rules": [{"direction": "in", "peer": "192.0.2.1"}]}
    await agent.call("inject", fault="f", verb="cut", process="broker", args=cut)
    print("cut", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_controller_that_is_killed_leaves_no_rule_and_clean_the_rest() -> None:
    run = new_run()
    listing = ["nft", "list", "table", "inet", TABLE]
    try:
        with subprocess.Popen([sys.executable, "-c", CONTROLLER, run], stdout=subprocess.PIPE, text=True) as controller:
            assert controller.stdout is not None
            assert controller.stdout.readline() == "cut\n"
            node = engine().containers.get(f"splitbrain-{run}-n1")
            assert "192.0.2.1" in run_in(node, *listing)[1]
            controller.kill()
        end = time.monotonic() + 20
        while node.exec_run(listing).exit_code == 0:
            assert time.monotonic() < end, "the agent did not undo the cut"
            time.sleep(0.05)
    finally:
        assert len(docker.clean(run)) == 2
    assert made_by(run) == []


def test_what_a_command_says_at_once_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this side is slow, output comes together with the head of the engine's answer."""
    begin = HTTPResponse.begin

    def slowly(self: HTTPResponse) -> None:
        time.sleep(0.2)
        begin(self)

    async def main() -> list[bytes]:
        hosts = DockerHosts(new_run(), image())
        await hosts.prepare(print)
        try:
            (host,) = await hosts.up(["n1"], print)
            monkeypatch.setattr(HTTPResponse, "begin", slowly)
            channel = await host.run(("sh", "-c", "echo one; echo two; read last; echo $last"))
            said = [await channel.readline(), await channel.readline()]
            channel.write(b"three\n")
            return [*said, await channel.readline(), await channel.readline()]
        finally:
            monkeypatch.setattr(HTTPResponse, "begin", begin)
            await hosts.down()

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [b"one\n", b"two\n", b"three\n", b""]
