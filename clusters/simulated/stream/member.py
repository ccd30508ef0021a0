"""What osiris runs of a stream on a node: its log, and the writer or replica of an epoch, or nothing.

Nothing is synced: what is written is in the kernel's hands, and a majority of those is what a confirm promises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clusters.simulated.replica import REPLY, SEND, WRITE, Effect, Message, Pid, Record
from clusters.simulated.stream.rules import (
    ACK,
    ATTACH,
    CUT,
    DATA,
    ENTRIES,
    HANDED,
    LEADER,
    OVERVIEW,
    READING,
    REPLICA,
    STOPPED,
    WRITTEN,
    Item,
    Tail,
)

NEXT, FIRST = "next", "first"
BATCH = 512  # entries in one message


class Reading:
    """A reader on this node. `life`: of the member that it reads from; with another it reads nothing any more."""

    __slots__ = ("credit", "life", "next")

    def __init__(self, next_: int, credit: int, life: int) -> None:
        self.next = next_
        self.credit = credit
        self.life = life


class Member:
    """`log`: by offset. `epoch`: the newest that it was started in. `committed`: the offset up to which it knows that a
    majority has all. `role`: LEADER, REPLICA or STOPPED. `life`: how often it was started."""

    def __init__(self, me: str, members: tuple[str, ...], mutation: str, effects: list[Effect]) -> None:
        self.me = me
        self.majority = len(members) // 2 + 1
        self.effects = effects
        self.mutation = mutation
        self.log: list[Item] = []
        self.role = STOPPED
        self.epoch = 0
        self.writer = ""
        self.committed = 0
        self.life = 0
        self.readings: dict[tuple[Pid, int], Reading] = {}
        # of a writer
        self._acked: dict[str, int] = {}  # by replica: it has all before this offset
        self._sent: dict[str, int] = {}  # by replica that is attached
        self._tracked: dict[Pid, tuple[int, int]] = {}  # by publisher: its newest number, and the offset of that entry
        self._again: list[tuple[int, Pid, int]] = []  # offset, publisher, number: confirmed when that is committed
        self._confirmed = 0
        self._written = 0
        self._others = tuple(node for node in members if node != me)

    # --- the log

    def replay(self, records: Iterable[Record]) -> None:
        """Begin with what the journal holds."""
        for record in records:
            del self.log[record[1] :]
            if record[0] == ENTRIES:
                self.log.extend(record[2])
        self._written = len(self.log)

    @property
    def tail(self) -> Tail:
        return (self.log[-1][0] if self.log else 0, len(self.log))

    def ends(self) -> list[Tail]:
        """The offset behind the last entry of each epoch."""
        return list({item[0]: at + 1 for at, item in enumerate(self.log)}.items())

    def _truncate(self, ends: list[Tail]) -> None:
        """Keep what the writer has too: logs that have an entry of an epoch in common agree on all before it."""
        theirs = dict(ends)
        keep = max((min(end, theirs[epoch]) for epoch, end in self.ends() if epoch in theirs), default=0)
        if keep < len(self.log) and self.mutation != "keep-tail":
            del self.log[keep:]
            self._written = keep
            self.effects.append((WRITE, (CUT, keep)))

    # --- started and stopped

    def start(self, epoch: int, writer: str) -> None:
        """Run in an epoch, as its writer or as a replica of it."""
        self.epoch, self.writer = epoch, writer
        self.role = LEADER if writer == self.me else REPLICA
        self.life += 1
        self.committed = self._confirmed = 0  # found out anew
        self._acked, self._sent, self._again = dict.fromkeys(self._others, 0), {}, []
        self._tracked = {}
        if self.role == LEADER:
            for offset, (_, pid, number, _) in enumerate(self.log):
                self._tracked[pid] = (number, offset)
            self._commit()
        else:
            self.effects.append((SEND, writer, (ATTACH, epoch)))

    def stop(self) -> None:
        self.role = STOPPED

    @property
    def attached(self) -> int:
        """How many replicas a writer sends to."""
        return len(self._sent)

    # --- messages

    def message(self, source: str, message: Message) -> None:
        """Between the writer and the replicas of one epoch; of any other nothing is heard."""
        tag, epoch = message[0], message[1]
        if epoch != self.epoch or self.role == STOPPED:
            return
        if tag == ATTACH and self.role == LEADER:
            self._sent.pop(source, None)
            self.effects.append((SEND, source, (OVERVIEW, epoch, self.ends())))
        elif tag == OVERVIEW and source == self.writer:
            self._truncate(message[2])
            self._ack()
        elif tag == DATA and source == self.writer:
            _, _, first, entries, committed = message
            if first != len(self.log):
                return  # it was sent before the connection was lost
            if entries:
                self.log.extend(entries)
                self._written = len(self.log)
                self.effects.append((WRITE, (ENTRIES, first, entries)))
                self._ack()
            self.committed = max(self.committed, min(committed, len(self.log)))
            self._hand_out()
        elif tag == ACK and self.role == LEADER:
            self._acked[source] = max(self._acked[source], message[2])
            if source not in self._sent:
                self._sent[source] = message[2]
                self._send(source)
            self._commit()

    def detached(self, node: str) -> bool:
        """The connection to a node is lost. Whether that ends what runs here."""
        self._sent.pop(node, None)
        if self.role == REPLICA and node == self.writer:
            self.stop()
            return True
        return False

    # --- the writer

    def write(self, pid: Pid, number: int, epoch: int, body: Any) -> None:
        """A publish; one that was meant for another writer is lost, as a message to a dead process is."""
        if self.role != LEADER or epoch != self.epoch:
            return
        newest, offset = self._tracked.get(pid, (0, 0))
        if number <= newest and self.mutation != "no-dedup":
            if offset < self.committed:
                self.effects.append((REPLY, pid, (WRITTEN, [number])))
            else:
                self._again.append((offset, pid, number))
            return
        self._tracked[pid] = (number, len(self.log))
        self.log.append((self.epoch, pid, number, body))
        if self.mutation == "confirm-at-once":
            self.effects.append((REPLY, pid, (WRITTEN, [number])))

    def flush(self) -> None:
        """The writer writes and sends what was published, all of it together."""
        if self.role == LEADER and self._written < len(self.log):
            self.effects.append((WRITE, (ENTRIES, self._written, self.log[self._written :])))
            self._written = len(self.log)
            for node in self._sent:
                self._send(node)
            self._commit()

    def _send(self, node: str) -> None:
        at = self._sent[node]
        while True:
            entries = self.log[at : min(at + BATCH, self._written)]
            self.effects.append((SEND, node, (DATA, self.epoch, at, entries, self.committed)))
            at += len(entries)
            if at >= self._written:
                break
        self._sent[node] = at

    def _ack(self) -> None:
        self.effects.append((SEND, self.writer, (ACK, self.epoch, len(self.log))))

    def _commit(self) -> None:
        """Committed is what a majority has written; publishers are told, and replicas."""
        upto = sorted([self._written, *self._acked.values()], reverse=True)[self.majority - 1]
        if upto <= self.committed:
            return
        self.committed = upto
        done: dict[Pid, list[int]] = {}
        for epoch, pid, number, _ in self.log[self._confirmed : upto]:
            if epoch == self.epoch:  # those of writers before are sent again, and told then
                done.setdefault(pid, []).append(number)
        self._confirmed = upto
        waiting, self._again = self._again, []
        for offset, pid, number in waiting:
            if offset < upto:
                done.setdefault(pid, []).append(number)
            else:
                self._again.append((offset, pid, number))
        self.effects.extend((REPLY, pid, (WRITTEN, numbers)) for pid, numbers in done.items())
        for node, at in self._sent.items():
            if at == self._written:
                self.effects.append((SEND, node, (DATA, self.epoch, at, [], upto)))
        self._hand_out()

    # --- readers

    def read(self, pid: Pid, reader: int, start: int | str, credit: int) -> None:
        """Begin to read from the log here; refused where nothing runs."""
        if self.role != STOPPED:
            next_ = len(self.log) if start == NEXT else 0 if start == FIRST else int(start)
            self.readings[pid, reader] = Reading(next_, credit, self.life)
        self.effects.append((REPLY, pid, (READING, reader, self.role != STOPPED)))
        self._hand_out()

    def read_on(self, pid: Pid, reader: int) -> None:
        """A reader has heard that another life of the member has begun."""
        reading = self.readings.get((pid, reader))
        if reading is not None and self.role != STOPPED:
            reading.life = self.life
            self._hand_out()

    def grant(self, pid: Pid, reader: int, credit: int) -> None:
        reading = self.readings.get((pid, reader))
        if reading is not None:
            reading.credit += credit
            self._hand_out()

    def cancel(self, pid: Pid, reader: int) -> None:
        self.readings.pop((pid, reader), None)

    def ended(self, pid: Pid) -> None:
        """A channel is gone, and its readers with it."""
        for key in [key for key in self.readings if key[0] == pid]:
            del self.readings[key]

    def _hand_out(self) -> None:
        if self.role == STOPPED:
            return
        upto = len(self.log) if self.mutation == "read-uncommitted" else self.committed
        for (pid, reader), reading in self.readings.items():
            last = min(upto, reading.next + reading.credit)
            if reading.life == self.life and last > reading.next:
                items = [(offset, self.log[offset][3]) for offset in range(reading.next, last)]
                reading.credit -= len(items)
                reading.next = last
                self.effects.append((REPLY, pid, (HANDED, reader, items)))
