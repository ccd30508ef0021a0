"""A LavinMQ node, as a replica: the follower's part here, the leader's in `leader`, etcd's in `candidate`.

After LavinMQ's source (clustering/client.cr): a follower connects to who leads, throws away the files that the leader
does not have, asks for those that are missing or different, twice, and from then on gets every change, which it
acknowledges. It goes on to follow a leader for as long as etcd names no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chaos.kernel.clock import SECOND
from clusters.simulated.lavinmq.candidate import Candidate
from clusters.simulated.lavinmq.leader import Leader
from clusters.simulated.lavinmq.rules import (
    ACKED,
    CHANGES,
    COPIED,
    COPY,
    DECLARE_QUEUE,
    FILES,
    FOLLOW,
    FOLLOW_AGAIN,
    GONE,
    HAVE,
    LEAVE,
    LINKS,
    REFUSED,
    WANT,
    Rules,
)
from clusters.simulated.lavinmq.store import ADD, Other, Store
from clusters.simulated.replica import COMPACT, LOG, SEND, SYNC, TIMER, WRITE, Message, Pid, Record

SERVER = "lavinmq"  # what the one replica of a node is called: it keeps all queues

CONNECT_AGAIN = SECOND


class Server(Candidate):
    """`leader`: what it does as leader, while it leads."""

    __slots__ = ("connected", "leader", "session", "store")

    def __init__(self, me: str, members: Sequence[str], rules: Rules) -> None:
        super().__init__(me, members, rules)
        self.store = Store(rules.segment)
        self.leader: Leader | None = None
        self.connected: dict[str, None] = {}
        self.session = 0  # of following, counted

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        for record in records:
            self.store.apply(record)
        self._begin()

    def message(self, source: str, message: Message) -> None:
        if source in LINKS:
            self._from_etcd(source, message)
        elif self.leader is not None:
            self._as_leader(self.leader, source, message)
        elif message[0] == FOLLOW:
            self.effects.append((SEND, source, (REFUSED, message[1])))
        elif message[0] != LEAVE and message[0] != DECLARE_QUEUE and message[1] == self.session:
            self._as_follower(source, message)

    def request(self, pid: Pid, request: Message) -> None:
        if self.leader is not None:
            self.leader.request(request)

    def timer(self, name: int, draw: float) -> None:
        if name == COPY:
            if self.leader is not None:
                self.leader.copy()
        elif name == GONE:
            if self.leader is not None:
                self.leader.found_out()
        elif name == FOLLOW_AGAIN:
            self._join()
        else:
            self._etcd_timer(name)

    def synced(self, token: Any) -> None:
        if isinstance(token, int):
            if self.leader is not None:
                self.leader.synced(token)
        elif token[0] == self.session and self.leader is None and self.target is not None:
            _, tag, number = token
            answer = (HAVE, self.session) if tag == HAVE else (ACKED, self.session, number)
            self.effects.append((SEND, self.target, answer))

    def up(self, node: str) -> None:
        if node in LINKS:
            self._linked(node)
            return
        self.connected[node] = None
        if node == self.target:
            self._join()

    def down(self, node: str, draw: float) -> None:
        if node in LINKS:
            self._unlinked(node)
            return
        self.connected.pop(node, None)
        if self.leader is not None:
            self.leader.lost(node)

    def stop(self) -> None:
        self._release()

    def ended(self, pid: Pid) -> None:
        if self.leader is not None:
            self.leader.ended(pid)

    def flush(self) -> None:
        if self.leader is not None:
            self.leader.flush()

    # --- following

    def write(self, change: Record) -> None:
        """Carry a change out, and write it down."""
        self.store.apply(change)
        self.effects.append((WRITE, change))

    def forget(self, names: tuple[str, ...]) -> None:
        """Delete files, here and on the disk."""
        if names:
            self.store.forget(names)
            self.effects.append((COMPACT, [], Other(names)))

    def _lead(self) -> None:
        self.session += 1  # whatever a former leader still sends is nothing to us
        for node in self.connected:
            self.effects.append((SEND, node, (LEAVE,)))
        self.leader = Leader(self)

    def _follow(self) -> None:
        for node in self.connected:
            if node != self.target:
                self.effects.append((SEND, node, (LEAVE,)))
        self._join()

    def _join(self) -> None:
        if self.leader is None and self.target is not None and self.target in self.connected:
            self.session += 1
            self.effects.append((SEND, self.target, (FOLLOW, self.session)))

    def _as_follower(self, source: str, message: Message) -> None:
        tag = message[0]
        if tag == CHANGES:
            for change in message[3]:
                if change[0] == ADD:
                    self.write(change)
                else:
                    self.forget((change[1],))
            self._tell(source, (ACKED, self.session, message[2]))
        elif tag == FILES:
            extra = self.store.beyond(message[2])
            if extra:
                self.effects.append((LOG, "notice", f"throws away what {source} does not have: {', '.join(extra)}"))
            self.forget(extra)
            self.effects.append((SEND, source, (WANT, self.session, self.store.differing(message[2]))))
        elif tag == COPIED:
            self.forget(tuple(name for name, _ in message[2] if self.store.records(name)))
            for name, records in message[2]:
                for record in records:
                    self.write((ADD, name, record))
            self._tell(source, (HAVE, self.session))
        elif tag == REFUSED:
            self.effects.append((TIMER, FOLLOW_AGAIN, CONNECT_AGAIN))

    def _tell(self, leader: str, message: Message) -> None:
        """Say that something is here: once it is on the disk, if that is the rule."""
        if self.rules.syncs:
            self.effects.append((SYNC, (self.session, message[0], message[-1])))
        else:
            self.effects.append((SEND, leader, message))

    # --- leading

    def _as_leader(self, leader: Leader, source: str, message: Message) -> None:
        tag = message[0]
        if tag == ACKED:
            leader.acked(source, message[1], message[2])
        elif tag == FOLLOW:
            leader.join(source, message[1])
        elif tag == WANT:
            leader.want(source, message[1], message[2])
        elif tag == HAVE:
            leader.have(source, message[1])
        elif tag == LEAVE:
            leader.lost(source)
        elif tag == DECLARE_QUEUE:
            leader.request(message)

    def in_sync_set_written(self, written: bool) -> None:
        if self.leader is not None:
            self.leader.set_written(written)

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        leading = None if self.leader is None else self.leader.snapshot()
        return self._candidacy(), self.store.snapshot(), tuple(self.connected), self.session, leading

    def restore(self, state: tuple[Any, ...]) -> None:
        candidacy, store, connected, self.session, leading = state
        self._restore_candidacy(candidacy)
        self.store.restore(store)
        self.connected = dict.fromkeys(connected)
        self.leader = None
        if leading is not None:
            self.leader = Leader(self)
            self.leader.restore(leading)
