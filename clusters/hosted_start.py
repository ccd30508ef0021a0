"""From hosts to brokers that serve: a hosted cluster is provisioned and started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from chaos.model.errors import SplitbrainError
from chaos.model.schedule import LIMITS, OWN_DISK
from clusters.agent.link import AgentLink
from clusters.base import Unable, Unknown
from clusters.brokers.base import BROKER, CLIENTS, Daemon
from clusters.hosted_nodes import PROBE, Nodes
from clusters.hosted_watch import Watch
from clusters.hosts.base import Host, Hosts

DISK_SIZE = 512 << 20  # bytes of the disk beneath a broker's data, where there is one of ours
UP = 120.0  # seconds that a broker may take to serve
_TOOLS = {"python3": "3.11 or newer, for our agent"}
_LOOK_FOR = """
for tool; do command -v "$tool" > /dev/null || [ -e "$tool" ] || echo "$tool"; done
if command -v python3 > /dev/null; then python3 -c 'import sys; sys.version_info < (3, 11) and print("python3")'; fi
echo looked
"""


class Start:
    """Has the nodes serve, and learns on the way what can be done on them. `limit`: seconds that they may take."""

    def __init__(self, nodes: Nodes, hosts: Hosts, watch: Watch, limit: float) -> None:
        self._nodes, self._hosts, self._watch, self._limit = nodes, hosts, watch, limit
        self._setup, self._broker, self._anatomy = nodes.setup, nodes.broker, nodes.broker.anatomy
        self.unable: dict[str, str] = {}  # verbs that cannot be done on some node, and why
        self.instead: dict[str, None] = {}  # arguments of shape that are done by dropping packets
        self.versions: dict[str, str] = {}
        self._begun = 0.0
        self._steps: list[tuple[str, float]] = []  # what took how many seconds

    async def up(self, report: Callable[[str], None]) -> None:
        """Raises SplitbrainError when they do not come to serve; what was made until then is there yet."""
        await self.reach(report)
        all_ = self._nodes.all
        await self._step("start", all_(self._start))
        await self._step("listening", self._patiently(self._listening))
        await self._step("formed", self._patiently(self._formed))
        await self._step("serving", self._patiently(self._serving_at_first))
        await all_(self._follow)
        if any(verb in OWN_DISK for verb in self._setup.verbs):
            await all_(self._settle)
        breakdown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._steps)
        report(f"{len(self._nodes.names)} nodes serve after {time.monotonic() - self._begun:.1f} s ({breakdown})")

    async def reach(self, report: Callable[[str], None]) -> None:
        """Our agents on all hosts. Raises SplitbrainError; Unable for a verb that is planned and cannot be done on some
        node."""
        self._begun = time.monotonic()
        self._broker.ready()
        await self._step("image", self._prepare(report))
        await self._step("containers", self._containers(report))
        await self._step("agents", self._nodes.all(self.agent))
        for verb in self._setup.verbs:
            if (why := self.unable.get(verb)) is not None:
                raise Unable(verb, why)

    async def _step(self, name: str, work: Awaitable[None]) -> None:
        start = time.monotonic()
        await work
        self._steps.append((name, time.monotonic() - start))

    async def _prepare(self, report: Callable[[str], None]) -> None:
        self.versions.update(await self._hosts.prepare(report))

    async def _containers(self, report: Callable[[str], None]) -> None:
        self._nodes.hosts = {host.name: host for host in await self._hosts.up(self._nodes.names, report)}

    async def agent(self, node: str) -> None:
        host = self._nodes.hosts[node]
        if lacks := await _missing(host, {**_TOOLS, **self._broker.needs}):
            where = f"image {self._setup.image}" if self._setup.image else "it"
            raise SplitbrainError(f"{host.label} has no {', no '.join(lacks)}; {where} must have that")
        agent = AgentLink(
            node,
            await host.agent(),
            self._setup.clock,
            lambda event: self._watch.pushed(node, event),
            lambda why: self._watch.agent_ended(node, why),
        )
        self._nodes.agents[node] = agent
        await agent.open()
        for do, told in host.first:
            await agent.call(do, **told)
        able = await agent.call("abilities")
        self.instead.update(dict.fromkeys(able["instead"]))
        unable = able["unable"]
        self.unable = {**{verb: f"{host.label}: {why}" for verb, why in unable.items() if why}, **self.unable}
        await self._data(agent)
        await self._limits(agent)
        await agent.put(self._broker.files(node, self._nodes.names))
        for name, command in self._broker.commands(node, self._nodes.names).items():
            await agent.call(
                "process", name=name, argv=command.argv, env={**command.env, **host.env}, user=command.user,
                output=command.output, clock=command.clock, restart=command.restart,
            )  # fmt: skip
        for name, one in self._anatomy.daemons.items():
            if not self._broker.ours:
                await self._guest(agent, host, name, one)
                continue
            env = {**one.env, **host.env}
            await agent.call("daemon", name=name, comm=one.comm, argv=one.argv, env=env, user=one.user)

    async def _guest(self, agent: AgentLink, host: Host, name: str, one: Daemon) -> None:
        """Find a process that somebody else started. Raises SplitbrainError when the broker itself is not there."""
        try:
            await agent.call("guest", name=name, comm=one.comm, user=one.user, ports=one.ports)
        except SplitbrainError as error:
            if name == BROKER:
                raise SplitbrainError(f"{host.label}: is it the host of that address? {error}") from None

    async def _data(self, agent: AgentLink) -> None:
        """Where the broker keeps its data; on a disk of ours if that is to be hurt, for which it is still empty."""
        folder, user = self._anatomy.data, self._anatomy.user
        if folder is None:
            return
        await agent.call("data", folder=folder)
        if any(verb in OWN_DISK for verb in self._setup.verbs):
            why = (await agent.call("disk", folder=folder, user=user, size=DISK_SIZE, timeout=60))["unable"]
            self.unable.update({verb: f"{agent.node}: no disk of its own: {why}" for verb in OWN_DISK if why})

    async def _follow(self, node: str) -> None:
        """Have those lines of its log pushed that somebody waits for."""
        if self._setup.lines:
            paths, patterns = list(self._broker.logs(node)), list(self._setup.lines)
            await self._nodes.agents[node].call("follow", paths=paths, patterns=patterns)

    async def _settle(self, node: str) -> None:
        """What a broker wrote while it started, and did not sync, is on the disk soon enough of any that has run for a
        while; here a fault may come sooner."""
        await self._nodes.agents[node].call("settle", timeout=60)

    async def _limits(self, agent: AgentLink) -> None:
        """Whether processes can be held to so much here, if that is planned."""
        for verb in self._setup.verbs:
            if verb in LIMITS:
                why = (await agent.call("limits", controllers=LIMITS[verb]))["unable"]
                self.unable.update({verb: f"{agent.node}: {why}"} if why else {})

    async def _start(self, node: str) -> None:
        agent, broker = self._nodes.agents[node], self._broker
        await agent.call("sample", path=broker.reporter(), question="views", period=broker.sample)
        for name, command in broker.commands(node, self._nodes.names).items():
            if command.after is not None:
                await self._answered(node, command.after)
            await agent.call("start", name=name)

    async def _answered(self, node: str, question: str) -> None:
        """Wait until the node's reporter has an answer. Raises SplitbrainError when it takes too long."""
        deadline = time.monotonic() + self._limit
        while True:
            try:
                await self._nodes.agents[node].call("ask", question=question)
                return
            except SplitbrainError:
                if self._watch.broken or self._watch.early or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def _listening(self, node: str) -> str | None:
        port = self._broker.services[CLIENTS][0]
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(self._nodes.hosts[node].address, port), 2)
        except (OSError, TimeoutError):
            return f"nothing answers on port {port}"
        writer.close()
        return None

    async def _formed(self, node: str) -> str | None:
        try:
            answer = (await self._nodes.agents[node].call("ask", question="cluster", timeout=2))["answer"]
        except SplitbrainError as error:
            return str(error)
        running, wrong = answer["running"], answer.get("wrong")
        if wrong is not None:
            return str(wrong)
        return None if len(running) == len(self._nodes.names) else f"it sees {', '.join(running) or 'no node'} running"

    async def _serving_at_first(self, node: str) -> str | None:
        if node == self._nodes.names[0] and PROBE not in self._nodes.queues:
            try:
                await self._broker.declare(self._nodes.hosts[node].address, PROBE, len(self._nodes.names))
                self.versions["broker"] = await self._broker.version(self._nodes.hosts[node].address)
            except Unknown as error:
                return str(error)
            if (why := self._broker.refuses(self.versions["broker"])) is not None:
                raise SplitbrainError(f"{node} runs {self.versions['broker']}: {why}")
            self._nodes.queues.append(PROBE)
        return await self._nodes.serves_now(node)

    async def _patiently(self, check: Callable[[str], Awaitable[str | None]]) -> None:
        """Until the check finds nothing wrong anywhere. Raises SplitbrainError when time is up, or a broker ended."""
        deadline = time.monotonic() + self._limit
        while True:
            wrong = {node: why for node in self._nodes.names if (why := await check(node)) is not None}
            if self._watch.broken:
                raise SplitbrainError(self._watch.broken)
            if self._watch.early:
                raise SplitbrainError(
                    "; ".join(
                        f"{node}: its broker ended while it started ({why})" for node, why in self._watch.early.items()
                    )
                )
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise SplitbrainError(
                    f"the cluster does not serve after {self._limit:g} s: "
                    + "; ".join(f"{node}: {why}" for node, why in wrong.items())
                )
            await asyncio.sleep(0.1)


async def _missing(host: Host, tools: Mapping[str, str]) -> list[str]:
    """What a host does not have of some tools, each with what it is. Raises SplitbrainError."""
    channel = await host.run(("sh", "-c", _LOOK_FOR, "sh", *tools))
    said = []
    while line := (await channel.readline()).decode(errors="replace").strip():
        said.append(line)
    await channel.close()
    if not said or said.pop() != "looked":
        raise SplitbrainError(f"{host.name}: no shell can be run there ({channel.complaints().strip() or 'no answer'})")
    return [f"{tool} ({tools[tool]})" for tool in said]
