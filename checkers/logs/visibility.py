"""Is what was sent polled, and nothing else? By log and value, whoever sent and polled it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chaos.model.op import FAIL
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly
from checkers.logs.transactions import TRANSACTIONS, Transaction
from checkers.logs.versions import Order, Seen, committed
from checkers.objects import Element, in_order, plain

Writers = Mapping[str, Mapping[Element, Transaction]]  # by log and value


def writers(transactions: Sequence[Transaction]) -> Writers:
    """Who sent each value: where somebody tried again, the one that did not fail."""
    found: dict[str, dict[Element, Transaction]] = defaultdict(dict)
    for one in transactions:
        for key, pairs in one.sends.items():
            for _, value in pairs:
                if one.type is not FAIL or value not in found[key]:
                    found[key][value] = one
    return found


def aborted(transactions: Sequence[Transaction], sent: Writers) -> list[Anomaly]:
    """G1a: values polled by a transaction that succeeded, and sent by one that failed."""
    found = []
    for one in transactions:
        for key, value in _polled(one) if one.ok else ():
            writer = sent.get(key, {}).get(value)
            if writer is not None and writer.type is FAIL:
                said = {"key": key, "value": plain(value), "writer": writer.index, "reader": one.index}
                ops = tuple(sorted((writer.index, one.index)))
                found.append(Anomaly("G1a", f"{plain(value)!r} is polled from {key}, and its send failed", ops, said))
    return found


def precommitted(transactions: Sequence[Transaction]) -> list[Anomaly]:
    """Transactions that poll what they send themselves: values are to be invisible until they are committed."""
    found = []
    for one in transactions:
        polled = dict.fromkeys(_polled(one))
        own = ((key, value) for key, pairs in one.sends.items() for _, value in pairs if (key, value) in polled)
        for key, value in own:
            said = {"op": one.index, "key": key, "value": plain(value)}
            why = f"a transaction polls {plain(value)!r} from {key}, which it sends itself"
            found.append(Anomaly("precommitted-read", why, (one.index,), said))
            break
    return found


def unexpected(transactions: Sequence[Transaction], sent: Writers) -> list[Anomaly]:
    """Values polled that nobody ever sent. Jepsen's own code dies of them."""
    found: dict[tuple[str, Element], Anomaly] = {}
    for one in transactions:
        for key, value in _polled(one):
            if value not in sent.get(key, {}) and (key, value) not in found:
                said = {"op": one.index, "key": key, "value": plain(value)}
                why = f"{plain(value)!r} is polled from {key}, and nobody sent it"
                found[key, value] = Anomaly("unexpected", why, (one.index,), said)
    return list(found.values())


def lost(transactions: Sequence[Transaction], orders: Mapping[str, Order], seen: Seen, sent: Writers) -> list[Anomaly]:
    """Values that surely were in a log, before one that was polled, and were never polled themselves.

    Where the log holds other values at one offset, or one value at several, this is not to depend on which of them its
    order took: a value must have been polled if its last place is not after the first place of one that was.
    """
    found = []
    for key, values in seen.items():
        log = orders[key].log if key in orders else {}
        firsts: dict[Element, int] = {}
        lasts: dict[Element, int] = {}
        for index, there in enumerate(log.values()):
            for value in there:
                firsts.setdefault(value, index)
                lasts[value] = index
        bound, reader = max(((firsts[value], op) for value, op in values.items() if value in firsts), default=(-1, -1))
        for value in sorted(lasts, key=lambda value: lasts[value]):
            writer = sent.get(key, {}).get(value)
            if lasts[value] > bound or value in values or writer is None or not committed(writer, seen):
                continue
            said = {
                "key": key,
                "value": plain(value),
                "index": firsts[value],
                "max-read-index": bound,
                "writer": writer.index,
                "max-read": reader,
            }
            why = f"{plain(value)!r} was sent to {key}, and never polled, though what comes after it was"
            found.append(Anomaly("lost-write", why, tuple(sorted({writer.index, reader})), said))
    return found


def unseen(
    transactions: Sequence[Transaction],
) -> Iterator[tuple[int, dict[str, int], Mapping[str, Mapping[Element, int]]]]:
    """After each transaction that succeeded: its time in ns, how many values of each log were acknowledged and not
    polled by then, and which (with the op that sent each; to be read before the next is asked for).

    In Jepsen, a value polled whose send was not acknowledged counts as unseen for a moment; not here.
    """
    waiting: dict[str, dict[Element, int]] = {}
    polled: dict[str, set[Element]] = defaultdict(set)
    for one in transactions:
        if not one.ok or one.f not in TRANSACTIONS:
            continue
        for key, pairs in one.sends.items():
            log = waiting.setdefault(key, {})
            log.update({value: one.index for _, value in pairs if value not in polled[key]})
        for key, value in _polled(one):
            polled[key].add(value)
            waiting.get(key, {}).pop(value, None)
        yield one.time, {key: len(values) for key, values in waiting.items()}, waiting


def tail(transactions: Sequence[Transaction]) -> tuple[list[Anomaly], int]:
    """What is still unseen in the end: the first values of each log, and how many there are of all."""
    waiting: Mapping[str, Mapping[Element, int]] = {}
    for _, _, now in unseen(transactions):
        waiting = now
    found = []
    for key, values in waiting.items():
        for value in in_order(values)[:ANOMALIES_KEPT]:
            said = {"key": key, "value": plain(value), "op": values[value]}
            found.append(
                Anomaly("unseen", f"{plain(value)!r} was sent to {key}, and never polled", (values[value],), said)
            )
    return found, sum(map(len, waiting.values()))


def _polled(one: Transaction) -> Iterator[tuple[str, Element]]:
    return ((key, value) for key, pairs in one.polls.items() for _, value in pairs)
