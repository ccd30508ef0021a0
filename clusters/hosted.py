"""A hosted cluster: hosts times a broker. Real nodes, each with our agent; clients over the network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.schedule import (
    ABILITIES,
    CRASH_LOOP,
    CUT,
    DAMAGE,
    MEMBERS,
    NODE_STOP,
    OWN_DISK,
    POWER_OFF,
    SHRINK,
    Action,
)
from clusters.base import PLAIN, Counts, Held, Injected, QueueOptions, Setup, Undone, Unknown
from clusters.brokers.base import CLIENTS, REPORTER, Broker
from clusters.hosted_nodes import PROBE, Nodes
from clusters.hosted_start import UP, Start
from clusters.hosted_watch import Watch
from clusters.hosts.base import Hosts
from clusters.hosts.inventory import inventory
from clusters.links import LINKS, arguments

KINDS = (DOCKER, SSH) = ("docker", "ssh")  # of hosts
SILENT = (NODE_STOP, POWER_OFF)  # the node is gone from the network too
INJECTED = 55.0  # seconds that a change of members may take: a node that leaves does so in order
LOG_LIMIT = 16 << 20  # bytes kept of a log
_LINES = 200  # lines never normal that are kept of a node


class HostedCluster:
    """Implements `clusters.base.Cluster`. `up_limit`: seconds that the nodes may take to serve."""

    def __init__(self, setup: Setup, hosts: Hosts, broker: Broker, up_limit: float = UP) -> None:
        self._setup, self._hosts, self._broker = setup, hosts, broker
        self._nodes = Nodes(setup, broker)
        self.nodes, self.serves = self._nodes.names, self._nodes.serves
        self.services = tuple(broker.services)
        started = (name for name in broker.commands(self.nodes[0], self.nodes) if name != REPORTER)
        self.processes = tuple(sorted({*started, *broker.anatomy.daemons}))
        self._watch = Watch(self._nodes)
        self._start = Start(self._nodes, hosts, self._watch, up_limit)
        hidden = () if broker.anatomy.data else (*OWN_DISK, DAMAGE)
        unknown = dict.fromkeys(hidden, "where the broker has its data is not known")
        self._never: dict[str, str] = {**unknown, **hosts.refused(), **broker.unable}  # verbs, whatever the nodes
        self._injected: dict[str, list[tuple[str, tuple[str, ...]]]] = {}  # fault: its (verb, nodes), in order

    # ---- life

    def abilities(self) -> Mapping[str, str | None]:
        unable = {**self._start.unable, **self._never}
        return {one: unable.get(one) for one in ABILITIES}

    async def up(self, report: Callable[[str], None]) -> None:
        try:
            await (self._start.up(report) if self._broker.ours else self._start.reach(report))
        except BaseException as error:
            if isinstance(error, SplitbrainError) and not error.tail:
                error.tail = tuple(await self._nodes.tails(self._watch.early or self.nodes))
            await self.down()
            raise
        self._watch.serving = True

    async def down(self) -> None:
        agents, self._nodes.agents = self._nodes.agents, {}
        await asyncio.gather(*(agent.close() for agent in agents.values()), return_exceptions=True)
        if not self._setup.keep:
            await self._hosts.down()

    def versions(self) -> Mapping[str, str]:
        return dict(self._start.versions)

    # ---- use

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        # each through another node, which then leads it where the broker lets whoever declares lead
        first = sum(name != PROBE for name in self._nodes.queues) % len(self.nodes)
        problem = ""
        for node in (*self.nodes[first:], *self.nodes[:first]):
            try:
                await self._broker.declare(self._nodes.hosts[node].address, queue, len(self.nodes), options)
            except Unknown as error:
                problem = str(error)
            else:
                self._nodes.queues.append(queue)
                return
        raise SplitbrainError(
            f"no node would declare queue {queue!r}: {problem}", tail=await self._nodes.tails(self.nodes)
        )

    async def connect(self, node: str, name: str) -> Any:
        return await self._nodes.connect(node, name)

    def leader(self, scope: str | None = None) -> str | None:
        return self._watch.leader(scope)

    def newest(self) -> str | None:
        return self._watch.newest()

    async def serving(self) -> Mapping[str, str | None]:
        if self._broker.touch is not None:
            ask = (self._nodes.agents[node].call("ask", question=self._broker.touch, timeout=3) for node in self.nodes)
            await asyncio.gather(*ask, return_exceptions=True)  # who does not answer is about to show it
        answers = await asyncio.gather(*(self._nodes.serves_now(node) for node in self.nodes))
        return dict(zip(self.nodes, answers, strict=True))

    async def counts(self, queue: str) -> Counts:
        return await self._nodes.counts(queue)

    def held(self) -> Sequence[Held]:
        return ()

    # ---- faults

    async def inject(self, fault: str, action: Action) -> Injected:
        for needed in action.needs():
            if why := self.abilities().get(needed, "no such verb"):
                raise SplitbrainError(f"{needed} cannot be done here: {why}")
        if action.verb in LINKS:
            work = arguments(action, self._broker.services, self._nodes.address, list(self._start.instead))
        else:
            for node in action.nodes:
                self._nodes.known(node)
            work = {node: self._work(action, node) for node in action.nodes}
        # in the ledger first: an inject that failed half way is undone like any other
        self._injected.setdefault(fault, []).append((action.verb, tuple(work)))

        async def one(node: str) -> dict[str, Any]:
            return await self._nodes.agents[node].call(
                "inject", fault=fault, verb=action.verb, process=action.process, args=work[node], timeout=patience
            )

        patience = INJECTED if action.verb in MEMBERS else 15
        done = dict(zip(work, await _whole(one(node) for node in work), strict=True))
        for node, answer in done.items() if action.verb == SHRINK else ():
            self._watch.removed(node, answer["at"])
        return Injected(
            {node: answer["at"] for node, answer in done.items()},
            "; ".join(f"{node}: {answer['evidence']}" for node, answer in done.items()),
        )

    async def undo(self, fault: str) -> Undone:
        actions = self._injected.get(fault, [])
        nodes = list(dict.fromkeys(node for _, nodes in actions for node in nodes))
        answers = await _whole(self._nodes.agents[node].call("undo", fault=fault, timeout=60) for node in nodes)
        self._injected.pop(fault, None)
        bits: dict[tuple[str, str], list[bool]] = {}
        evidence = []
        for node, answer in zip(nodes, answers, strict=True):
            for probe in answer["probes"]:
                evidence.append(f"{node}: {probe['evidence']}")
                for part, bit in (probe.get("parts") or {"": probe["bit"]}).items():
                    if bit is not None:
                        bits.setdefault((probe["verb"], part), []).append(bit)
        # Links bite if packets were hurt at either end, in every way; anything else must have bitten on each node.
        whole = all(any(seen) if verb in LINKS else all(seen) for (verb, _), seen in bits.items()) if bits else None
        times = {node: answer["at"] for node, answer in zip(nodes, answers, strict=True)}
        return Undone(times, whole, "; ".join(evidence))

    def _work(self, action: Action, node: str) -> dict[str, Any]:
        """What a node's agent is told of an action, with what only the broker, or the network, knows."""
        args = dict(action.args)
        if action.verb == CRASH_LOOP:
            return {**args, "port": self._broker.services[CLIENTS][0]}
        if action.verb in SILENT:
            others = [other for other in self.nodes if other != node]
            links = [link for other in (*others, CLIENTS) for link in ([node, other], [other, node])]
            rules = arguments(Action(CUT, (node,), {"links": links}), self._broker.services, self._nodes.address)
            outward = [{"direction": "out", "peer": self._nodes.address(other, node), "ports": []} for other in others]
            return {**args, "rules": rules[node]["rules"] + outward}
        if action.verb in MEMBERS:
            return {**args, **self._broker.membership(action.verb, node, self.nodes)}
        if action.verb == DAMAGE:
            known = self._broker.anatomy.files
            if (what := args.pop("what", None)) is not None and what not in known:
                raise SplitbrainError(f"damage: the broker keeps no {what!r}; {did_you_mean(what, known)}")
            return {**args, "patterns": [*known.values()] if what is None else [known[what]]}
        return args

    def address(self, node: str) -> str:
        """Where clients reach a node. Raises SplitbrainError for one that is not there."""
        return self._nodes.hosts[self._nodes.known(node)].address

    # ---- logs

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        async def one(node: str) -> None:
            (directory / node).mkdir(parents=True, exist_ok=True)
            odd = 0
            for path in self._broker.logs(node):
                try:
                    data = await self._nodes.hosts[node].read(path, LOG_LIMIT)
                except SplitbrainError as error:  # the others' logs are wanted all the more
                    data = f"{error}\n".encode()
                if not data:
                    continue
                (directory / node / path.rpartition("/")[2]).write_bytes(data)
                for line in data.decode(errors="replace").splitlines():
                    if odd < _LINES and self._broker.never_normal.search(line):
                        odd += 1
                        found.append((node, line))

        await asyncio.gather(*(one(node) for node in self._nodes.hosts))
        return sorted(found, key=lambda item: item[0])


async def _whole(calls: Iterable[Coroutine[Any, Any, dict[str, Any]]]) -> list[dict[str, Any]]:
    """All calls, side by side, each to its end even where another fails. Raises the first failure then."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    done = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        done.append(answer)
    return done


def hosted(setup: Setup, on: str, broker: Broker) -> HostedCluster:
    """The broker on hosts of the kind `on`. Raises BadInput when there is no such kind."""
    # Each kind is imported where it is wanted: whoever simulates pays for no SDK of an engine and no SSH.
    if on == SSH:
        from clusters.hosts.ssh import SshHosts

        return HostedCluster(setup, SshHosts(setup.run, inventory(setup.hosts), broker, setup.verbs), broker)
    if on != DOCKER:
        raise BadInput(f"cluster.on: no hosts of kind {on!r}; {did_you_mean(on, KINDS)}")
    if setup.hosts:
        from clusters.hosts.containers import ContainerHosts

        return HostedCluster(setup, ContainerHosts(setup.run, setup.hosts, broker, setup.verbs), broker)
    from clusters.hosts.docker import DockerHosts

    return HostedCluster(setup, DockerHosts(setup.run, setup.image or broker.image(), setup.verbs), broker)
