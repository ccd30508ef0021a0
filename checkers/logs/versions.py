"""In which order does each log hold its values? And where does the history contradict itself about that?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from chaos.model.op import INFO
from chaos.model.verdict import Anomaly
from checkers.logs.transactions import POLL, Transaction
from checkers.objects import Element, in_order, plain

Seen = Mapping[str, Mapping[Element, int]]  # by log and value: the index of an op


@dataclass(frozen=True)
class Order:
    """What a log holds. log: by offset, in order, the values seen there, each with the first op that shows it."""

    log: Mapping[int, Mapping[Element, int]]

    @cached_property
    def by_index(self) -> list[Element]:
        """A value for each offset at which any was seen. Where there are several, one that is nowhere else, if there
        is any: so most values have a place."""
        offsets = Counter(value for values in self.log.values() for value in values)
        return [
            next((value for value in values if offsets[value] == 1), next(iter(values))) for values in self.log.values()
        ]

    @cached_property
    def by_value(self) -> dict[Element, int]:
        """The index of each value; the last, where it has several."""
        return {value: index for index, value in enumerate(self.by_index)}

    def delta(self, before: Element, after: Element) -> int:
        """How many indices there are from one value to the other; 1, as it should be, where that is not known."""
        first, second = self.by_value.get(before), self.by_value.get(after)
        return 1 if first is None or second is None else second - first


def polled(transactions: Sequence[Transaction]) -> Seen:
    """What transactions that succeeded have polled, each value with the first of them."""
    found: dict[str, dict[Element, int]] = defaultdict(dict)
    for one in transactions:
        if one.ok:
            for key, pairs in one.polls.items():
                for _, value in pairs:
                    found[key].setdefault(value, one.index)
    return found


def committed(one: Transaction, seen: Seen) -> bool:
    """Whether a transaction surely took effect: it is ok, or one of its values was polled."""
    return one.ok or (
        one.type is INFO and any(value in seen.get(key, {}) for key, pairs in one.sends.items() for _, value in pairs)
    )


def orders(transactions: Sequence[Transaction], seen: Seen) -> dict[str, Order]:
    """The order of each log: as all polls tell, since what is polled is there whatever becomes of the transaction that
    polled it; and as those sends tell which surely took effect."""
    logs: dict[str, dict[int, dict[Element, int]]] = defaultdict(lambda: defaultdict(dict))
    for one in transactions:
        sent = committed(one, seen)
        for kind, by_key in one.steps:
            for key, pairs in by_key.items() if sent or kind == POLL else ():
                for offset, value in pairs:
                    if offset is not None:
                        logs[key][offset].setdefault(value, one.index)
    return {key: Order({offset: log[offset] for offset in sorted(log)}) for key, log in logs.items()}


def inconsistent(found: Mapping[str, Order]) -> list[Anomaly]:
    """Offsets at which several values were seen."""
    anomalies = []
    for key, order in found.items():
        for index, (offset, values) in enumerate(order.log.items()):
            if len(values) > 1:
                several = [plain(value) for value in in_order(values)]
                anomalies.append(
                    Anomaly(
                        "inconsistent-offsets",
                        f"{key} holds {' and '.join(map(repr, several[:5]))} at offset {offset}",
                        tuple(sorted(set(values.values()))),
                        {"key": key, "offset": offset, "index": index, "values": several},
                    )
                )
    return anomalies


def duplicates(found: Mapping[str, Order]) -> list[Anomaly]:
    """Values at several offsets."""
    anomalies = []
    for key, order in found.items():
        offsets: dict[Element, list[int]] = defaultdict(list)
        for offset, values in order.log.items():
            for value in values:
                offsets[value].append(offset)
        for value, at in offsets.items():
            if len(at) > 1:
                detail = {"key": key, "value": plain(value), "count": len(at), "offsets": at}
                ops = tuple(sorted({order.log[offset][value] for offset in at}))
                where = ", ".join(map(str, at[:5]))
                anomalies.append(Anomaly("duplicate", f"{key} holds {plain(value)!r} at offsets {where}", ops, detail))
    return anomalies
