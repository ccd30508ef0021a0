"""A BlazingMQ node, as a replica: the follower's part here, the leader's in `leader`, the election in `election`.

Whoever follows a leader tells it how far its own log goes, gives what it is asked for, and takes what it is sent; it
hears no leader of a lower term than its own any more. A leader that was active stays the primary of all queues when it
loses its leadership, and serves on, for as long as it hears of no other: then its process exits, and the supervisor
starts it again (measured: exit code 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.simulated.blazingmq.election import Elector
from clusters.simulated.blazingmq.leader import Leader
from clusters.simulated.blazingmq.log import Entry, Log
from clusters.simulated.blazingmq.rules import (
    ACTIVE,
    APPEND,
    DATA,
    FORGET_TERM,
    HAVE,
    PULL,
    PULLED,
    STATE,
    ElectionRules,
)
from clusters.simulated.replica import EXIT, MONITOR, REPLY, SEND, WRITE, Message, Pid, Record

SERVER = "blazingmq"  # what the one replica of a node is called: it keeps all queues

ATTACH = 200  # a channel's first request, to the replica on its own node: (ATTACH, channel)
PRIMARY = 200  # what it hears, then and whenever that changes: (PRIMARY, node or None, its term)

DEPOSED = 11  # exit code of a primary that another node has succeeded


class Server(Elector):
    """`leading`: what it does as leader, or has gone on to do since. `follows`: whose log it takes, and the term."""

    __slots__ = ("_deposed", "_locals", "_told", "consistency", "follows", "leading", "log")

    def __init__(self, me: str, members: Sequence[str], quorum: int, rules: ElectionRules, consistency: str) -> None:
        super().__init__(me, members, quorum, rules)
        self.consistency = consistency
        self.log = Log()
        self.leading: Leader | None = None
        self.follows: tuple[str, int] | None = None
        self._locals: dict[Pid, None] = {}  # channels on this node
        self._told: tuple[str | None, int] = (None, 0)
        self._deposed = False

    @property
    def mutation(self) -> str:
        return self.rules.mutation

    # --- events

    def remembered(self, records: Sequence[Record]) -> int:
        for record in records:
            if record[0] == DATA:
                self.log.put(record[1], record[2])
        term = super().remembered(records)
        return term if self.mutation == FORGET_TERM else max(term, self.log.lease)

    def message(self, source: str, message: Message) -> None:
        tag, term = message[0], message[1]
        if tag < STATE:
            super().message(source, message)
        elif tag in (PULL, APPEND, ACTIVE):
            if self.follows == (source, term) and term >= self.term:
                self._from_leader(source, message)
        elif self.leading is not None and term == self.leading.term:
            if tag == HAVE:
                self.leading.have(source, message[2])
            elif tag == STATE:
                self.leading.state(source, message[2])
            elif tag == PULLED:
                self.leading.pulled(source, message[2], message[3])

    def request(self, pid: Pid, request: Message) -> None:
        if request[0] == ATTACH:
            self._locals[pid] = None
            self.effects.append((MONITOR, pid))
            self.effects.append((REPLY, pid, (PRIMARY, *self._told)))
        elif self.leading is not None and self.leading.active:
            self.leading.request(request)

    def up(self, node: str) -> None:
        super().up(node)
        if self.follows is not None and self.follows[0] == node:
            self._report()

    def down(self, node: str, draw: float) -> None:
        super().down(node, draw)
        if self.leading is not None:
            self.leading.lost(node)

    def ended(self, pid: Pid) -> None:
        self._locals.pop(pid, None)
        if self.leading is not None:
            self.leading.ended(pid)

    def flush(self) -> None:
        if self._deposed:
            self.effects.append((EXIT, DEPOSED, f"leader-primary divergence: {self.leader} leads term {self.term}"))
        elif self.leading is not None:
            self.leading.flush()

    # --- leading, following

    def lead(self) -> None:
        self.follows = None
        self._tell(None)
        self.leading = Leader(self)
        self.leading.gather()

    def follow(self) -> None:
        assert self.leader is not None
        self._deposed = self.leading is not None and self.leading.active
        self.leading = None
        self.follows = (self.leader, self.term)
        self._tell(None)
        self._report()

    def leaderless(self) -> None:
        if self.leading is not None and not self.leading.active:
            self.leading = None

    def serve(self) -> None:
        """As leader: we are active."""
        self._tell(self.me)

    def put(self, place: int, entries: Sequence[Entry]) -> None:
        """Have these records from a place on, and nothing after them."""
        self.log.put(place, entries)
        self.effects.append((WRITE, (DATA, place, entries)))

    def _report(self) -> None:
        """Tell whom we follow how far our log goes."""
        if self.follows is not None:
            leader, term = self.follows
            self.effects.append((SEND, leader, (STATE, term, self.log.summary)))

    def _from_leader(self, leader: str, message: Message) -> None:
        tag, term = message[0], message[1]
        if tag == PULL:
            self.effects.append((SEND, leader, (PULLED, term, message[2], tuple(self.log.records[message[2] :]))))
        elif tag == ACTIVE:
            self._tell(leader)
        elif message[2] > len(self.log):  # something before it was lost with a connection
            self._report()
        else:
            self.put(message[2], message[3])
            self.effects.append((SEND, leader, (HAVE, term, len(self.log))))

    def _tell(self, primary: str | None) -> None:
        """Tell the channels on this node who serves."""
        self._told = (primary, self.term)
        for pid in self._locals:
            self.effects.append((REPLY, pid, (PRIMARY, *self._told)))

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        leading = None if self.leading is None else self.leading.snapshot()
        return (
            super().snapshot(), tuple(self.log.records), self.follows, self._told, tuple(self._locals), self._deposed,
            leading,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        election, records, self.follows, self._told, locals_, self._deposed, leading = state
        super().restore(election)
        self.log = Log()
        self.log.put(0, records)
        self._locals = dict.fromkeys(locals_)
        self.leading = None
        if leading is not None:
            self.leading = Leader(self)
            self.leading.restore(leading)
