"""Real clusters for tests: what they are made from, what they saw, and waiting for what they come to."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from chaos.kernel.streams import Streams
from chaos.model.settings import resolve
from clusters.base import LeaderView, Setup
from clusters.brokers.rabbitmq import Rabbitmq
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster


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


async def all_serve(cluster: HostedCluster) -> bool:
    return not any((await cluster.serving()).values())
