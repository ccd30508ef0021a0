"""How the members of a simulated cluster change, of those protocols whose replicas are Raft's: as operators do it.

A command of an operator goes to some node, which passes it on to whom it takes for the leader; it takes no time, but
reaches nobody that is out of reach. One that is refused, or not committed, is tried again, at the next node.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.errors import BadInput, SplitbrainError, did_you_mean
from chaos.model.schedule import GROW, LEAVE, REPLACE, SHRINK, TRANSFER, Action
from clusters.simulated.distribution import REPLICATION
from clusters.simulated.node import DOWN, UP, Born, Node
from clusters.simulated.raft.member import Raft
from clusters.simulated.raft.rules import LEADER

if TYPE_CHECKING:
    from clusters.simulated.cluster import SimulatedCluster

Undo = Callable[[], Awaitable[tuple[bool, str]]]  # whether it bit, and what shows it
PATIENCE = 40 * SECOND  # for one change to be committed
LOOK = 20 * MILLISECOND
AGAIN = 200 * MILLISECOND  # after which a command is given anew, and to somebody else


class Change(ABC):
    """One action on the members of a cluster. `undo` may be called though `inject` failed half way."""

    def __init__(self, cluster: SimulatedCluster, fault: str, action: Action) -> None:
        self._cluster, self._fault, self._action = cluster, fault, action
        self._nodes = [cluster.by_name[name] for name in action.nodes]
        self._reached: dict[str, tuple[int, int]] = {}  # of each queue, how far its group had come: term and index

    @abstractmethod
    async def inject(self) -> str:
        """Carry it out; what shows it. Raises SplitbrainError when that cannot be done now."""

    @abstractmethod
    async def undo(self) -> tuple[bool, str]:
        """Take it back; whether it bit, and what shows it. Raises SplitbrainError."""

    # --- commands of an operator

    def _asked(self, via: str, queue: str) -> Raft[Any] | None:
        """The leader, as the replica on a node knows it, if it can be reached from there and takes itself for that."""
        there = self._raft(via, queue)
        if there is None or there.leader is None or not self._reaches(via, there.leader):
            return None
        leader = self._raft(there.leader, queue)
        return leader if leader is not None and leader.role == LEADER else None

    def _reaches(self, one: str, other: str) -> bool:
        if one == other:
            return True
        connected = self._cluster.by_name[one].is_connected(other)
        return connected and self._cluster.network.passable(one, other, REPLICATION)

    def _raft(self, name: str, queue: str) -> Raft[Any] | None:
        node = self._cluster.by_name[name]
        up = node.state == UP and not node.paused
        return cast("Raft[Any] | None", self._cluster.replica(node, queue)) if up else None

    async def _change(self, queue: str, name: str, joins: bool) -> tuple[str, ...]:
        """Take a node into the group of a queue, or out of it. Who belongs to it then, as its leader has it."""
        cluster = self._cluster
        deadline = cluster.loop.now() + PATIENCE
        turn = 0
        while cluster.loop.now() < deadline:
            known = [one for one in cluster.members(queue) or () if one != name]
            if not known:
                raise SplitbrainError(f"{name} has the last replica of {queue}")
            leader = self._asked(known[turn % len(known)], queue)
            turn += 1
            begun = cluster.loop.now()
            while leader is not None and leader.role == LEADER and cluster.loop.now() < begun + AGAIN:
                if leader.settled and leader.ready and (name in leader.members) is joins:
                    cluster.regroup(queue, leader.members)
                    self._reached[queue] = leader.log.term_at(leader.commit), leader.commit
                    return leader.members
                self._order(leader, queue, name, joins)
                await self._sleep(LOOK)
            await self._sleep(LOOK)
        what = "taken in" if joins else "taken out"
        raise SplitbrainError(f"{name} was not {what}: no leader of {queue} committed it in {PATIENCE // SECOND} s")

    def _order(self, leader: Raft[Any], queue: str, name: str, joins: bool) -> None:
        wanted = tuple(one for one in leader.members if one != name) + ((name,) if joins else ())
        if wanted and len(wanted) != len(leader.members):  # else it is in the log already, and not committed yet
            self._cluster.by_name[leader.me].order(queue, lambda replica: _take(replica, wanted))

    async def _take_out(self, queue: str, name: str) -> str:
        left = await self._change(queue, name, joins=False)
        node = self._cluster.by_name[name]
        if node.state != DOWN and not node.paused and any(self._reaches(one, name) for one in left):
            self._cluster.forget(node, queue)
        return f"{queue}: {', '.join(left)} keep it, and {name} does not"

    async def _take_in(self, queue: str, node: Node) -> str:
        await self._until(lambda: node.state == UP and not node.paused, f"{node.name} is not there to be taken in")
        if self._cluster.members(queue) == (node.name,):
            return f"{queue}: {node.name} keeps it alone"
        # if it is a member still, it must not lose what it has voted for, and confirmed
        await self._change(queue, node.name, joins=False)
        self._cluster.forget(node, queue)
        # members are known by name: one that knew nothing of what it had voted for would be a danger to them
        node.keep(queue, first=False, born=Born((), self._reached[queue]))
        members = await self._change(queue, node.name, joins=True)
        await self._until(lambda: self._knows(node.name, queue), f"{node.name} does not catch up with {queue}")
        return f"{queue}: {', '.join(members)} keep it"

    def _knows(self, name: str, queue: str) -> bool:
        raft = self._raft(name, queue)
        return raft is not None and raft.settled and name in raft.members

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = self._cluster.loop.now() + PATIENCE
        while not condition():
            if self._cluster.loop.now() > deadline:
                raise SplitbrainError(problem)
            await self._sleep(LOOK)

    async def _sleep(self, time: int) -> None:
        await asyncio.sleep(time / SECOND)

    def _kept(self, name: str) -> list[str]:
        """The queues that a node keeps, by what the cluster knows."""
        return [queue for queue in self._cluster.queues() if name in (self._cluster.members(queue) or ())]


class Shrink(Change):
    """Each queue's replica on a node is taken away, and a new one added in the end."""

    def __init__(self, cluster: SimulatedCluster, fault: str, action: Action) -> None:
        super().__init__(cluster, fault, action)
        self._done: list[tuple[str, Node]] = []
        self._said: list[str] = []

    async def inject(self) -> str:
        self._done = list(self._all())
        await self._side_by_side(self._done)
        if not self._said and self._action.verb in (SHRINK, GROW):
            has = "a replica of each queue already" if self._action.verb == GROW else "no replica of any queue"
            raise SplitbrainError(f"{', '.join(self._action.nodes)} has {has}")
        return "; ".join(self._said)

    async def undo(self) -> tuple[bool, str]:
        while self._done:
            queue, node = self._done.pop()
            await self._back(queue, node)
        return bool(self._said), "; ".join(self._said)

    async def _side_by_side(self, work: Sequence[tuple[str, Node]]) -> None:
        """Each node's queues one after the other, and the nodes side by side, as each by a command of its own. Raises
        the first failure, once all are done."""

        async def one(node: Node) -> list[str]:
            return [await self._one(queue, whose) for queue, whose in work if whose is node]

        for said in await asyncio.gather(*(one(node) for node in self._nodes), return_exceptions=True):
            if isinstance(said, BaseException):
                raise said
            self._said += said

    def _all(self) -> Sequence[tuple[str, Node]]:
        return [(queue, node) for node in self._nodes for queue in self._kept(node.name)]

    async def _one(self, queue: str, node: Node) -> str:
        return await self._take_out(queue, node.name)

    async def _back(self, queue: str, node: Node) -> None:
        await self._take_in(queue, node)


