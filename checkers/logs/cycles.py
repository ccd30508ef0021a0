"""Do transactions depend on each other in a circle?

A transaction depends on another (Adya, 1999) if it polls what that one sent (wr); if it began after that one had
succeeded (realtime); and, where offsets are to order transactions (ww), if it sent the value next in a log to that
one's. Cycles are named as Elle does, with which Jepsen finds them: G0 of ww alone, G1c with a wr, and with `-realtime`
those that need a dependency in time. Of each set of transactions in circles one cycle is told, of the first of these
kinds that there is, and the shortest that a search from a hundred dependencies finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from chaos.model.verdict import Anomaly
from checkers.logs.transactions import POLL, SEND, TRANSACTIONS, Transaction
from checkers.logs.versions import Order
from checkers.logs.visibility import Writers
from checkers.objects import Element, plain

Graph = list[dict[int, None]]  # by place of a transaction: those that depend on it
TRIED = 100


def cycles(
    transactions: Sequence[Transaction], orders: Mapping[str, Order], sent: Writers, ww_deps: bool
) -> list[Anomaly]:
    """A cycle, the worst, for each set of transactions that depend on each other in circles."""
    nodes = [one for one in transactions if one.f in TRANSACTIONS]
    place = {id_: at for at, id_ in enumerate(one.index for one in nodes)}
    wr = _polls(nodes, place, sent)
    ww = _sends(nodes, place, orders, sent) if ww_deps else [{} for _ in nodes]
    time = realtime(nodes)
    said = _Explained(nodes, orders if ww_deps else {}, sent)
    found = []
    for circle in components(_joined([ww, wr, time], range(len(nodes))), range(len(nodes))):
        for kind, through, others in (
            ("G0", ww, [ww]),
            ("G1c", wr, [ww, wr]),
            ("G0-realtime", ww, [ww, time]),
            ("G1c-realtime", wr, [ww, wr, time]),
        ):
            cycle = _shortest(through, _joined(others, circle), circle)
            if cycle:
                found.append(said.anomaly(kind, cycle))
                break
    return found


def components(graph: Graph, nodes: Sequence[int]) -> list[list[int]]:
    """The sets of more than one node that can all reach each other (Tarjan, 1972), each in order."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: dict[int, None] = {}
    work: list[tuple[int, Iterator[int]]] = []
    found = []

    def enter(node: int) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack[node] = None
        work.append((node, iter(graph[node])))

    def leave(node: int) -> list[int]:
        members: list[int] = []
        while not members or members[-1] != node:
            members.append(stack.pop())
            del on_stack[members[-1]]
        return sorted(members)

    for root in nodes:
        if root not in number:
            enter(root)
        while work:
            node, ahead = work[-1]
            for other in ahead:
                if other not in number:
                    enter(other)
                    break
                if other in on_stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    found.append(leave(node))
    return [members for members in found if len(members) > 1]


def _shortest(through: Graph, graph: Graph, circle: Sequence[int]) -> list[int]:
    """The shortest cycle with an edge of `through`; it begins with the node that comes last. Empty: there is none."""
    inside = {node: number for number, part in enumerate(components(graph, circle)) for node in part}
    edges = (
        (first, second) for first in inside for second in through[first] if inside[first] == inside.get(second, -1)
    )
    best: list[int] = []
    for first, second in islice(edges, TRIED):
        path = _path(graph, second, first)
        if not best or len(path) < len(best):
            best = path
        if len(best) == 2:
            break
    last = best.index(max(best)) if best else 0
    return best[last:] + best[:last]


def _path(graph: Graph, start: int, end: int) -> list[int]:
    """A shortest path; there is one."""
    came: dict[int, int] = {start: start}
    ahead = [start]
    while end not in came:
        behind, ahead = ahead, []
        for node in behind:
            for other in graph[node]:
                if other not in came:
                    came[other] = node
                    ahead.append(other)
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _joined(graphs: Sequence[Graph], nodes: Sequence[int]) -> Graph:
    """The edges of all of them among these nodes."""
    among = dict.fromkeys(nodes)
    joined: Graph = [{} for _ in graphs[0]]
    for node in nodes:
        for graph in graphs:
            joined[node].update((other, None) for other in graph[node] if other in among)
    return joined


