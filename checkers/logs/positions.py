"""Do readers and writers move through each log from one value to the next?

Within a transaction, polls (and sends) of one log are to follow each other in its order. From transaction to
transaction of a process, too: a poll goes on behind the last one that succeeded. An assignment keeps positions in the
logs that it names, and drops all others. Not as in Jepsen, a poll that finds nothing in a log leaves the position where
it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from chaos.model.op import FAIL, INFO
from chaos.model.verdict import Anomaly
from checkers.logs.transactions import POLL, SEND, Pairs, Transaction
from checkers.logs.versions import Order
from checkers.objects import Element, plain

NOWHERE = Order({})


def within(transactions: Sequence[Transaction], orders: Mapping[str, Order]) -> list[Anomaly]:
    """Transactions that skip values of a log, or go back in it: int-poll-skip, int-nonmonotonic-poll, and the same of
    sends. Logs that were rebalanced meanwhile are not judged by their polls."""
    found = []
    for one in transactions:
        for verb, pairs in ((POLL, one.polls), (SEND, one.sends)):
            for key, some in pairs.items():
                if verb == POLL and key in one.rebalanced:
                    continue
                order = orders.get(key, NOWHERE)
                for (_, before), (_, after) in pairwise(some):
                    delta = order.delta(before, after)
                    said = {"key": key, "values": [plain(before), plain(after)], "delta": delta, "op": one.index}
                    moved = f"in {key} one transaction {verb}s {plain(before)!r} and then {plain(after)!r}"
                    if delta > 1:
                        skipped = _between(order, before, after)
                        told = said | {"skipped": skipped}
                        why = f"{moved}, and skips {_few(skipped)}"
                        found.append(Anomaly(f"int-{verb}-skip", why, (one.index,), told))
                    elif delta < 1:
                        found.append(
                            Anomaly(f"int-nonmonotonic-{verb}", f"{moved}, which is no later", (one.index,), said)
                        )
    return found


def polls(transactions: Sequence[Transaction], orders: Mapping[str, Order]) -> list[Anomaly]:
    """Processes that skip values of a log from poll to poll, or go back in it: poll-skip, nonmonotonic-poll."""
    found = []
    last: dict[int, dict[str, Transaction]] = defaultdict(dict)  # by process and log
    for one in transactions:
        at = last[one.process]
        if one.assigns:
            if one.type is not FAIL:
                last[one.process] = _kept(at, one)
            continue
        for key, before, after in _moves(at, one, one.polls, POLL):
            order = orders.get(key, NOWHERE)
            delta = order.delta(before, after)
            ops = (at[key].index, one.index)
            moved = f"process {one.process} polls {plain(after)!r} of {key} after {plain(before)!r}"
            if delta > 1:
                skipped = _between(order, before, after)
                told = {"key": key, "delta": delta, "skipped": skipped, "ops": list(ops)}
                found.append(Anomaly("poll-skip", f"{moved}, and skips {_few(skipped)}", ops, told))
            elif delta < 1:
                said = {"key": key, "values": [plain(before), plain(after)], "delta": delta, "ops": list(ops)}
                found.append(Anomaly("nonmonotonic-poll", f"{moved}, which is no later", ops, said))
        if one.ok:  # what failed leaves its consumer where it was
            at.update({key: one for key, pairs in one.polls.items() if pairs})
    return found


def sends(transactions: Sequence[Transaction], orders: Mapping[str, Order]) -> list[Anomaly]:
    """Processes whose sends go back in a log: nonmonotonic-send."""
    found = []
    last: dict[int, dict[str, Transaction]] = defaultdict(dict)
    for one in transactions:
        if not (one.ok or one.type is INFO):
            continue
        at = last[one.process]
        if one.assigns:
            last[one.process] = _kept(at, one)
            continue
        for key, before, after in _moves(at, one, one.sends, SEND):
            delta = orders.get(key, NOWHERE).delta(before, after)
            if delta < 1:
                ops = (at[key].index, one.index)
                said = {"key": key, "values": [plain(before), plain(after)], "delta": delta, "ops": list(ops)}
                moved = f"process {one.process} sent {plain(before)!r} to {key} and then {plain(after)!r}"
                found.append(Anomaly("nonmonotonic-send", f"{moved}, which is no later there", ops, said))
        at.update(dict.fromkeys(one.sends, one))
    return found


def _moves(
    at: Mapping[str, Transaction], one: Transaction, pairs: Pairs, verb: str
) -> list[tuple[str, Element, Element]]:
    """For each log the last value of the transaction before and the first of this one."""
    moves = []
    for key, some in pairs.items():
        if some and key in at:
            before = at[key].polls if verb == POLL else at[key].sends
            moves.append((key, before[key][-1][1], some[0][1]))
    return moves


def _kept(at: Mapping[str, Transaction], assignment: Transaction) -> dict[str, Transaction]:
    return {key: one for key, one in at.items() if key in assignment.keys}


def _between(order: Order, before: Element, after: Element) -> list[object]:
    passed = order.by_index[order.by_value[before] + 1 : order.by_value[after]]
    return [plain(value) for value in passed]


def _few(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values[:5])) + (f" and {len(values) - 5} more" if len(values) > 5 else "")
