"""A Raft group under a random schedule: any message may come late, twice, never or out of order; nodes crash; and after
every step the invariants of the Raft paper (its figure 3) hold, or `Broken` is raised."""

from __future__ import annotations

from random import Random
from typing import Any

from clusters.simulated.fifo import APPLIED, ENQUEUE, OK, Fifo
from clusters.simulated.quorum.replica import QuorumReplica
from clusters.simulated.raft.log import Entry
from clusters.simulated.raft.machine import MEMBERS
from clusters.simulated.raft.rules import HEARTBEAT_TIMER, LEADER, Rules
from clusters.simulated.replica import BELIEF, COMPACT, LOG, REPLY, SEND, SYNC, TIMER, WRITE, Message

PID = ("clients", 1, 1)


class Broken(AssertionError):
    """An invariant does not hold."""


class Recorded(Fifo):
    """Tells the group what it applies."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self._group = group

    def apply(self, index: int, command: tuple[Any, ...]) -> None:
        if self._group.committed.setdefault(index, command) != command:
            raise Broken(f"state machine safety: two commands are applied at {index}")
        super().apply(index, command)


class Member:
    """A node: its replica, and its disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.synced: list[Any] = []
        self.written: list[Any] = []
        self.token: Any = None
        self.timers: dict[int, None] = {}
        self.replica: QuorumReplica
        self.born: tuple[str, ...] = ()  # who belonged to the group when its replica was made,
        self.since = 0  # and the index of the entry by which it had left before
        self.reached = (0, 0)  # how far the group had come when it was given an empty disk