def _polls(nodes: Sequence[Transaction], place: Mapping[int, int], sent: Writers) -> Graph:
    graph: Graph = [{} for _ in nodes]
    for at, one in enumerate(nodes):
        for key, pairs in one.polls.items():
            for _, value in pairs:
                writer = sent.get(key, {}).get(value)
                if writer is not None and writer is not one:
                    graph[place[writer.index]][at] = None
    return graph


def _sends(nodes: Sequence[Transaction], place: Mapping[int, int], orders: Mapping[str, Order], sent: Writers) -> Graph:
    graph: Graph = [{} for _ in nodes]
    for key, values in sent.items():
        for value, one in values.items():
            before = _before(orders, key, value)
            writer = values.get(before) if before is not None else None
            if writer is not None and writer is not one:
                graph[place[writer.index]][place[one.index]] = None
    return graph


def _before(orders: Mapping[str, Order], key: str, value: Element) -> Element | None:
    """The value before this one in its log."""
    index = orders[key].by_value.get(value, 0) if key in orders else 0
    return orders[key].by_index[index - 1] if index else None


def realtime(nodes: Sequence[Transaction]) -> Graph:
    """What ended before what began: of each transaction that succeeded, to those that began before anything else had
    succeeded that began after it. What follows from others by way of third ones is left out."""
    graph: Graph = [{} for _ in nodes]
    earlier: list[dict[int, None]] = [{} for _ in nodes]  # the other way round
    ended: dict[int, None] = {}
    events = sorted(
        [(one.asked, 0, at) for at, one in enumerate(nodes)] + [(one.row, 1, at) for at, one in enumerate(nodes)]
    )
    for _, end, at in events:
        if not end:
            earlier[at] = dict(ended)
            for other in ended:
                graph[other][at] = None
        elif nodes[at].ok:
            for other in earlier[at]:
                ended.pop(other, None)
            ended[at] = None
    return graph


class _Explained:
    def __init__(self, nodes: Sequence[Transaction], orders: Mapping[str, Order], sent: Writers) -> None:
        self._nodes, self._orders, self._sent = nodes, orders, sent

    def anomaly(self, kind: str, cycle: Sequence[int]) -> Anomaly:
        round_ = [self._nodes[at] for at in (*cycle, cycle[0])]
        steps = [self._step(kind, one, other) for one, other in pairwise(round_)]
        ops = [one.index for one in round_]
        why = "; ".join(_sentence(step, *pair) for step, pair in zip(steps, pairwise(ops), strict=True))
        return Anomaly(kind, why, tuple(sorted(ops[1:])), {"type": kind, "cycle": ops, "steps": steps})

    def _step(self, kind: str, one: Transaction, other: Transaction) -> dict[str, Any]:
        for key, pairs in other.sends.items():
            for _, value in pairs:
                before = _before(self._orders, key, value)
                if before is not None and self._sent.get(key, {}).get(before) is one:
                    places = {"a-mop-index": _mop(one, SEND, key, before), "b-mop-index": _mop(other, SEND, key, value)}
                    return {"type": "ww", "key": key, "value": plain(before), "value'": plain(value), **places}
        for key, pairs in other.polls.items():
            for _, value in pairs:
                if self._sent.get(key, {}).get(value) is one:
                    places = {"a-mop-index": _mop(one, SEND, key, value), "b-mop-index": _mop(other, POLL, key, value)}
                    return {"type": "wr", "key": key, "value": plain(value), **places}
        return {"type": "realtime"}


def _mop(one: Transaction, verb: str, key: str, value: Element) -> int:
    """Which micro-operation of a transaction it is that sends or polls a value."""
    return next(
        at
        for at, (kind, pairs) in enumerate(one.steps)
        if kind == verb and any(other == value for _, other in pairs.get(key, []))
    )


def _sentence(step: Mapping[str, Any], one: int, other: int) -> str:
    if step["type"] == "wr":
        return f"#{other} polls {step['value']!r} of {step['key']}, which #{one} sent"
    if step["type"] == "ww":
        after = step["value'"]
        return f"#{other} sent {after!r} to {step['key']}, next to {step['value']!r} of #{one}"
    return f"#{other} began when #{one} had ended"
