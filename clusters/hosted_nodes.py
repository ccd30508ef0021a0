"""The nodes of a hosted cluster, as all of its parts see them: their hosts, their agents, what their broker answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from chaos.model.errors import SplitbrainError
from clusters.agent.link import AgentLink
from clusters.base import LOG, QUEUE, Counts, Setup, Unknown
from clusters.brokers.base import ALL, CLIENTS, Broker
from clusters.hosts.base import Host

PROBE = "splitbrain.serving"  # a queue of ours: what shows that a node serves must not turn up among the workload's
_ANSWER = 5  # seconds that a publish may take while serving
_PROBES = {QUEUE: "publish", LOG: "append"}  # what shows that a node serves, by the kind of client
_TAIL = 30


class Nodes:
    """n1, n2, ... with the broker on each. A host is there once it was taken or made, an agent once it runs."""

    def __init__(self, setup: Setup, broker: Broker) -> None:
        self.setup, self.broker = setup, broker
        self.names = tuple(f"n{number}" for number in range(1, setup.nodes + 1))
        self.serves = tuple(getattr(broker, "serves", (QUEUE,)))
        self.hosts: dict[str, Host] = {}
        self.agents: dict[str, AgentLink] = {}
        self.queues: list[str] = []  # that were declared

    async def all(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(work(node) for node in self.names))

    def known(self, node: str) -> str:
        """That name. Raises SplitbrainError where there is no such node with an agent."""
        if node not in self.agents:
            raise SplitbrainError(f"no node {node!r}; known: {', '.join(self.names)}")
        return node

    def address(self, end: str, seen_by: str) -> str:
        """Where a node, or the clients, are for another node. Raises SplitbrainError for an end that is not there."""
        if end != CLIENTS:
            return self.hosts[self.known(end)].inside
        if (controller := self.hosts[self.known(seen_by)].controller) is None:
            raise SplitbrainError("clients cannot be cut off: the controller's own address is not known")
        return controller

    async def tails(self, nodes: Iterable[str]) -> list[str]:
        """The end of the log of each node, or of what it printed where it has none."""
        lines = []
        for node in nodes:
            for path in self.broker.logs(node) if node in self.hosts else ():
                try:
                    text = (await self.hosts[node].read(path, 20_000)).decode(errors="replace")
                except SplitbrainError:
                    continue
                if text.strip():
                    lines += [f"{node}: {line}" for line in text.splitlines()[-_TAIL:]]
                    break
        return lines

    # ---- asking

    async def connect(self, node: str, name: str) -> Any:
        """As `clusters.base.Cluster`."""
        return await self.broker.connect(self.hosts[node].address, node, name)

    async def serves_now(self, node: str) -> str | None:
        """A confirmed publish, append or write through the node; and every queue's replica there knows a leader."""
        what = next((_PROBES[kind] for kind in self.serves if kind in _PROBES), "write")
        try:
            client = await self.connect(node, "splitbrain serving")
        except Unknown as error:
            return str(error)
        try:
            await asyncio.wait_for(getattr(client, what)(PROBE, b"serving?"), _ANSWER)
        except TimeoutError:
            return f"a {what} was not confirmed: no answer in {_ANSWER} s"
        except (Exception, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return f"a {what} was not confirmed: {str(error) or type(error).__name__}"
        finally:
            await client.close()
        try:
            views = await self._views(node)
        except Unknown as error:
            return str(error)
        for queue in self.queues:
            if queue in views and not (state := self.broker.queue_state(node, views[queue])).serves:
                knows = f"knows {state.leader} as leader" if state.leader else "knows no leader"
                return f"its replica of {queue} is in the state {views[queue]['role']}, and {knows}"
        return None

    async def counts(self, queue: str) -> Counts:
        """As `clusters.base.Cluster`."""
        answers = await asyncio.gather(*(self._views(node) for node in self.names), return_exceptions=True)
        views = {
            node: answer[queue]
            for node, answer in zip(self.names, answers, strict=True)
            if not isinstance(answer, BaseException) and queue in answer
        }
        states = {node: self.broker.queue_state(node, view) for node, view in views.items()}
        terms = {node: views[node].get("term") for node, state in states.items() if state.leader == node}
        if len(terms) > 1 and None in terms.values():
            raise Unknown(f"{queue}: {' and '.join(terms)} lead it, each for itself")
        led = [node for node in terms if states[node].serves]
        if not led:
            raise Unknown(f"{queue}: no node that can be asked leads it")
        leader = states[max(led, key=lambda node: terms[node] or 0)]
        serving = sum(
            node in states and states[node].serves and states[node].leader == leader.leader for node in leader.members
        )
        return Counts(leader.ready, leader.unacked, serving, len(leader.members))

    async def _views(self, node: str) -> dict[str, dict[str, Any]]:
        try:
            answer = (await self.agents[node].call("ask", question=self.broker.question, timeout=3))["answer"]
        except (SplitbrainError, KeyError) as error:
            raise Unknown(f"{node} cannot be asked: {error}") from None
        found = {view["scope"]: view for view in answer["views"]}
        if (every := found.pop(ALL, None)) is not None:
            found = {**dict.fromkeys(self.queues, every), **found}
        return found