class Group:
    """`size` members; everything that happens is drawn from `random`. With `changes` they leave and join, too, and
    leaders give way."""

    def __init__(
        self, random: Random, size: int = 3, mutation: str = "none", snapshot: int = 10, changes: bool = False
    ) -> None:
        self.random = random
        self.names = [f"n{number}" for number in range(1, size + 1)]
        self.rules = Rules(election=1000, hurry=10, heartbeat=100, snapshot=snapshot, mutation=mutation)
        self.members = {name: Member(name) for name in self.names}
        self.flying: list[tuple[str, str, Message]] = []
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, tuple[Any, ...]] = {}
        self.confirmed: dict[int, None] = {}
        self.sequence = 0
        self.alone: str | None = None
        self.changes = changes
        self.given_way: dict[int, str] = {}  # in which term a leader did, and to whom
        for member in self.members.values():
            member.born = tuple(self.names)
            self._start(member)

    def run(self, steps: int) -> None:
        acts = [
            self.deliver, self.duplicate, self.drop, self.sync, self.timer, self.request, self.kill, self.power_off,
            self.cut,
        ]  # fmt: skip
        weights = [60, 2, 3, 25, 12, 8, 0.3, 0.5, 0.5]
        if self.changes:
            acts += [self.leave, self.join, self.give_way]
            weights += [3, 6, 1]
        for act in self.random.choices(acts, weights, k=steps):
            act()
            self.check()

    def storm(self) -> None:
        """Some are killed, and soon afterwards some lose their power: what was only written may count for nothing."""
        for _ in range(2):
            self.kill()
        self.run(40)
        for _ in range(2):
            self.power_off()

    def settle(self) -> str:
        """Let everything be delivered and synced, timers only when nothing else can happen; the leader in the end."""
        self.alone = None
        for _ in range(40):
            for _ in range(200):
                if not self.flying and all(member.token is None for member in self.members.values()):
                    break
                self.deliver()
                self.sync_all()
                self.check()
            leading = [m for m in self.members.values() if m.replica.role == LEADER]
            newest = max(leading, key=lambda m: m.replica.term, default=None)
            if newest is None:
                self.fire(self.random.choice(list(self.members.values())))
            elif all(self.members[n].replica.commit == newest.replica.log.last for n in newest.replica.members):
                return newest.name
            else:
                newest.replica.timer(HEARTBEAT_TIMER, 0.5)
                self._after(newest)
        raise Broken("the group does not settle although nothing is lost any more")

    # --- what happens

    def deliver(self) -> None:
        if self.flying:
            place = 0 if self.random.random() < 0.7 else self.random.randrange(len(self.flying))
            source, target, message = self.flying.pop(place)
            member = self.members[target]
            member.replica.message(source, message)
            self._after(member)

    def duplicate(self) -> None:
        if self.flying:
            self.flying.append(self.random.choice(self.flying))

    def drop(self) -> None:
        if self.flying:
            self.flying.pop(self.random.randrange(len(self.flying)))

    def cut(self) -> None:
        """Cut one member off, or mend that."""
        self.alone = None if self.alone else self.random.choice(self.names)

    def sync(self) -> None:
        member = self.random.choice(list(self.members.values()))
        if member.token is not None:
            token, member.token = member.token, None
            member.synced += member.written
            member.written = []
            member.replica.synced(token)
            self._after(member)

    def sync_all(self) -> None:
        for _ in self.names:
            self.sync()

    def timer(self) -> None:
        self.fire(self.random.choice(list(self.members.values())))

    def fire(self, member: Member) -> None:
        if member.timers:
            name = self.random.choice(list(member.timers))
            del member.timers[name]
            member.replica.timer(name, self.random.random())
            self._after(member)

    def request(self) -> None:
        leaders = [member for member in self.members.values() if member.replica.role == LEADER]
        if leaders:
            self.sequence += 1
            member = self.random.choice(leaders)
            member.replica.request(PID, (ENQUEUE, PID, self.sequence, self.sequence, b"m%d" % self.sequence))
            self._after(member)

    def leave(self) -> None:
        """A leader is to take somebody out of the group, itself perhaps."""
        if (leader := self._leader()) is not None and len(leader.replica.members) > 1:
            gone = self.random.choice(leader.replica.members)
            leader.replica.change([name for name in leader.replica.members if name != gone])
            self._after(leader)

    def join(self) -> None:
        """A leader is to take somebody in. Whoever has left for certain gets an empty disk before, once, and is told
        how far the group had come."""
        leader, left = self._leader(), self._left()
        if leader is None or not leader.replica.ready or leader.replica.commit < max(left.values(), default=0):
            return
        reached = self.reached(leader)
        for name, since in left.items():
            member = self.members[name]
            if member.since != since:
                member.since, member.born, member.reached, member.synced, member.written = since, (), reached, [], []
                self._start(member)
        if not left or leader.replica.role != LEADER:
            return
        member = self.members[self.random.choice(list(left))]
        if member.name not in leader.replica.members:
            leader.replica.change([*leader.replica.members, member.name])
            self._after(leader)

    def give_way(self) -> None:
        if (leader := self._leader()) is not None:
            to = self.random.choice(self.names)
            if leader.replica.give_way(to):
                self.given_way[leader.replica.term] = to
            self._after(leader)

    def reached(self, leader: Member) -> tuple[int, int]:
        """Term and index of what is committed for certain."""
        return leader.replica.log.term_at(leader.replica.commit), leader.replica.commit

    def _leader(self) -> Member | None:
        leaders = [member for member in self.members.values() if member.replica.role == LEADER]
        return self.random.choice(leaders) if leaders else None

    def _left(self) -> dict[str, int]:
        """Who does not belong to the group for certain, and by the entry of which index that is so."""
        left: dict[str, int] = {}
        for index, command in sorted(self.committed.items()):
            if command[0] == MEMBERS:
                out = [name for name in self.names if name not in command[3]]
                left = {name: left.get(name, index) for name in out}
        return left

    def kill(self) -> None:
        self._start(self.random.choice(list(self.members.values())))

    def power_off(self) -> None:
        member = self.random.choice(list(self.members.values()))
        member.written = []
        self._start(member)

    def _start(self, member: Member) -> None:
        member.token = None
        member.timers = {}
        member.replica = QuorumReplica(member.name, member.born, Recorded(self), self.rules)
        member.replica.since = member.reached
        member.replica.start([*member.synced, *member.written], self.random.random())
        self._after(member)

    def _after(self, member: Member) -> None:
        replica = member.replica
        replica.flush()
        effects, replica.effects = replica.effects, []
        for effect in effects:
            tag = effect[0]
            if tag == SEND:
                if self.alone not in (member.name, effect[1]):
                    self.flying.append((member.name, effect[1], effect[2]))
            elif tag == TIMER:
                member.timers[effect[1]] = None
            elif tag == WRITE:
                member.written.append(effect[1])
            elif tag == SYNC:
                member.token = effect[1]
            elif tag == COMPACT:
                _, records, keep = effect
                member.synced = [*records, *filter(keep, member.synced)]
                member.written = list(filter(keep, member.written))
            elif tag == BELIEF and effect[1] == LEADER:
                self._elected(member, effect[2])
            elif tag == LOG and effect[1] == "error" and self.rules.mutation == "none":
                raise Broken(f"{member.name}: {effect[2]}")
            elif tag == REPLY and effect[2][0] == APPLIED:
                self.confirmed.update(dict.fromkeys(corr for corr, answer in effect[2][1] if answer is OK))

    # --- the invariants

    def _elected(self, member: Member, term: int) -> None:
        if self.leaders.setdefault(term, member.name) != member.name:
            raise Broken(f"election safety: {self.leaders[term]} and {member.name} lead term {term}")
        for index, command in self.committed.items():
            if index > member.replica.log.last:
                raise Broken(f"leader completeness: {member.name}, elected in term {term}, lacks {index}")
            if index > member.replica.log.base and self._entry(member, index)[1] != command:
                raise Broken(f"leader completeness: {member.name}, elected in term {term}, has another {index}")

    def _entry(self, member: Member, index: int) -> Entry:
        log = member.replica.log
        return log.entries[index - log.base - 1]

    def check(self) -> None:
        for member in self.members.values():
            replica, log = member.replica, member.replica.log
            if (
                not log.base <= replica.applied <= replica.commit <= log.last
                or not log.durable <= log.written <= log.last
            ):
                raise Broken(f"{member.name}: indices out of order")
        for one in self.members.values():
            for other in self.members.values():
                if one.name < other.name:
                    self._match(one, other)

    def _match(self, one: Member, other: Member) -> None:
        first = max(one.replica.log.base, other.replica.log.base) + 1
        last = min(one.replica.log.last, other.replica.log.last)
        same = False
        for index in range(last, first - 1, -1):
            a, b = self._entry(one, index), self._entry(other, index)
            if same and a != b:
                raise Broken(f"log matching: {one.name} and {other.name} differ at {index} and agree later")
            same = same or a[0] == b[0]
            if same and a != b:
                raise Broken(f"log matching: {one.name} and {other.name} have two entries {index} of term {a[0]}")

    def check_confirmed(self) -> None:
        """Once settled: what was confirmed has been committed."""
        committed = {command[2] for command in self.committed.values() if command[0] == ENQUEUE}
        lost = [corr for corr in self.confirmed if corr not in committed]
        if lost:
            raise Broken(f"confirmed and lost: {lost}")
