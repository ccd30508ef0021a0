"""A cluster of simulated nodes, behind the same interface as a real one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.virtual import VirtualLoop
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.op import REMOVED
from chaos.model.schedule import ABILITIES, LEAVE, MEMBERS, NODE_STOP, POWER_OFF, REPLACE, STOP, WIPE, Action
from chaos.model.trace import ROLE
from clusters.base import (
    PLAIN,
    Counts,
    Held,
    Injected,
    LeaderView,
    QueueOptions,
    Setup,
    Undone,
    Unknown,
)
from clusters.catching import Catching
from clusters.simulated import faults, membership
from clusters.simulated.channel import Channel
from clusters.simulated.distribution import HANDSHAKE, Distribution
from clusters.simulated.network import CLIENTS, Network
from clusters.simulated.node import DOWN, UP, Born, Node
from clusters.simulated.protocol import Protocol
from clusters.simulated.raft.member import Raft
from clusters.simulated.replica import EXIT, Effect, Replica
from clusters.simulated.tracing import TracedNetwork

LEADER = "leader"
BROKER = "broker"
PATIENCE = 60 * SECOND
BETWEEN_LOOKS = 50 * MILLISECOND
CONNECT_TIMEOUT = 5 * SECOND
SYN_RETRY = SECOND
RESTART = 5 * SECOND  # a supervisor's pause before it starts again what ended by itself (`restart_delay`)


class SimulatedCluster:
    """Nodes on `setup.clock`, which must be the VirtualLoop that everything runs on."""

    def __init__(self, setup: Setup, protocol: type[Protocol]) -> None:
        if not isinstance(setup.clock, VirtualLoop):
            raise SplitbrainError("a simulated cluster lives in virtual time, and this clock is real")
        options = setup.settings
        self.loop = loop = setup.clock
        self.protocol = protocol(setup.version, options)
        self.services, self.processes = self.protocol.services, (BROKER, *self.protocol.helpers)
        self.serves = tuple(self.protocol.serves)
        self.network = self._network(setup)
        self.nodes = tuple(f"n{number}" for number in range(1, setup.nodes + 1))
        self.by_name = {
            name: Node(name, self, loop, self.network, setup.streams, options["fsync_time"]) for name in self.nodes
        }
        self.held_down: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        self.held_still: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        self._distribution = Distribution(loop, self.network, self.by_name, self.protocol.patience)
        self._boot_time = options["boot_time"]
        self._heartbeat = options["heartbeat"]
        self._observer = setup.observer
        self._syncs, self._catching = setup.syncs, Catching()
        for node in self.by_name.values() if setup.lines else ():
            node.hears = self._hears(node.name, [re.compile(line) for line in setup.lines])
        self._queues: dict[str, tuple[str, ...]] = {}
        self._views: dict[str, dict[str, tuple[str, int, int]]] = {}  # queue -> node -> role, term, incarnation
        self._undo: dict[str, list[tuple[tuple[str, ...], faults.Undo | membership.Undo]]] = {}
        self._dark: dict[str, None] = {}  # machines without power

    # --- the cluster, as `clusters.base.Cluster` describes it

    def abilities(self) -> Mapping[str, str | None]:
        fixed = {verb: why for verb in MEMBERS if (why := self.protocol.fixed) is not None}
        return {verb: fixed.get(verb, faults.UNABLE.get(verb)) for verb in ABILITIES}

    async def up(self, report: Callable[[str], None]) -> None:
        report(f"{len(self.nodes)} simulated nodes start")
        for node in self.by_name.values():
            self.start(node)
        await self._until(lambda: not any(self._why_not(name) for name in self.nodes), "the nodes do not come up")
        if self._syncs:
            self._look_who_is_behind()

    async def down(self) -> None:
        self.network.recording = None
        for node in self.by_name.values():
            if node.state != DOWN:
                node.die("the run is over")

    def versions(self) -> Mapping[str, str]:
        return {"broker": f"{self.protocol.name} {self.protocol.version}, simulated"}

    async def declare(self, queue: str, options: QueueOptions = PLAIN) -> None:
        if queue not in self._queues:
            self.protocol.declared[queue] = options
            members = self.protocol.members(queue, self.nodes, len(self._queues))
            self._queues[queue] = members
            self._views[queue] = {}
            for name in members:
                self.by_name[name].keep(queue, name == members[0], Born(members))
        await self._until(lambda: self.serving_leader(queue) is not None, f"queue {queue!r} has no leader")

    async def connect(self, node: str, name: str) -> Any:
        there = self.by_name[node]
        deadline = self.loop.now() + CONNECT_TIMEOUT
        while self.loop.now() < deadline:
            if node not in self._dark and self.network.passable(CLIENTS, node, CLIENTS):
                if there.state != UP:
                    await self._sleep(2 * self.network.link(CLIENTS, node, CLIENTS).latency())
                    raise Unknown(f"{node} refused the connection")
                await self._sleep(sum(self.network.link(CLIENTS, node, CLIENTS).latency() for _ in range(HANDSHAKE)))
                if there.state == UP and not there.paused and self.network.passable(CLIENTS, node, CLIENTS):
                    patience, beat = self._heartbeat, self._heartbeat // 2
                    connection = self.network.connect(CLIENTS, node, CLIENTS, patience, beat, caller=name)
                    there.accept(connection)
                    return self.protocol.client(node, connection, self.loop)
            await self._sleep(SYN_RETRY)
        raise Unknown(f"{node} did not answer in time")

    async def inject(self, fault: str, action: Action) -> Injected:
        if action.verb in MEMBERS:
            change = membership.of(self, fault, action)
            self._undo.setdefault(fault, []).append((action.nodes, change.undo))
            shown = await change.inject()
        else:
            shown, undo = faults.inject(self, fault, action)
            self._undo.setdefault(fault, []).append((action.nodes, undo))
        return Injected(dict.fromkeys(action.nodes, self.loop.now()), shown)

    async def undo(self, fault: str) -> Undone:
        times: dict[str, int] = {}
        bits, shown = [], []
        for nodes, undo in reversed(self._undo.pop(fault, [])):
            done = undo()
            bit, evidence = done if isinstance(done, tuple) else await done
            bits.append(bit)
            shown.append(evidence)
            times.update(dict.fromkeys(nodes, self.loop.now()))
        return Undone(times, all(bits) if bits else None, "; ".join(shown))

    def leader(self, scope: str | None = None) -> str | None:
        scopes = list(self._queues)[:1] if scope is None else [scope]
        claims = [
            (term, node)
            for name in scopes
            for node, (role, term, _) in self._views.get(name, {}).items()
            if role == LEADER
        ]
        return max(claims, default=(0, None), key=lambda claim: claim[0])[1]

    def newest(self) -> str | None:
        begun = {name: node.started for name, node in self.by_name.items() if node.state != DOWN}
        return max(begun, key=lambda name: (begun[name], self.nodes.index(name)), default=None)

    async def serving(self) -> Mapping[str, str | None]:
        """A node serves when it is up and connected, and each of its replicas follows a leader that has committed in
        its term, and has what that leader has applied: a publish would now be confirmed."""
        return {name: self._why_not(name) for name in self.nodes}

    async def counts(self, queue: str) -> Counts:
        leader = self.serving_leader(queue)
        if leader is None:
            raise Unknown(f"queue {queue!r} has no leader")
        ready, unacked = self.protocol.counts(leader)
        members = self._queues[queue]
        serving = sum(self._replica_problem(name, queue, leader) is None for name in members)
        return Counts(ready, unacked, serving, len(members))

    def held(self) -> Sequence[Held]:
        found = []
        for queue, members in self._queues.items():
            for name in members:
                replica = self.replica(self.by_name[name], queue)
                bodies = None if replica is None else self.protocol.contents(replica, queue)
                if bodies is not None:
                    found.append(
                        Held(queue, name, len(bodies), blake2b(repr(bodies).encode(), digest_size=8).hexdigest())
                    )
        return found

    async def collect(self, directory: Path) -> Sequence[tuple[str, str]]:
        directory.mkdir(parents=True, exist_ok=True)
        for node in self.by_name.values():
            (directory / f"{node.name}.log").write_text("".join(line + "\n" for line in node.log), encoding="utf-8")
        return [(node.name, line) for node in self.by_name.values() for line in node.errors]

    # --- what faults do

    def process(self, node: str, process: str) -> Node:
        """A process on a machine. Raises BadInput where there is none of that name."""
        if process != BROKER:
            raise BadInput(f"a simulated node has no process {process!r}; known: {BROKER}")
        return self.by_name[node]

    def start(self, node: Node) -> None:
        """Start a node's broker, its machine first if need be."""
        self._dark.pop(node.name, None)
        node.start(self._boot_time)

    def take_down(self, node: Node, verb: str) -> int:
        """Kill, stop, power off or wipe. Returns how many writes were lost."""
        if verb in (STOP, NODE_STOP, LEAVE) and not node.paused:
            node.event(node.stop)
        node.die({POWER_OFF: "loses its power", NODE_STOP: "is shut down"}.get(verb, f"is ended ({verb})"))
        lost = 0
        if verb in (POWER_OFF, NODE_STOP):
            self._dark[node.name] = None
            lost = node.disk.power_off() if verb == POWER_OFF else 0
            self.network.vanish(node.name)
        else:
            self.network.close(node.name)
        if verb in (WIPE, LEAVE, REPLACE):
            lost = node.disk.wipe()
        self.held_still[node.name].clear()
        self._gone(node, verb)
        return lost

    def queues(self) -> tuple[str, ...]:
        """Those that were declared."""
        return tuple(self._queues)

    def regroup(self, queue: str, members: tuple[str, ...]) -> None:
        """These keep a queue now."""
        self._queues[queue] = members

    def forget(self, node: Node, queue: str) -> None:
        """A node keeps a queue no more."""
        node.forget(queue)
        role, term, _ = self._views[queue].get(node.name, (REMOVED, 0, 0))
        if role != REMOVED:
            self.believes(node, queue, REMOVED, term)

    def serving_leader(self, queue: str) -> Replica | None:
        """The replica that leads in the newest term, if it can be asked and serves."""
        leader, newest = None, -1
        for name in self._queues[queue]:
            node = self.by_name[name]
            replica = self.replica(node, queue)
            if node.state == UP and not node.paused and replica is not None:
                term = self.protocol.leads(replica)
                if term is not None and term > newest:
                    leader, newest = replica, term
        return leader

    # --- what a node is told by, as `clusters.simulated.node.Surroundings` describes it

    def members(self, queue: str) -> tuple[str, ...] | None:
        return self._queues.get(queue)

    def make_replica(self, queue: str, node: str) -> Replica:
        born = self.by_name[node].queues[queue]
        replica = self.protocol.replica(queue, node, born.members)
        if isinstance(replica, Raft):
            replica.since = born.since
        return replica

    def make_channel(self, node: Node, number: int) -> Channel:
        return self.protocol.channel(node, number)

    def believes(self, node: Node, queue: str, role: str, term: int) -> None:
        belief = (role, term, node.incarnation)
        views = self._views[queue]
        if views.get(node.name) != belief:
            views[node.name] = belief
            now = self.loop.now()
            node.say("info", f"queue {queue}: {role}, term {term}")
            known = term if self.protocol.terms else None
            node.note(ROLE, role, known, queue)
            self._observer.leader(LeaderView(queue, node.name, role, known, now, now, node.incarnation, exact=True))

    def replica(self, node: Node, queue: str) -> Replica | None:
        """The replica on a node that keeps a queue."""
        return node.replicas.get(queue)

    def served(self, node: Node) -> None:
        self._distribution.reach_out(node.name)

    def carry_out(self, node: Node, effect: Effect) -> None:
        if effect[0] != EXIT:
            raise NotImplementedError(f"{self.protocol.name} asks for what nobody can do: {effect}")
        why = f"exits with {effect[1]}: {effect[2]}"
        node.die(why)
        self.network.close(node.name)
        self._gone(node, why)
        node.start(self.protocol.options.get("restart_delay", RESTART) + self._boot_time)

    # --- inside

    def _look_who_is_behind(self) -> None:
        for queue, members in self._queues.items():
            leader = self.serving_leader(queue)
            for name in members if leader is not None else ():
                node = self.by_name[name]
                replica = self.replica(node, queue)
                if node.state == UP and not node.paused and replica is not None and leader is not None:
                    behind = not self.protocol.follows(replica, leader)
                    begins = self._catching.seen(queue, name, node.incarnation, behind, self.loop.now())
                    if begins is not None:
                        node.say("info", f"queue {queue}: {'begins to catch up' if begins else 'has caught up'}")
                        self._observer.synchronising(queue, name, not begins)
        self.loop.at(self.loop.now() + BETWEEN_LOOKS, self._look_who_is_behind)

    def _hears(self, node: str, lines: Sequence[re.Pattern[str]]) -> Callable[[str], None]:
        def hears(said: str) -> None:
            if any(line.search(said) for line in lines):
                self._observer.logged(node, said)

        return hears

    def _network(self, setup: Setup) -> Network:
        times = self.protocol.options["latency"], self.protocol.options["jitter"]
        if setup.recording is None:
            return Network(self.loop, setup.streams, *times)
        return TracedNetwork(self.loop, setup.streams, *times, setup.recording, self.protocol.tell)

    def _gone(self, node: Node, why: str) -> None:
        """A broker's process has ended, as a fault or its own protocol would have it: neither is a crash."""
        for queue in node.queues:
            _, term, _ = self._views[queue].get(node.name, ("", 0, 0))
            self.believes(node, queue, DOWN, term)
        self._observer.exited(node.name, node.incarnation, self.loop.now(), why, True)

    async def _sleep(self, time: int) -> None:
        await asyncio.sleep(time / SECOND)

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = self.loop.now() + PATIENCE
        while not condition():
            if self.loop.now() >= deadline:
                tail = [line for node in self.by_name.values() for line in list(node.log)[-3:]]
                raise SplitbrainError(f"{problem} within {PATIENCE // SECOND} s", tail=tail)
            await self._sleep(BETWEEN_LOOKS)

    def _replica_problem(self, name: str, queue: str, leader: Replica) -> str | None:
        node = self.by_name[name]
        replica = self.replica(node, queue)
        if node.state != UP or node.paused or replica is None:
            return "standing still" if node.paused else node.state
        return None if self.protocol.follows(replica, leader) else f"its replica of {queue!r} is behind"

    def _why_not(self, name: str) -> str | None:
        node = self.by_name[name]
        if node.state != UP or node.paused:
            return "standing still" if node.paused else node.state
        apart = [other for other in self.nodes if other != name and not node.is_connected(other)]
        if apart:
            return f"not connected to {', '.join(apart)}"
        links = [self.network.link(CLIENTS, name, CLIENTS), self.network.link(name, CLIENTS, CLIENTS)]
        if any(link.cuts for link in links):
            return "cut off from clients"
        for queue, members in self._queues.items():
            leader = self.serving_leader(queue)
            if leader is None:
                return f"queue {queue!r} has no leader"
            if name in members and (problem := self._replica_problem(name, queue, leader)) is not None:
                return problem
        return None
