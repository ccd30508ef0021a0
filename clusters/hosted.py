"""A hosted cluster: hosts times a broker. Real nodes, each with our agent; clients over the network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.schedule import (
    ABILITIES,
    CRASH_LOOP,
    CUT,
    DAMAGE,
    DISK_SLOW,
    NODE_STOP,
    OWN_DISK,
    POWER_OFF,
    STARVE,
    Action,
)
from clusters.agent.link import AgentLink
from clusters.base import (
    LOG,
    PLAIN,
    QUEUE,
    Counts,
    Held,
    Injected,
    LeaderView,
    QueueOptions,
    Setup,
    Undone,
    Unknown,
)
from clusters.brokers.base import ALL, BROKER, CLIENTS, REPORTER, Broker
from clusters.catching import Catching, Lag
from clusters.hosts.base import Host, Hosts
from clusters.hosts.containers import ContainerHosts
from clusters.hosts.docker import DockerHosts
from clusters.hosts.inventory import inventory
from clusters.hosts.ssh import SshHosts
from clusters.links import LINKS, arguments

KINDS = (DOCKER, SSH) = ("docker", "ssh")  # of hosts
SILENT = (NODE_STOP, POWER_OFF)  # the node is gone from the network too
LIMITS = {STARVE: ("cpu", "memory"), DISK_SLOW: ("io",)}  # verbs that need control groups, with these controllers
DISK_SIZE = 512 << 20  # bytes of the disk beneath a broker's data, where there is one of ours
PROBE = "splitbrain.serving"  # a queue of ours: what shows that a node serves must not turn up among the workload's
UP = 120.0  # seconds that a broker may take to serve
LOG_LIMIT = 16 << 20  # bytes kept of a log
_ANSWER = 5  # seconds that a publish may take while serving
_PROBES = {QUEUE: "publish", LOG: "append"}  # what shows that a node serves, by the kind of client
_LINES = 200  # lines never normal that are kept of a node
_TAIL = 30
_BEHIND = ("unsynchronised", "receive_snapshot")  # roles of replicas that are
_STALE = 10**9  # ns after which a claim to lead, not made again, is over
# What an agent, or the way to it, tells of itself: as f and error of a row in the history.
NOTICED: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str]]] = {
    "session": lambda event: ("session", f"{event['why']}; found again after {event['seconds']:g} s"),
    "silence": lambda event: ("watchdog", f"nothing was heard of the controller for {event['seconds']:g} s"),
    "undone": lambda event: ("watchdog", f"{event['fault']} undone unasked: {_said(event)}"),
}
_TOOLS = {"python3": "3.11 or newer, for our agent"}
_LOOK_FOR = """
for tool; do command -v "$tool" > /dev/null || [ -e "$tool" ] || echo "$tool"; done
if command -v python3 > /dev/null; then python3 -c 'import sys; sys.version_info < (3, 11) and print("python3")'; fi
echo looked
"""


class HostedCluster:
    """Implements `clusters.base.Cluster`. `up_limit`: seconds that the nodes may take to serve."""

    def __init__(self, setup: Setup, hosts: Hosts, broker: Broker, up_limit: float = UP) -> None:
        self.nodes = tuple(f"n{number}" for number in range(1, setup.nodes + 1))
        self.services = tuple(broker.services)
        self.serves = tuple(getattr(broker, "serves", (QUEUE,)))
        self._setup, self._hosts_, self._broker, self._up_limit = setup, hosts, broker, up_limit
        self._anatomy = broker.anatomy
        self._hosts: dict[str, Host] = {}
        self._agents: dict[str, AgentLink] = {}
        hidden = () if broker.anatomy.data else (*OWN_DISK, DAMAGE)
        unknown = dict.fromkeys(hidden, "where the broker has its data is not known")
        self._unable: dict[str, str] = {**unknown, **hosts.refused(), **broker.unable}
        self._instead: dict[str, None] = {}  # arguments of shape that are done by dropping packets
        self._versions: dict[str, str] = {}
        self._queues: list[str] = []
        self._claims: dict[str, LeaderView] = {}  # scope: who says that it leads, in the newest term
        self._injected: dict[str, list[tuple[str, tuple[str, ...]]]] = {}  # fault: its (verb, nodes), in order
        self._noted: dict[tuple[str, int], None] = {}  # what was noticed, and at which revision
        self._lives: dict[str, int] = {}  # in which life a broker answered last,
        self._began: dict[str, int] = {}  # and since when
        self._lag, self._catching = Lag(), Catching()
        self._early: dict[str, str] = {}  # nodes whose broker ended before the cluster was up, and how
        self._serves = False
        self._broken: str | None = None
        self._looking: dict[str, asyncio.Task[None]] = {}

    # ---- life

    def abilities(self) -> Mapping[str, str | None]:
        return {one: self._unable.get(one) for one in ABILITIES}

    async def up(self, report: Callable[[str], None]) -> None:
        begun = time.monotonic()
        steps: list[tuple[str, float]] = []

        async def step(name: str, work: Awaitable[None]) -> None:
            start = time.monotonic()
            await work
            steps.append((name, time.monotonic() - start))

        try:
            self._broker.ready()
            await step("image", self._prepare(report))
            await step("containers", self._containers(report))
            await step("agents", self._all(self._agent))
            await step("start", self._all(self._start))
            await step("listening", self._patiently(self._listening))
            await step("formed", self._patiently(self._formed))
            await step("serving", self._patiently(self._serving_at_first))
            await self._all(self._follow)
            if any(verb in OWN_DISK for verb in self._setup.verbs):
                await self._all(self._settle)
        except BaseException as error:
            tail = error.tail if isinstance(error, SplitbrainError) else ()
            if isinstance(error, SplitbrainError) and not tail:
                error.tail = tuple(await self._tails(self._early or self.nodes))
            await self.down()
            raise
        self._serves = True
        breakdown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in steps)
        report(f"{len(self.nodes)} nodes serve after {time.monotonic() - begun:.1f} s ({breakdown})")

    async def down(self) -> None:
        agents, self._agents = self._agents, {}
        await asyncio.gather(*(agent.close() for agent in agents.values()), return_exceptions=True)
        if not self._setup.keep:
            await self._hosts_.down()

    def versions(self) -> Mapping[str, str]:
        return dict(self._versions)

    async def _prepare(self, report: Callable[[str], None]) -> None:
        self._versions.update(await self._hosts_.prepare(report))

    async def _containers(self, report: Callable[[str], None]) -> None:
        self._hosts = {host.name: host for host in await self._hosts_.up(self.nodes, report)}

    async def _agent(self, node: str) -> None:
        host = self._hosts[node]
        if lacks := await _missing(host, {**_TOOLS, **self._broker.needs}):
            where = f"image {self._setup.image}" if self._setup.image else "it"
            raise SplitbrainError(f"{host.label} has no {', no '.join(lacks)}; {where} must have that")
        agent = AgentLink(
            node,
            await host.agent(),
            self._setup.clock,
            lambda event: self._pushed(node, event),
            lambda why: self._agent_ended(node, why),
        )
        self._agents[node] = agent
        await agent.open()
        for do, told in host.first:
            await agent.call(do, **told)
        able = await agent.call("abilities")
        self._instead.update(dict.fromkeys(able["instead"]))
        unable = able["unable"]
        self._unable = {**{verb: f"{host.label}: {why}" for verb, why in unable.items() if why}, **self._unable}
        await self._data(agent)
        await self._limits(agent)
        await agent.put(self._broker.files(node, self.nodes))
        for name, command in self._broker.commands(node, self.nodes).items():
            await agent.call(
                "process", name=name, argv=command.argv, env={**command.env, **host.env}, user=command.user,
                output=command.output, clock=command.clock, restart=command.restart,
            )  # fmt: skip
        for name, one in self._anatomy.daemons.items():
            await agent.call("daemon", name=name, comm=one.comm, argv=one.argv, env=dict(one.env), user=one.user)

    async def _data(self, agent: AgentLink) -> None:
        """Where the broker keeps its data; on a disk of ours if that is to be hurt, for which it is still empty."""
        folder, user = self._anatomy.data, self._anatomy.user
        if folder is None:
            return
        await agent.call("data", folder=folder)
        if any(verb in OWN_DISK for verb in self._setup.verbs):
            why = (await agent.call("disk", folder=folder, user=user, size=DISK_SIZE, timeout=60))["unable"]
            self._unable.update({verb: f"{agent.node}: no disk of its own: {why}" for verb in OWN_DISK if why})

    async def _follow(self, node: str) -> None:
        """Have those lines of its log pushed that somebody waits for."""
        if self._setup.lines:
            paths, patterns = list(self._broker.logs(node)), list(self._setup.lines)
            await self._agents[node].call("follow", paths=paths, patterns=patterns)

    async def _settle(self, node: str) -> None:
        """What a broker wrote while it started, and did not sync, is on the disk soon enough of any that has run for a
        while; here a fault may come sooner."""
        await self._agents[node].call("settle", timeout=60)

    async def _limits(self, agent: AgentLink) -> None:
        """Whether processes can be held to so much here, if that is planned."""
        for verb, controllers in LIMITS.items():
            if verb in self._setup.verbs:
                why = (await agent.call("limits", controllers=controllers))["unable"]
                self._unable.update({verb: f"{agent.node}: {why}"} if why else {})

    async def _start(self, node: str) -> None:
        agent, broker = self._agents[node], self._broker
        await agent.call("sample", path=broker.reporter(), question="views", period=broker.sample)
        for name, command in broker.commands(node, self.nodes).items():
            if command.after is not None:
                await self._answered(node, command.after)
            await agent.call("start", name=name)

    async def _answered(self, node: str, question: str) -> None:
        """Wait until the node's reporter has an answer. Raises SplitbrainError when it takes too long."""
        deadline = time.monotonic() + self._up_limit
        while True:
            try:
                await self._agents[node].call("ask", question=question)
                return
            except SplitbrainError:
                if self._broken or self._early or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def _listening(self, node: str) -> str | None:
        port = self._broker.services[CLIENTS][0]
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(self._hosts[node].address, port), 2)
        except (OSError, TimeoutError):
            return f"nothing answers on port {port}"
        writer.close()
        return None

    async def _formed(self, node: str) -> str | None:
        try:
            answer = (await self._agents[node].call("ask", question="cluster", timeout=2))["answer"]
        except SplitbrainError as error:
            return str(error)
        running, wrong = answer["running"], answer.get("wrong")
        if wrong is not None:
            return str(wrong)
        return None if len(running) == len(self.nodes) else f"it sees {', '.join(running) or 'no node'} running"

    async def _serving_at_first(self, node: str) -> str | None:
        if node == self.nodes[0] and PROBE not in self._queues:
            try:
                await self._broker.declare(self._hosts[node].address, PROBE, len(self.nodes))
                self._versions["broker"] = await self._broker.version(self._hosts[node].address)
            except Unknown as error:
                return str(error)
            if (why := self._broker.refuses(self._versions["broker"])) is not None:
                raise SplitbrainError(f"{node} runs {self._versions['broker']}: {why}")
            self._queues.append(PROBE)
        return await self._serves_now(node)

    async def _patiently(self, check: Callable[[str], Awaitable[str | None]]) -> None:
        """Until the check finds nothing wrong anywhere. Raises SplitbrainError when time is up, or a broker ended."""
        deadline = time.monotonic() + self._up_limit
        while True:
            wrong = {node: why for node in self.nodes if (why := await check(node)) is not None}
            if self._broken:
                raise SplitbrainError(self._broken)
            if self._early:
                raise SplitbrainError(
                    "; ".join(f"{node}: its broker ended while it started ({why})" for node, why in self._early.items())
                )
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise SplitbrainError(
                    f"the cluster does not serve after {self._up_limit:g} s: "
                    + "; ".join(f"{node}: {why}" for node, why in wrong.items())
                )
            await asyncio.sleep(0.1)

    async def _all(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(work(node) for node in self.nodes))

    async def _tails(self, nodes: Iterable[str]) -> list[str]:
        """The end of the log of each node, or of what it printed where it has none."""
        lines = []
        for node in nodes:
            for path in self._broker.logs(node) if node in self._hosts else ():
                try:
                    text = (await self._hosts[node].read(path, 20_000)).decode(errors="replace")
                except SplitbrainError:
                    continue
                if text.strip():
                    lines += [f"{node}: {line}" for line in text.splitlines()[-_TAIL:]]
                    break
        return lines

    # ---- use

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        # each through another node, which then leads it where the broker lets whoever declares lead
        first = sum(name != PROBE for name in self._queues) % len(self.nodes)
        problem = ""
        for node in (*self.nodes[first:], *self.nodes[:first]):
            try:
                await self._broker.declare(self._hosts[node].address, queue, len(self.nodes), options)
            except Unknown as error:
                problem = str(error)
            else:
                self._queues.append(queue)
                return
        raise SplitbrainError(f"no node would declare queue {queue!r}: {problem}", tail=await self._tails(self.nodes))

    async def connect(self, node: str, name: str) -> Any:
        return await self._broker.connect(self._hosts[node].address, node, name)

    def newest(self) -> str | None:
        return max(self._began, key=lambda node: (self._began[node], self.nodes.index(node)), default=None)

    async def serving(self) -> Mapping[str, str | None]:
        if self._broker.touch is not None:
            ask = (self._agents[node].call("ask", question=self._broker.touch, timeout=3) for node in self.nodes)
            await asyncio.gather(*ask, return_exceptions=True)  # who does not answer is about to show it
        answers = await asyncio.gather(*(self._serves_now(node) for node in self.nodes))
        return dict(zip(self.nodes, answers, strict=True))

    async def _serves_now(self, node: str) -> str | None:
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
        for queue in self._queues:
            if queue in views and not (state := self._broker.queue_state(node, views[queue])).serves:
                knows = f"knows {state.leader} as leader" if state.leader else "knows no leader"
                return f"its replica of {queue} is in the state {views[queue]['role']}, and {knows}"
        return None

    async def counts(self, queue: str) -> Counts:
        answers = await asyncio.gather(*(self._views(node) for node in self.nodes), return_exceptions=True)
        views = {
            node: answer[queue]
            for node, answer in zip(self.nodes, answers, strict=True)
            if not isinstance(answer, BaseException) and queue in answer
        }
        states = {node: self._broker.queue_state(node, view) for node, view in views.items()}
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
            answer = (await self._agents[node].call("ask", question=self._broker.question, timeout=3))["answer"]
        except (SplitbrainError, KeyError) as error:
            raise Unknown(f"{node} cannot be asked: {error}") from None
        found = {view["scope"]: view for view in answer["views"]}
        if (every := found.pop(ALL, None)) is not None:
            found = {**dict.fromkeys(self._queues, every), **found}
        return found

    # ---- what nodes say by themselves

    def leader(self, scope: str | None = None) -> str | None:
        if scope is None:
            scope = next((one for one in self._kept if one in self._claims), None)
        claim = self._claims.get(scope) if scope is not None else None
        return None if claim is None else claim.node

    def _agent_ended(self, node: str, why: str) -> None:
        self._looking[node] = asyncio.ensure_future(self._look(node, why))

    async def _look(self, node: str, why: str) -> None:
        """An agent ended, and with it all that we know of its node and can do there: say why, while we are up."""
        trouble = await self._hosts[node].trouble() or why
        if self._broken is None and node in self._agents:
            self._broken = f"{node}: {trouble}"
            if self._serves:
                self._setup.observer.broken(self._broken)

    def _pushed(self, node: str, event: Mapping[str, Any]) -> None:
        if node not in self._agents:
            return  # on the way down
        kind = event.get("event")
        if kind == "views" and event["incarnation"] is not None:
            self._answers(node, event["incarnation"])
            for view in event["views"]:
                for scope in self._queues if view["scope"] == ALL else (view["scope"],):
                    if scope in self._kept and scope != PROBE:
                        self._view(node, {**view, "scope": scope}, event)
                        self._syncs(node, {**view, "scope": scope}, event["incarnation"])
        elif kind == "noted":
            at, _ = self._agents[node].offset.to_run(event["at"])
            for one in event["noted"]:
                if (seen := (one["what"], one["revision"])) not in self._noted:  # by another node's, it may be
                    self._noted[seen] = None
                    self._setup.observer.noticed(node, at, one["what"], one["words"])
        elif kind == "exit" and event.get("process") != REPORTER:
            at, _ = self._agents[node].offset.to_run(event["at"])
            reason, asked = event["reason"], event["asked"]
            if not self._serves and not asked:
                self._early[node] = reason
            if (process := event.get("process", BROKER)) != BROKER:
                reason = f"{process}: {reason}"
            if reason in self._broker.retires:
                asked = True
            if reason in self._broker.exits:
                reason = f"{reason}: {self._broker.exits[reason]}"
            self._setup.observer.exited(node, event["incarnation"], at, reason, asked)
        elif kind is not None and kind in NOTICED:
            at = self._agents[node].offset.to_run(event["at"])[0] if "at" in event else self._setup.clock.now()
            self._setup.observer.noticed(node, at, *NOTICED[kind](event))
        elif kind == "line":
            self._setup.observer.logged(node, event["line"])

    def _answers(self, node: str, life: int) -> None:
        """A broker answers, in that life of its process."""
        if self._lives.get(node) != life:
            self._lives[node] = life
            self._began[node] = self._setup.clock.now()

    @property
    def _kept(self) -> list[str]:
        """The scopes of the views that are kept."""
        return [*self._queues, *self._broker.scopes]

    def _view(self, node: str, data: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        # By the broker's own stamps, which lie closer; by the agent's where those make no sense.
        asked, answered = data["asked"], data["answered"]
        if not event["asked"] <= asked <= answered <= event["at"]:
            asked, answered = event["asked"], event["at"]
        asked, uncertainty = self._agents[node].offset.to_run(asked)
        answered, _ = self._agents[node].offset.to_run(answered)
        view = LeaderView(
            data["scope"], node, data["role"], data.get("term"), asked - uncertainty, answered + uncertainty,
            event["incarnation"], reign=data.get("reign"),
        )  # fmt: skip
        if view.role == "leader" and self._succeeds(view):
            self._claims[view.scope] = view
        self._setup.observer.leader(view)

    def _syncs(self, node: str, data: Mapping[str, Any], life: int) -> None:
        """Whether a replica begins to catch up, or has, by what it says of itself and its leader of itself."""
        scope, role, now = data["scope"], data["role"], self._setup.clock.now()
        behind = role in _BEHIND
        if "commit" in data and role == "leader":
            self._lag.leads(scope, data["commit"], now)
        elif "applied" in data:
            behind = behind or self._lag.behind(scope, data["applied"], now)
        if (begins := self._catching.seen(scope, node, life, behind, now)) is not None:
            self._setup.observer.synchronising(scope, node, not begins)

    def _succeeds(self, view: LeaderView) -> bool:
        """Whether one that says that it leads is the one to go by. Of two without terms it is the first, for as long
        as that one says so."""
        before = self._claims.get(view.scope)
        if before is None or before.node == view.node:
            return True
        if view.term is None:
            return before.answered < view.asked - _STALE
        return view.term >= (before.term or 0)

    # ---- faults

    async def inject(self, fault: str, action: Action) -> Injected:
        for needed in action.needs():
            if why := self.abilities().get(needed, "no such verb"):
                raise SplitbrainError(f"{needed} cannot be done here: {why}")
        if action.verb in LINKS:
            work = arguments(action, self._broker.services, self._address, list(self._instead))
        else:
            for node in action.nodes:
                self._known(node)
            work = {node: self._work(action, node) for node in action.nodes}
        # in the ledger first: an inject that failed half way is undone like any other
        self._injected.setdefault(fault, []).append((action.verb, tuple(work)))

        async def one(node: str) -> dict[str, Any]:
            return await self._agents[node].call(
                "inject", fault=fault, verb=action.verb, process=action.process, args=work[node]
            )

        done = dict(zip(work, await _whole(one(node) for node in work), strict=True))
        return Injected(
            {node: answer["at"] for node, answer in done.items()},
            "; ".join(f"{node}: {answer['evidence']}" for node, answer in done.items()),
        )

    async def undo(self, fault: str) -> Undone:
        actions = self._injected.get(fault, [])
        nodes = list(dict.fromkeys(node for _, nodes in actions for node in nodes))
        answers = await _whole(self._agents[node].call("undo", fault=fault, timeout=60) for node in nodes)
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
            rules = arguments(Action(CUT, (node,), {"links": links}), self._broker.services, self._address)
            outward = [{"direction": "out", "peer": self._address(other, node), "ports": []} for other in others]
            return {**args, "rules": rules[node]["rules"] + outward}
        if action.verb == DAMAGE:
            known = self._anatomy.files
            if (what := args.pop("what", None)) is not None and what not in known:
                raise SplitbrainError(f"damage: the broker keeps no {what!r}; {did_you_mean(what, known)}")
            return {**args, "patterns": [*known.values()] if what is None else [known[what]]}
        return args

    def _known(self, node: str) -> str:
        if node not in self._agents:
            raise SplitbrainError(f"no node {node!r}; known: {', '.join(self.nodes)}")
        return node

    def address(self, node: str) -> str:
        """Where clients reach a node. Raises SplitbrainError for one that is not there."""
        return self._hosts[self._known(node)].address

    def _address(self, end: str, seen_by: str) -> str:
        """Where a node, or the clients, are for another node. Raises SplitbrainError for an end that is not there."""
        if end != CLIENTS:
            return self._hosts[self._known(end)].inside
        if (controller := self._hosts[self._known(seen_by)].controller) is None:
            raise SplitbrainError("clients cannot be cut off: the controller's own address is not known")
        return controller

    def held(self) -> Sequence[Held]:
        return ()

    # ---- logs

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        async def one(node: str) -> None:
            (directory / node).mkdir(parents=True, exist_ok=True)
            odd = 0
            for path in self._broker.logs(node):
                try:
                    data = await self._hosts[node].read(path, LOG_LIMIT)
                except SplitbrainError as error:  # the others' logs are wanted all the more
                    data = f"{error}\n".encode()
                if not data:
                    continue
                (directory / node / path.rpartition("/")[2]).write_bytes(data)
                for line in data.decode(errors="replace").splitlines():
                    if odd < _LINES and self._broker.never_normal.search(line):
                        odd += 1
                        found.append((node, line))

        await asyncio.gather(*(one(node) for node in self._hosts))
        return sorted(found, key=lambda item: item[0])


def _said(event: Mapping[str, Any]) -> str:
    """What came of an undo."""
    return str(event.get("error") or "; ".join(probe["evidence"] for probe in event["probes"]) or "nothing to see")


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
    if on == SSH:
        return HostedCluster(setup, SshHosts(setup.run, inventory(setup.hosts), broker), broker)
    if on != DOCKER:
        raise BadInput(f"cluster.on: no hosts of kind {on!r}; {did_you_mean(on, KINDS)}")
    if setup.hosts:
        return HostedCluster(setup, ContainerHosts(setup.run, setup.hosts, broker), broker)
    return HostedCluster(setup, DockerHosts(setup.run, setup.image or broker.image(), setup.verbs), broker)
