"""Real clusters for tests: what they are made from, what they saw, and waiting for what they come to."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chaos.kernel.streams import Streams
from chaos.model.settings import resolve
from clusters.base import LeaderView, Setup
from clusters.brokers.rabbitmq import Rabbitmq
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster
from clusters.hosts import docker
from clusters.hosts.engine import engine
from tests.docker.inside import run_in


class RealClock:
    virtual = False

    def __init__(self) -> None:
        self._begun = time.monotonic_ns()

    def now(self) -> int:
        return time.monotonic_ns() - self._begun


class Seen:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.views: list[LeaderView] = []
        self.exits: list[tuple[str, int, str, bool]] = []
        self.broke: list[str] = []
        self.noted: list[tuple[str, str, str]] = []
        self.synced: list[tuple[str, str, bool]] = []
        self.lines: list[tuple[str, str]] = []

    def leader(self, view: LeaderView) -> None:
        self.views.append(view)

    def exited(self, node: str, incarnation: int, time: int, reason: str, asked: bool) -> None:
        self.exits.append((node, incarnation, reason, asked))

    def noticed(self, node: str, time: int, what: str, words: str) -> None:
        self.noted.append((node, what, words))

    def synchronising(self, scope: str, node: str, over: bool) -> None:
        self.synced.append((scope, node, over))

    def logged(self, node: str, line: str) -> None:
        self.lines.append((node, line))

    def broken(self, why: str) -> None:
        self.broke.append(why)


@dataclass
class World:
    """A cluster that is up, for the tests of a module, and what it has shown of itself."""

    cluster: HostedCluster
    seen: Seen
    given: Setup
    loop: asyncio.Runner

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    def container(self, node: str) -> Any:
        return engine().containers.get(f"splitbrain-{self.given.run}-{node}")

    def shell(self, node: str, line: str) -> str:
        _, said = run_in(self.container(node), "sh", "-c", line)
        return said.strip()


@contextmanager
def up(of: Any, given: Setup, *queues: str) -> Iterator[World]:
    """A cluster of a broker with these queues, in containers; it leaves nothing behind."""
    cluster, seen = of.cluster(given, "docker"), given.observer
    assert isinstance(cluster, HostedCluster)
    assert isinstance(seen, Seen)
    with asyncio.Runner() as loop:
        try:
            loop.run(cluster.up(print))
            for queue in queues:
                loop.run(cluster.declare(queue))
            yield World(cluster, seen, given, loop)
        finally:
            loop.run(cluster.down())
    assert docker.clean(given.run) == [], "down left nothing"


def new_run() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


def setup(
    run: str,
    seen: Seen,
    nodes: int = 3,
    version: str | None = None,
    of: type[Rabbitmq] = RabbitmqQuorum,
    **settings: Any,
) -> Setup:
    options = resolve(of.settings, settings, "cluster.settings")
    return Setup(run, "rabbitmq-quorum", version, nodes, options, RealClock(), Streams(1), seen)


async def until(check: Callable[[], Awaitable[Any]], patience: float = 60) -> Any:
    """What `check` gives, once it is true."""
    end = time.monotonic() + patience
    while not (found := await check()):
        assert time.monotonic() < end, f"not within {patience} s"
        await asyncio.sleep(0.1)
    return found


async def serve(cluster: HostedCluster, patience: float = 60) -> None:
    """Waits until every node serves; fails with what each says that does not."""
    try:
        await until(lambda: all_serve(cluster), patience)
    except AssertionError as late:
        raise AssertionError(f"{late}: {await cluster.serving()}") from None


async def all_serve(cluster: HostedCluster) -> bool:
    return not any((await cluster.serving()).values())
