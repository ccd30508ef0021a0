"""One node's part of a stream: a member of the coordinator's Raft group, and what osiris runs there.

The coordinator's leader orders members to stop and to start, and looks after them until they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from clusters.simulated.raft.log import ENTRIES as RAFT_ENTRIES
from clusters.simulated.raft.log import META, SNAPSHOT, Outlives
from clusters.simulated.raft.member import Raft
from clusters.simulated.raft.rules import LEADER, Rules
from clusters.simulated.replica import BELIEF, COMPACT, LOG, MONITOR, REPLY, SEND, TIMER, Message, Pid, Record
from clusters.simulated.stream.coordinator import DOWN, HALT, RUN, UNWATCH, WATCH, Coordinator
from clusters.simulated.stream.member import Member
from clusters.simulated.stream.rules import (
    CANCEL,
    CHECK,
    DEAD,
    FORWARD,
    GRANT,
    HALTED,
    LISTEN,
    READ,
    REREAD,
    START,
    STARTED,
    STOP,
    STOPPED,
    TICK,
    TICK_TIMER,
    WRITE,
)

OF_RAFT = (META, RAFT_ENTRIES, SNAPSHOT)


class Keep(NamedTuple):
    """Which records of a journal outlive a snapshot of the coordinator: all of the stream's, and what it says."""

    of_raft: Callable[[Record], bool]

    def __call__(self, record: Record) -> bool:
        return record[0] not in OF_RAFT or self.of_raft(record)


