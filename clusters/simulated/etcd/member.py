"""A member of the etcd group: Raft with `KeyValue` as its machine, and what a member does for its clients.

After etcd's source (3.5): any member takes a request, hands it to the leader, and answers once it has itself applied
the command; a leader that does not hear from a majority for an election time-out steps down (CheckQuorum), and a member
that hears its leader gives nobody else its pre-vote; leases are timed by the leader, and begin anew, an election
time-out longer, with each new one. What is simpler than there: reads and keep-alives of leases go through the log too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.simulated.etcd.keyvalue import GRANT, RENEW, REVOKE, WATCH, Event, KeyValue
from clusters.simulated.raft.member import Raft
from clusters.simulated.raft.rules import ASKED, FOLLOWER, Rules
from clusters.simulated.replica import LOG, MONITOR, REPLY, SEND, TIMER, Message, Pid

# What a client is sent
ANSWER = 0  # corr, answer
EVENTS = 1  # corr, events of the watch with that number
AGAIN = 2  # corr, keys: the watch goes on from here; what happened in between is not told
UNAVAILABLE = 3  # corr, NO_LEADER or TIMED_OUT: whether it was done is not known

NO_LEADER = "etcdserver: no leader"
TIMED_OUT = "etcdserver: request timed out"

FORWARD = 20  # between members: command

# A request that is no command: what this member has applied itself, which may be old (etcd: a serializable range)
LOCAL = 30  # a = prefix; answer: {key: Item}

# Timers beside Raft's own: a lease's has an even number from here on, a request's an odd one.
FIRST_TIMER = 10

Asked = tuple[Pid, int]  # who asked, and the request's number there


class EtcdMember(Raft[KeyValue]):
    """`patience`: how long a request waits for its answer, ns."""

    __slots__ = ("_newest", "_requests", "_unsent", "patience", "watches")

    def __init__(self, me: str, members: Sequence[str], rules: Rules, patience: int) -> None:
        super().__init__(me, members, KeyValue(), rules)
        self.patience = patience
        self.watches: dict[Asked, str] = {}  # -> prefix
        self._requests: dict[Asked, int] = {}  # that wait for their answer -> number among the timers
        self._unsent: dict[Asked, Message] = {}  # no leader is known to send them to
        self._newest = 0

    def request(self, pid: Pid, request: Message) -> None:
        asked = (pid, request[2])
        if request[0] == LOCAL:
            self.effects.append((REPLY, pid, (ANSWER, request[2], self.machine.under(request[3]))))
            return
        self._newest += 1
        self._requests[asked] = self._newest
        self._unsent[asked] = request
        self.effects.append((TIMER, FIRST_TIMER + 1 + 2 * self._newest, self.patience))

    def message(self, source: str, message: Message) -> None:
        if message[0] != FORWARD:
            super().message(source, message)
        elif self.machine.leading:
            self.propose(message[1])

    def timer(self, name: int, draw: float) -> None:
        if name < FIRST_TIMER:
            super().timer(name, draw)
            return
        number, is_request = divmod(name - FIRST_TIMER, 2)
        if is_request:
            self._give_up(number)
        elif self.machine.leading and number in self.machine.leases:
            self.effects.append((LOG, "info", f"lease {number} has expired"))
            self.propose((REVOKE, None, 0, number, None))

    def ended(self, pid: Pid) -> None:
        self.watches = {asked: prefix for asked, prefix in self.watches.items() if asked[0] != pid}

    def down(self, node: str, draw: float) -> None:
        self.connected.pop(node, None)  # and no hurry: etcd goes by the election time-out alone

    def flush(self) -> None:
        if self._unsent and self.leader is not None:
            for request in self._unsent.values():
                if self.machine.leading:
                    self.propose(request)
                else:
                    self.effects.append((SEND, self.leader, (FORWARD, request)))
            self._unsent.clear()
        super().flush()

    def tell(self, new: bool) -> None:
        if new:
            for lease, ttl in self.machine.leases.items():
                self._expire(lease, ttl + self.rules.election)

    # --- inside

    def _expire(self, lease: int, after: int) -> None:
        self.effects.append((TIMER, FIRST_TIMER + 2 * lease, after))

    def _give_up(self, number: int) -> None:
        for asked, held in self._requests.items():
            if held == number:
                del self._requests[asked]
                self._unsent.pop(asked, None)
                why = NO_LEADER if self.leader is None else TIMED_OUT
                self.effects.append((REPLY, asked[0], (UNAVAILABLE, asked[1], why)))
                return

    def _apply(self) -> None:
        super()._apply()
        outbox, self.machine.outbox = self.machine.outbox, []
        for (kind, pid, corr, a, _), answer, events in outbox:
            if events:
                self._tell_watches(events)
            if self.machine.leading and kind in (GRANT, RENEW) and answer:
                lease = answer if kind == GRANT else a
                if lease in self.machine.leases:
                    self._expire(lease, self.machine.leases[lease])
            if self._requests.pop((pid, corr), None) is not None:
                if kind == WATCH:
                    self.watches[pid, corr] = a
                    self.effects.append((MONITOR, pid))
                self.effects.append((REPLY, pid, (ANSWER, corr, answer)))
        if self.machine.leading:  # as etcd does, let the others know at once how far they may apply
            for node, peer in self._peers.items():
                if not peer.probing:
                    self._send_entries(node, peer, assert_=True)

    def _tell_watches(self, events: list[Event]) -> None:
        for (pid, corr), prefix in self.watches.items():
            seen = [event for event in events if event[1].startswith(prefix)]
            if seen:
                self.effects.append((REPLY, pid, (EVENTS, corr, seen)))

    def _heartbeat(self) -> None:
        silent = self.rules.election // self.rules.heartbeat
        heard = 1 + sum(peer.missed < silent for peer in self._peers.values())
        if heard < self.majority:
            self.effects.append((LOG, "warning", "no majority is heard"))
            self._follow(self.term, None)
        else:
            super()._heartbeat()

    def _on_ask(self, source: str, message: Message) -> None:
        if self.role == FOLLOWER and self.leader is not None and message[1] <= self.term:
            self._send(source, (ASKED, self.term, False))
        else:
            super()._on_ask(source, message)

    def _on_install(self, source: str, message: Message) -> None:
        applied = self.applied
        super()._on_install(source, message)
        if self.applied > applied:
            for (pid, corr), prefix in self.watches.items():
                self.effects.append((REPLY, pid, (AGAIN, corr, self.machine.under(prefix))))

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        mine = (tuple(self.watches.items()), tuple(self._requests.items()), tuple(self._unsent.items()), self._newest)
        return super().snapshot(), mine

    def restore(self, state: tuple[Any, ...]) -> None:
        whole, (watches, requests, unsent, self._newest) = state
        super().restore(whole)
        self.watches, self._requests, self._unsent = dict(watches), dict(requests), dict(unsent)
