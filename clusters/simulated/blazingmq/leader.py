"""What a BlazingMQ node does as leader: it synchronises with the others in both directions, and then serves all queues.

After BlazingMQ's source (mqbc_storagemanager, mqbs_filestore) and "Leader election and state machine replication in
BlazingMQ": a new leader is passive. It hears from a quorum how far each copy goes, pulls what the most advanced one has
more than its own, writes a synchronisation point in its own lease, and pushes to everyone what that one lacks; what
somebody has beside is dropped. With the point at a quorum it is active. With strong consistency a publish is
acknowledged, and delivered, once N/2+1 nodes have it; with eventual consistency at once. Deliveries are not replicated;
that messages were consumed is, and nobody waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.simulated.blazingmq.log import CONFIRM, MESSAGE, POINT, Entry, Summary, advance, common
from clusters.simulated.blazingmq.rules import ACK_EARLY, ACTIVE, APPEND, DATA, PULL, PUSH_ONLY, STRONG
from clusters.simulated.channel import RESUME
from clusters.simulated.fifo import (
    APPLIED,
    CHECKOUT,
    DELIVER,
    DEQUEUE,
    DOWN,
    ENQUEUE,
    OK,
    RESUMED,
    SETTLE,
    Consumer,
    Fifo,
)
from clusters.simulated.replica import LOG, MONITOR, REPLY, SEND, WRITE, Message, Pid

if TYPE_CHECKING:
    from clusters.simulated.blazingmq.server import Server


class Leader:
    """`term`: in which it was elected, its lease on the log. `point`: the log's length once it is whole and the
    synchronisation point is in it, 0 before. `commit`: how much of it has taken effect."""

    __slots__ = (
        "_flushed", "_matches", "_polls", "_pulling", "_seen", "_sent", "_server", "_states", "_touched", "_waiting",
        "active", "commit", "point", "queues", "term",
    )  # fmt: skip

    def __init__(self, server: Server) -> None:
        self._server = server
        self.term = server.term
        self.active = False
        self.point = 0
        self.commit = 0
        self.queues: dict[str, Fifo] = {}
        self._states: dict[str, Summary] = {}  # how far the others' copies go
        self._pulling: str | None = None
        self._sent: dict[str, int] = {}  # how much of the log was sent to each that is synchronised
        self._matches: dict[str, int] = {}  # and how much of it each is known to have
        self._flushed = len(server.log)
        self._waiting: dict[int, list[tuple[Pid, Any]]] = {}  # place in the log -> whose publish is to be acknowledged
        self._seen: dict[tuple[Pid, str], dict[int, int]] = {}  # where each publish of each channel to a queue is
        self._polls: dict[int, Message] = {}  # place in the log -> who asks what there is, once we know that we lead
        self._touched: dict[str, None] = {}

    # --- synchronising

    def state(self, node: str, summary: Summary) -> None:
        """How far the copy of a follower goes."""
        if self.point:
            self._push(node, summary)
        else:
            self._states[node] = summary
            self.gather()

    def gather(self) -> None:
        """Once enough have told: pull from the most advanced, if that is not us."""
        if self.point or self._pulling is not None or 1 + len(self._states) < self._server.quorum:
            return
        mine = self._server.log.summary
        best = max(self._states, key=lambda node: advance(self._states[node]), default=None)
        if best is None or advance(self._states[best]) <= advance(mine) or self._server.mutation == PUSH_ONLY:
            self._settle()
        else:
            self._pulling = best
            self._server.effects.append((LOG, "notice", f"pulls what {best} has more"))
            self._server.effects.append((SEND, best, (PULL, self.term, common(mine, self._states[best]))))

    def pulled(self, node: str, place: int, entries: tuple[Entry, ...]) -> None:
        """What the most advanced copy has more than ours."""
        if node == self._pulling:
            self._pulling = None
            self._server.put(place, entries)
            self._flushed = len(self._server.log)
            self._settle()

    def have(self, node: str, length: int) -> None:
        """A follower has so much of the log."""
        if node in self._sent and length > self._matches[node]:
            self._matches[node] = length
            self._advance()

    def lost(self, node: str) -> None:
        """The connection to a node is gone: its consumers with it, until they come again."""
        self._states.pop(node, None)
        self._sent.pop(node, None)
        if node == self._pulling:
            self._pulling = None
            self.gather()
        for name, fifo in self.queues.items():
            for pid in [pid for pid in fifo.pids() if pid[0] == node]:
                self._touched[name] = None
                fifo.apply(0, (DOWN, pid, None, None, None))

    def _settle(self) -> None:
        log = self._server.log
        log.append((POINT, self.term))
        self.point = len(log)
        for node, summary in self._states.items():
            self._push(node, summary)
        self._advance()

    def _push(self, node: str, summary: Summary) -> None:
        log = self._server.log
        place = common(summary, log.summary)
        if summary and summary[-1][1] > place:
            self._server.effects.append((LOG, "notice", f"{node} drops {summary[-1][1] - place} records of its own"))
        self._send(node, place)
        self._matches[node] = place
        if self.active:
            self._server.effects.append((SEND, node, (ACTIVE, self.term)))

    def _send(self, node: str, place: int) -> None:
        records = self._server.log.records
        self._server.effects.append((SEND, node, (APPEND, self.term, place, tuple(records[place:]))))
        self._sent[node] = len(records)

    def _advance(self) -> None:
        """Serve, and go on, as far as others have the log."""
        server, length = self._server, len(self._server.log)
        if not self.active:
            if not self.point or 1 + sum(has >= self.point for has in self._matches.values()) < server.quorum:
                return
            self._activate()
        if server.consistency == STRONG and server.mutation != ACK_EARLY:
            copies = sorted([length, *self._matches.values()], reverse=True)
            majority = len(server.members) // 2 + 1
            length = copies[majority - 1] if len(copies) >= majority else 0
        if length > self.commit:
            self._take_effect(length)

    def _activate(self) -> None:
        self.active = True
        for place, record in enumerate(self._server.log.records):
            if record[0] == MESSAGE:
                self._seen.setdefault((record[3], record[2]), {})[record[4]] = place
        self._server.effects.append((LOG, "notice", f"is active in term {self.term} with {self.point} records"))
        for node in self._sent:
            self._server.effects.append((SEND, node, (ACTIVE, self.term)))
        self._server.serve()

    def _take_effect(self, length: int) -> None:
        records = self._server.log.records
        if not self.commit:
            length = max(length, self._load(length))
        for place in range(self.commit, length):
            record = records[place]
            if record[0] == MESSAGE:
                _, _, name, pid, _, body = record
                waiting = self._waiting.pop(place, None) or [(pid, None)]
                fifo = self._queue(name)
                fifo.apply(place, (ENQUEUE, pid, waiting[0][1], fifo.enqueuers.get(pid, 1), body))
                for again in waiting[1:]:
                    fifo.replies.setdefault(again[0], []).append((again[1], OK))
            elif place in self._polls:
                *poll, name = self._polls.pop(place)
                self._queue(name).apply(0, tuple(poll))
        self.commit = length

    def _load(self, length: int) -> int:
        """Put what earlier leaders left into the queues. Who holds what was not replicated, so any may come again."""
        length = min(length, self.point)
        for place, record in self._server.log.left():
            if place < length:
                self._queue(record[2]).ready.append((place, record[5], 1))
        self.commit = length
        return length

    # --- serving

    def request(self, request: Message) -> None:
        """What a channel asks for, if we are active: (kind, channel, its number for it, a, b, queue)."""
        kind, pid, corr, a, b, name = request
        fifo = self._queue(name)
        if kind == ENQUEUE:
            self._publish(fifo, name, pid, corr, a, b)
            return
        if kind == RESUME:
            self._resume(fifo, name, pid, a, *b)
            return
        if kind == SETTLE:
            consumer = fifo.consumers.get((pid, a))
            held = consumer.checked if consumer is not None else {}
            places = tuple(held[number][0] for number in b if number in held)
            if places:
                self._server.log.append((CONFIRM, self.term, name, places))
        elif kind == DEQUEUE and not fifo.ready_count and self._server.consistency == STRONG:
            self._polls[len(self._server.log)] = request  # nothing, if nobody else leads
            self._server.log.append((POINT, self.term))
            return
        fifo.apply(0, (kind, pid, corr, a, b))

    def _publish(self, fifo: Fifo, name: str, pid: Pid, corr: Any, number: int, body: Any) -> None:
        seen = self._seen.setdefault((pid, name), {})
        place = seen.get(number)
        if place is None:
            log = self._server.log
            seen[number] = len(log)
            self._waiting[len(log)] = [(pid, corr)]
            log.append((MESSAGE, self.term, name, pid, number, body))
        elif place >= self.commit:
            self._waiting.setdefault(place, []).append((pid, corr))
        else:
            fifo.replies.setdefault(pid, []).append((corr, OK))

    def _resume(self, fifo: Fifo, name: str, pid: Pid, tag: int, next_: int, prefetch: int) -> None:
        """A consumer that a channel has already: what it holds of us from that delivery on, or new ones from there."""
        held = fifo.checked_out(pid, tag, next_)
        if held is not None:
            self._server.effects.append((REPLY, pid, (RESUMED, name, tag, *held)))
            return
        consumer = fifo.consumers[pid, tag] = Consumer((pid, tag), prefetch, False)
        consumer.next = next_
        fifo.monitors.append(pid)
        fifo.apply(0, (CHECKOUT, pid, None, tag, prefetch))

    def ended(self, pid: Pid) -> None:
        """A channel is gone."""
        for name, fifo in self.queues.items():
            self._seen.pop((pid, name), None)
            self._touched[name] = None
            fifo.apply(0, (DOWN, pid, None, None, None))

    def flush(self) -> None:
        """Write and send what was gathered; answer."""
        records = self._server.log.records
        length = len(records)
        if self.point and length > self._flushed:
            new = tuple(records[self._flushed :])
            self._server.effects.append((WRITE, (DATA, self._flushed, new)))
            message = (APPEND, self.term, self._flushed, new)
            for node, sent in self._sent.items():
                if sent == self._flushed:
                    self._server.effects.append((SEND, node, message))
                    self._sent[node] = length
                elif sent < length:
                    self._send(node, sent)
            self._flushed = length
            self._advance()
        touched, self._touched = self._touched, {}
        for name in touched:
            self._tell(name, self.queues[name])

    def _queue(self, name: str) -> Fifo:
        """A queue is there as soon as anybody speaks of it."""
        self._touched[name] = None
        fifo = self.queues.get(name)
        if fifo is None:
            fifo = self.queues[name] = Fifo()
            fifo.leading = True
        return fifo

    def _tell(self, name: str, fifo: Fifo) -> None:
        effects = self._server.effects
        if fifo.replies:
            effects.extend([(REPLY, pid, (APPLIED, name, answers)) for pid, answers in fifo.replies.items()])
            fifo.replies = {}
        if fifo.deliveries:
            effects.extend([(REPLY, key[0], (DELIVER, name, key[1], items)) for key, items in fifo.deliveries.items()])
            fifo.deliveries = {}
        if fifo.monitors:
            effects.extend([(MONITOR, pid) for pid in fifo.monitors])
            fifo.monitors = []

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        """The state, flat."""
        return (
            self.term, self.active, self.point, self.commit, self._pulling, self._flushed,
            tuple((name, fifo.snapshot()) for name, fifo in self.queues.items()),
            tuple(self._states.items()), tuple(self._sent.items()), tuple(self._matches.items()),
            tuple((place, tuple(waiting)) for place, waiting in self._waiting.items()),
            tuple((key, tuple(places.items())) for key, places in self._seen.items()), tuple(self._polls.items()),
            tuple(self._touched),
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the leader that `snapshot` was asked of."""
        (
            self.term, self.active, self.point, self.commit, self._pulling, self._flushed, queues, states, sent,
            matches, waiting, seen, polls, touched,
        ) = state  # fmt: skip
        self.queues = {}
        for name, fifo in queues:
            self.queues[name] = Fifo()
            self.queues[name].restore(fifo)
            self.queues[name].leading = True
        self._states, self._sent, self._matches = dict(states), dict(sent), dict(matches)
        self._waiting = {place: list(publishers) for place, publishers in waiting}
        self._seen = {key: dict(places) for key, places in seen}
        self._polls = dict(polls)
        self._touched = dict.fromkeys(touched)