class StreamReplica(Raft[Coordinator]):
    """One node's part of a stream."""

    __slots__ = ("member",)

    def __init__(self, me: str, members: Sequence[str], rules: Rules, mutation: str) -> None:
        super().__init__(me, members, Coordinator(members, mutation == "elect-by-offset"), rules)
        self.member = Member(me, self.members, mutation, self.effects)

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        mine: list[Record] = []
        others: list[Record] = []
        for record in records:
            (others if record[0] in OF_RAFT else mine).append(record)
        self._share()
        self.member.replay(mine)
        self._stands()
        super().start(others, draw)

    def message(self, source: str, message: Message) -> None:
        self._share()
        tag = message[0]
        if tag < STOP:
            super().message(source, message)
        elif tag in (STOP, START, CHECK):
            answer = self._obey(message)
            if answer is not None:
                self.effects.append((SEND, source, answer))
        elif tag in (HALTED, STARTED, DEAD):
            self._heard(source, message)
        elif tag == FORWARD:
            self._of_coordinator(message[1])
        else:
            self.member.message(source, message)

    def request(self, pid: Pid, request: Message) -> None:
        self._share()
        kind, _, _, a, b = request
        member = self.member
        if kind == LISTEN:
            if self.role != LEADER and self.leader is not None:
                self.effects.append((SEND, self.leader, (FORWARD, request)))
            else:
                self._of_coordinator(request)
        elif kind == WRITE:
            member.write(pid, a, *b)
        elif kind == READ:
            self.effects.append((MONITOR, pid))
            member.read(pid, a, *b)
        elif kind == GRANT:
            member.grant(pid, a, b)
        elif kind == CANCEL:
            member.cancel(pid, a)
        elif kind == REREAD:
            member.read_on(pid, a)

    def timer(self, name: int, draw: float) -> None:
        self._share()
        if name == TICK_TIMER:
            self._act()
        else:
            super().timer(name, draw)

    def synced(self, token: Any) -> None:
        self._share()
        super().synced(token)

    def up(self, node: str) -> None:
        self._share()
        super().up(node)
        self._act()

    def down(self, node: str, draw: float) -> None:
        self._share()
        super().down(node, draw)
        if self.member.detached(node):
            self._stands()
        if self.role == LEADER:
            self._gone(node)

    def ended(self, pid: Pid) -> None:
        self._share()
        self.member.ended(pid)
        if self.role == LEADER:
            self._forget([pid])

    def flush(self) -> None:
        self._share()
        self.member.flush()
        super().flush()

    # --- the coordinator's leader

    def tell(self, new: bool) -> None:
        machine = self.machine
        if new:
            for pid in machine.listeners:
                self.effects.append((MONITOR, pid))
            for node in self.others:
                if node not in self.connected:
                    self._gone(node)
            if self.me in machine.running and (self.member.role == STOPPED or self.member.epoch != machine.epoch):
                self.propose((DOWN, None, 0, self.me, machine.epoch))
        news, machine.news = machine.news, []
        self.effects.extend((REPLY, pid, message) for pid, message in news)
        self._act()

    def _of_coordinator(self, request: Message) -> None:
        if self.role == LEADER:
            pid = request[1]
            self.effects.append((MONITOR, pid))
            self.propose((WATCH, pid, 0, None, None))

    def _gone(self, node: str) -> None:
        """A node is out of reach: so is its member, and who listens there is forgotten, also when it comes back."""
        if node in self.machine.running or node == self.machine.writer:
            self.propose((DOWN, None, 0, node, self.machine.epoch))
        self._forget([pid for pid in self.machine.listeners if pid[0] == node])

    def _forget(self, pids: Sequence[Pid]) -> None:
        known = tuple(pid for pid in pids if pid in self.machine.listeners)
        if known:
            self.propose((UNWATCH, None, 0, known, None))

    def _act(self) -> None:
        """Order what is due, now and again until it is done."""
        if self.role != LEADER:
            return
        self.effects.append((TIMER, TICK_TIMER, TICK))
        if not self.ready:
            return
        machine = self.machine
        for node in self.members:
            order: Message | None
            if machine.electing:
                order = None if node in machine.tails else (STOP, machine.epoch)
            elif node in machine.running:
                order = (CHECK, machine.epoch)
            elif node == machine.writer or machine.writer in machine.running:
                order = (START, machine.epoch, machine.writer)
            else:
                order = None
            if order is None:
                continue
            if node != self.me:
                self.effects.append((SEND, node, order))
            elif (answer := self._obey(order)) is not None:
                self._heard(self.me, answer)

    def _heard(self, node: str, answer: Message) -> None:
        machine = self.machine
        tag, epoch = answer[0], answer[1]
        if self.role != LEADER or epoch != machine.epoch:
            return
        if tag == HALTED and machine.electing and node not in machine.tails:
            self.propose((HALT, None, 0, node, (epoch, answer[2])))
        elif tag == STARTED and not machine.electing and node not in machine.running:
            self.propose((RUN, None, 0, node, epoch))
        elif tag == DEAD and not machine.electing and node in machine.running:
            self.propose((DOWN, None, 0, node, epoch))

    # --- what it orders

    def _obey(self, order: Message) -> Message | None:
        member = self.member
        tag, epoch = order[0], order[1]
        if epoch < member.epoch:
            return None
        runs = member.role != STOPPED and member.epoch == epoch
        if tag == STOP:
            if member.role != STOPPED:
                member.stop()
                self._stands()
            return (HALTED, epoch, member.tail)
        if tag == CHECK:
            return None if runs else (DEAD, epoch)
        if not runs:
            if order[2] not in (self.me, *self.connected):
                return None  # a replica that cannot reach its writer does not start
            member.start(epoch, order[2])
            self._stands()
        return (STARTED, epoch)

    def _stands(self) -> None:
        member = self.member
        self.effects.append((BELIEF, member.role, member.epoch))
        doing = "stopped" if member.role == STOPPED else f"{member.role} of epoch {member.epoch}"
        self.effects.append((LOG, "notice", f"{doing}, next offset {len(member.log)}"))

    # --- beneath

    def _share(self) -> None:
        """The member's effects are ours; whoever carries them out takes the list away."""
        self.member.effects = self.effects

    def _believe(self) -> None:
        """Who leads the coordinator's group is no belief about the stream."""

    def _compact(self, keep: Outlives) -> None:
        super()._compact(keep)
        tag, records, of_raft = self.effects.pop()
        assert tag == COMPACT
        self.effects.append((COMPACT, records, Keep(of_raft)))
