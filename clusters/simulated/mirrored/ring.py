"""Guaranteed multicast: every operation of the master goes round the ring of members, in one order, to all or to none.

After RabbitMQ's `gm`, the chain replication of its documents: the master sends to the next member, each to the one on
its right, and the last back to the master, which then knows that all have it. A member passes an operation on once it
is on its own disk. Each keeps what it is not known to be everywhere, and sends that again to its right neighbour in
every new view; whoever has a number already passes it over. So when a master fails, what the first member after it has
reaches all others, and what it does not have is nowhere.

Each message carries the view in which it was sent: a member that has not heard of it yet does so by that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from clusters.simulated.mirrored.rules import COMPACT_EVERY, LEADER, MIRROR, RING, ROUND, STARTING
from clusters.simulated.mirrored.view import NOBODY, View
from clusters.simulated.replica import BELIEF, COMPACT, LOG, SEND, SYNC, WRITE, Message, Record, Replica

Operation = tuple[Any, ...]

# Journal records
OPERATIONS = 0  # number of the first, operations
VIEWED = 1  # view
STATE = 2  # number, messages: all there was then
ADDED = 3  # messages, older than what came by the ring


def _nothing(record: Record) -> bool:
    return False


class Ring(Replica):
    """A member's part in it. `last`: number of its newest operation; `done`: up to there all have them.

    `deaf`: members that were lost since the view began: nothing is passed on to them.
    """

    __slots__ = (
        "_base", "_durable", "_eager", "_heard", "_journalled", "_operations", "_passed", "_syncing",
        "_written", "deaf", "done", "last", "me", "nodes", "role", "view",
    )  # fmt: skip

    def __init__(self, me: str, nodes: Sequence[str]) -> None:
        super().__init__()
        self.me = me
        self.nodes = tuple(nodes)
        self.role = STARTING
        self.view = NOBODY
        self.deaf: dict[str, None] = {}
        self.last = self.done = 0
        self._operations: list[Operation] = []  # those after `_base`
        self._base = 0
        self._written = 0  # in the journal up to here,
        self._durable = 0  # and synced,
        self._passed = 0  # and passed on in this view
        self._heard = 0  # the left neighbour has passed on up to here in this view
        self._eager = False  # what is not written yet should be, at once
        self._syncing = False
        self._journalled = 0  # operations since the journal was last truncated

    # --- what a member adds to it

    @abstractmethod
    def carry_out(self, number: int, operation: Operation) -> None:
        """An operation is there."""

    @abstractmethod
    def rounded(self, before: int, done: int) -> None:
        """As master: all have the operations up to this number, and not up to the one before only."""

    @abstractmethod
    def takes(self, source: str, view: View) -> bool:
        """Whether a member's message of that view is for us; a newer view is installed first."""

    @abstractmethod
    def state(self) -> Record:
        """All messages, as a record."""

    # --- operations

    def begin(self, operation: Operation) -> None:
        """As master: an operation goes round."""
        self._append(operation)

    def flush(self) -> None:
        if self._eager and self._written < self.last:
            first = self._written + 1
            self.effects.append((WRITE, (OPERATIONS, first, tuple(self._operations[self._written - self._base :]))))
            self._journalled += self.last - self._written
            self._written = self.last
            if self._journalled >= COMPACT_EVERY:
                self._truncate()
        self._eager = False
        if self._durable < self._written and not self._syncing:
            self._sync()
        self._pass_on()

    def synced(self, token: Any) -> None:
        number, view = token
        self._syncing = False
        if view is self.view or view.same(self.view):  # what was synced before a view may have been discarded in it
            self._durable = max(self._durable, number)

    def on_ring(self, source: str, message: Message) -> None:
        _, view, upto, operations, done = message
        if not self.takes(source, view):
            return
        new = upto - self.last
        if new > len(operations):
            self.effects.append((LOG, "error", f"{source} passes on what comes after {upto - len(operations)} only"))
            return
        if new > 0:
            for operation in operations[-new:]:
                self._append(operation)
            self._eager = True
        self._heard = max(self._heard, upto)
        self._all_have(done)

    def on_round(self, source: str, message: Message) -> None:
        _, view, number = message
        if self.role == LEADER and view.same(self.view):
            self._all_have(number)

    def _append(self, operation: Operation) -> None:
        self._operations.append(operation)
        self.last += 1
        self.carry_out(self.last, operation)

    def _pass_on(self) -> None:
        if self.role == LEADER:
            upto = self._durable
        elif self.role == MIRROR:
            upto = min(self._durable, self._heard)
        else:
            return
        if upto <= self._passed:
            return
        right = self.view.right_of(self.me)
        if right == self.me:
            self._passed = upto
            self._all_have(upto)
        elif right not in self.deaf:
            if right == self.view.master:
                message: Message = (ROUND, self.view, upto)
            else:
                start = max(self._passed, self._base) - self._base
                message = (RING, self.view, upto, self._operations[start : max(upto - self._base, 0)], self.done)
            self._passed = upto
            self.effects.append((SEND, right, message))

    def _all_have(self, done: int) -> None:
        before = self.done
        if done > before:
            self.done = done
            base = min(done, self._written, self.last)
            if base > self._base:
                del self._operations[: base - self._base]
                self._base = base
            if self.role == LEADER:
                self.rounded(before, done)

    # --- views

    def view_begins(self, view: View, afresh: int | None) -> None:
        """From now on operations go round in this view; `afresh` at that number, if what was here is discarded."""
        self.view = view
        if afresh is None:
            self.effects.append((WRITE, (VIEWED, view)))
            self._sync()
        else:
            self._operations = []
            self.last = self._base = self._written = afresh
            self.done = 0
            self._truncate()
        self._passed = self._heard = min(self._base, self.done)

    def pass_on_again(self) -> None:
        """The right neighbour may not have what was sent to it in this view."""
        self._passed = self._base

    def believe(self) -> None:
        self.effects.append((BELIEF, self.role, self.view.number))

    # --- the journal

    def replay(self, record: Record) -> None:
        """Read a record back, in journal order."""
        if record[0] == OPERATIONS:
            for number, operation in enumerate(record[2], record[1]):
                self.last = number
                self.carry_out(number, operation)
        elif record[0] == VIEWED:
            self.view = record[1]
        elif record[0] == STATE:
            self.last = record[1]

    def replayed(self) -> None:
        """The journal has been read; a killed process's may yet lose its end to a loss of power."""
        self.done = self._base = self._written = self._durable = self._passed = self._heard = self.last
        self._operations = []
        if self.view.members:
            self._sync()

    def _sync(self) -> None:
        self._syncing = True
        self.effects.append((SYNC, (self._written, self.view)))

    def _truncate(self) -> None:
        self._journalled = 0
        self.effects.append((COMPACT, [self.state(), (VIEWED, self.view)], _nothing))
        self._durable = self._written  # it is synced at once

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        return (
            self.role, self.view, tuple(self.deaf), self.last, self.done, tuple(self._operations), self._base,
            self._written, self._durable, self._passed, self._heard, self._eager, self._syncing,
            self._journalled,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            self.role, self.view, deaf, self.last, self.done, operations, self._base, self._written, self._durable,
            self._passed, self._heard, self._eager, self._syncing, self._journalled,
        ) = state  # fmt: skip
        self.deaf = dict.fromkeys(deaf)
        self._operations = list(operations)
        self.effects.clear()