class Grow(Shrink):
    """The other way round: a replica where there is none, and taken away in the end."""

    def _all(self) -> Sequence[tuple[str, Node]]:
        queues = self._cluster.queues()
        return [(queue, node) for node in self._nodes for queue in queues if queue not in self._kept(node.name)]

    async def _one(self, queue: str, node: Node) -> str:
        return await self._take_in(queue, node)

    async def _back(self, queue: str, node: Node) -> None:
        await self._take_out(queue, node.name)


class Leave(Shrink):
    """A node is out of the cluster with all that it had, and joins again with nothing: in order, its replicas first; or
    it is lost with its disk, and another one takes its name (`REPLACE`)."""

    async def inject(self) -> str:
        if self._action.verb == REPLACE:
            queues = self._all()
            for node in self._nodes:
                self._end(node)
            self._done = list(queues)
            await self._side_by_side(queues)
        else:
            await super().inject()
            for node in self._nodes:
                self._end(node)
        return "; ".join([f"{', '.join(self._action.nodes)} left", *self._said])

    async def undo(self) -> tuple[bool, str]:
        for node in self._nodes:
            holders = self._cluster.held_down[node.name]
            holders.pop(self._fault, None)
            if not holders and node.state == DOWN:
                self._cluster.start(node)
        bit, said = await super().undo()
        joined = f"joined again: {', '.join(self._action.nodes)}"
        return bit, f"{said}; {joined}" if said else joined

    def _end(self, node: Node) -> None:
        self._cluster.held_down[node.name][self._fault] = None
        if node.state != DOWN:
            self._cluster.take_down(node, self._action.verb)
        for queue in list(node.queues):
            node.forget(queue)


