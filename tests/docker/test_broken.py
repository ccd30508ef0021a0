"""Environments that are broken, or break amid a run: one clear line, exit 255, and nothing left of the run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.model.errors import SplitbrainError
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster
from clusters.hosts import docker, owner
from clusters.hosts.base import Image
from clusters.hosts.docker import DockerHosts
from clusters.hosts.engine import DEFAULT, engine
from tests.docker.cli import Started, fault, made_by, running, splitbrain, wait
from tests.docker.cluster import Seen, new_run, setup

pytestmark = pytest.mark.docker

RUN = ("run", "--broker", "rabbitmq-quorum", "--on", "docker")
PARTITION = fault("partition", "one", "one", clients=False, service=None)


@pytest.mark.parametrize(
    ("host", "why"),
    [("unix:///nowhere/docker.sock", "No such file or directory"), ("tcp://127.0.0.1:1", "Connection refused")],
)
def test_no_engine(tmp_path: Path, host: str, why: str) -> None:
    done = splitbrain(tmp_path, *RUN, DOCKER_HOST=host)
    said = [line for line in done.stderr.splitlines() if line.startswith("splitbrain: ")]
    assert done.returncode == 255
    assert said == [
        f"splitbrain: error: no Docker engine answers at {host} ({why}); start one (Debian: apt-get install docker.io, "
        "then dockerd), or run on the simulated cluster"
    ]


def remove_a_container(run: Started) -> None:
    run.container("n2").remove(force=True)


def stop_a_container(run: Started) -> None:
    run.container("n2").kill()


def kill_an_agent(run: Started) -> None:
    run.container("n2").exec_run(["pkill", "-9", "-f", "clusters.agent"])


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (remove_a_container, "splitbrain: error: n2: its container is gone: something else stopped or removed it"),
        (stop_a_container, "splitbrain: error: n2: its container is gone: something else stopped or removed it"),
        (kill_an_agent, "splitbrain: error: n2: its agent is gone"),
    ],
)
def test_a_node_that_is_lost_amid_a_run(tmp_path: Path, break_it: Any, said: str) -> None:
    with running(tmp_path, faults=[PARTITION]) as run:
        run.wait_for_faults(1)
        break_it(run)
        assert run.end() == (255, said)
        assert made_by(run.run) == []
        store = ("--store", str(run.store))
        assert said.partition("error: ")[2] in splitbrain(tmp_path, "show", run.run, *store).stdout
        checked = splitbrain(tmp_path, "check", run.run, *store)
        assert checked.returncode == 2
        assert f"the run itself failed: {said.partition('error: ')[2]}" in checked.stdout


def test_an_engine_that_goes_away_amid_a_run(tmp_path: Path) -> None:
    """The engine is behind a door that the test shuts; what it holds can only be removed when it is open again."""
    with Door(tmp_path / "docker.sock") as door, running(tmp_path, faults=[PARTITION], DOCKER_HOST=door.address) as run:
        run.wait_for_faults(1)
        door.shut()
        code, said = run.end()
        assert code == 255
        assert "the Docker engine does not answer any more (No such file or directory)" in said
        assert f"what the run made cannot be removed (`splitbrain clean {run.run}` does, later)" in said
        assert len(made_by(run.run)) == 4
        store = ("--store", str(run.store))
        assert len(splitbrain(tmp_path, "clean", run.run, *store).stdout.splitlines()) == 4
        assert made_by(run.run) == []


class Door:
    """A socket that leads to the engine until it is shut."""

    def __init__(self, path: Path) -> None:
        self.address = f"unix://{path}"
        self._path = path
        self._open: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Door:
        self._listening.bind(str(self._path))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shut()

    def shut(self) -> None:
        self._path.unlink(missing_ok=True)
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.socket(socket.AF_UNIX)
                theirs.connect(os.environ.get("DOCKER_HOST", DEFAULT).removeprefix("unix://"))
                self._open += [ours, theirs]
                for one, other in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        ("16k", "n1: its broker ended while it started (exit code 1)"),
        ("40m", "the cluster does not serve after 15 s: n1: a publish was not confirmed: no answer in 5 s"),
    ],
)
def test_a_disk_that_is_full(monkeypatch: pytest.MonkeyPatch, size: str, problem: str) -> None:
    """The folder of the broker's data has no room to begin with, or less than RabbitMQ wants to have free."""
    api = type(engine().api)
    made = api.create_host_config

    def small(self: Any, **options: Any) -> Any:
        return made(self, **options, tmpfs={"/var/lib/rabbitmq/mnesia": f"size={size},mode=1777"})

    monkeypatch.setattr(api, "create_host_config", small)
    run, seen = new_run(), Seen()
    given = setup(run, seen, nodes=1)
    broker = RabbitmqQuorum("4.0", given.settings)
    cluster = HostedCluster(given, DockerHosts(run, broker.image()), broker, up_limit=15)
    with pytest.raises(SplitbrainError) as raised:
        asyncio.run(cluster.up(print))
    assert str(raised.value) == problem
    assert any(line.startswith("n1: ") for line in raised.value.tail)
    assert made_by(run) == []


@contextlib.asynccontextmanager
async def another_of_the_same_id(monkeypatch: pytest.MonkeyPatch, process: str) -> AsyncIterator[DockerHosts]:
    """A second run under the id of one that is up, and has all that is its own when the second one is down."""
    run = new_run()
    image = RabbitmqQuorum("4.0", {}).image()
    first, second = DockerHosts(run, image), DockerHosts(run, image)
    try:
        await first.prepare(print)
        await first.up(["n1"], print)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(owner, "me", lambda: process)
            yield second
            await second.down()
        assert made_by(run) == [f"splitbrain-{run}-n1", f"splitbrain-{run}"]
        await first.down()
    finally:
        assert docker.clean(run) == []


def test_another_run_of_the_same_id_keeps_what_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are of a second and a seed: two stores can come to the same."""

    async def main() -> None:
        async with another_of_the_same_id(monkeypatch, owner.me()) as second:
            with pytest.raises(
                SplitbrainError,
                match=f"there is a network splitbrain-{second.run} already: another run of the same",
            ):
                await second.up(["n1"], print)

    asyncio.run(main())


def test_what_another_process_made_of_the_same_id_in_the_same_moment_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine lets both make a network of one name, when they ask at once."""

    async def main() -> None:
        async with another_of_the_same_id(monkeypatch, "host/space/1/2") as second:
            second._client, second._made = engine(), True

    asyncio.run(main())


@pytest.fixture
def slow_image(tmp_path: Path) -> Iterator[Image]:
    """An image whose build takes minutes, and says something meanwhile."""
    run = new_run()
    lines = ("ARG BASE", "FROM ${BASE}", f"RUN for i in $(seq 300); do echo {run}; sleep 1; done")
    (tmp_path / "Dockerfile").write_text("\n".join(lines))
    yield Image(str(tmp_path), f"splitbrain/{run}", "debian:trixie-slim")
    assert [image for image in engine().images.list() if any(run in tag for tag in image.tags)] == []


def building(image: Image) -> list[str]:
    """Containers in which the image is being built."""
    name = image.tag.rpartition("/")[2]
    return [one["Id"] for one in engine().api.containers(all=True) if name in one["Command"]]


def test_a_build_that_is_interrupted_leaves_no_container(slow_image: Image) -> None:
    async def main() -> None:
        preparing = asyncio.ensure_future(DockerHosts(new_run(), slow_image).prepare(print))
        await asyncio.to_thread(wait, lambda: building(slow_image), "build")
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing

    asyncio.run(main())
    wait(lambda: not building(slow_image), "end of the build", 20)