class Transfer(Change):
    """A node hands over what it leads, to one that is named or to any other member; that is not taken back."""

    def __init__(self, cluster: SimulatedCluster, fault: str, action: Action) -> None:
        super().__init__(cluster, fault, action)
        self._to: str | None = action.args.get("to")
        if self._to is not None and self._to not in cluster.by_name:
            raise BadInput(f"no node {self._to!r}; {did_you_mean(self._to, cluster.by_name)}")
        self._said: list[str] = []

    async def inject(self) -> str:
        for node in self._nodes:
            for queue in self._kept(node.name):
                leader = cast("Raft[Any] | None", self._cluster.serving_leader(queue))
                if leader is not None and leader.me == node.name and self._to in (None, *leader.members):
                    await self._hand_over(queue, leader)
        if not self._said:
            to = f" that {self._to} could lead" if self._to is not None else ""
            raise SplitbrainError(f"{', '.join(self._action.nodes)} leads nothing{to}")
        return "; ".join(self._said)

    async def undo(self) -> tuple[bool, str]:
        return bool(self._said), "; ".join(self._said)

    async def _hand_over(self, queue: str, leader: Raft[Any]) -> None:
        cluster, term = self._cluster, leader.term
        deadline = cluster.loop.now() + PATIENCE // 4
        others = [name for name in leader.members if name != leader.me]
        targets = others if self._to is None else [self._to]
        turn = 0
        while targets and leader.role == LEADER and cluster.loop.now() < deadline:
            to = targets[turn % len(targets)]
            turn += 1
            if self._reaches(leader.me, to):
                cluster.by_name[leader.me].order(queue, lambda replica, to=to: _give_way(replica, to))  # type: ignore[misc]
            await self._sleep(AGAIN)
        new = leader if leader.role == LEADER else None
        while new is None and cluster.loop.now() < deadline:
            await self._sleep(LOOK)
            new = cast("Raft[Any] | None", cluster.serving_leader(queue))
        if new is None or new is leader or self._to not in (None, new.me):
            who = f"{new.me} leads" if new is not None else "nobody leads"
            raise SplitbrainError(f"{queue}: {leader.me} did not hand over to {self._to or 'another'}: {who}")
        self._said.append(f"{queue}: {leader.me} led term {term}, {new.me} leads term {new.term}")


def _take(replica: Any, members: tuple[str, ...]) -> None:
    raft = cast("Raft[Any]", replica)
    if raft.role == LEADER:
        raft.change(members)


def _give_way(replica: Any, node: str) -> None:
    raft = cast("Raft[Any]", replica)
    if raft.role == LEADER and raft.gives_way_to is None:
        raft.give_way(node)


_CHANGES: dict[str, type[Change]] = {LEAVE: Leave, REPLACE: Leave, SHRINK: Shrink, GROW: Grow, TRANSFER: Transfer}


def of(cluster: SimulatedCluster, fault: str, action: Action) -> Change:
    """What carries an action out. Raises BadInput for a node that there is not, SplitbrainError for what cannot be."""
    for name in action.nodes:
        if name not in cluster.by_name:
            raise BadInput(f"no node {name!r}; {did_you_mean(name, cluster.by_name)}")
    if (why := cluster.abilities()[action.verb]) is not None:
        raise SplitbrainError(f"{action.verb} cannot be done here: {why}")
    return _CHANGES[action.verb](cluster, fault, action)
