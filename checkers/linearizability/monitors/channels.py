"""Queues and bags with ordered channels, whose operations overlap (pipelined confirms, prefetch) and yet take effect in
the order of their calls.

Queue. As in `fifo`, with its b' and c', which are b and c here: `x -> y` iff x must be before y in the queue, by b_x
< a_y, or d_x < c_y, or because x's put comes before y's, or x's take, in one channel; and it is linearizable iff `->`
has no cycle: the proof there uses nothing else of `->`, and the points it gives keep the order of the numbering, so
that of channels. But with channels a shortest cycle may be long. Let A_v be the greatest a of v and all from which
edges by channels and by takes (d_x < c_y) lead to v, and C_v the greatest c of v and all from which channels lead to
v. They are found by rounds of running maxima, along channels and over time, until nothing changes.
- A_v > b_v is a cycle: A_v is the a of some z that leads to v, and v -> z. So is C_v > d_v.
- If there is neither, there is no edge by puts on a cycle: from one such edge b_x < a_y to the next one on it, b_z <
  a_u, would be b_x < a_y <= A_z <= b_z, around to itself. Nor, then, one by takes: likewise d_x < c_y <= C_z <= d_z.
  So what is left is to look for a cycle of channel edges alone, on which A and C are all equal. There are few such
  edges, as calls differ. A round is O(n), after sorting. There are as many rounds as ways that gain something
  alternate between channels and time: a handful, as a rule.

Values never seen again have no edges that lead out of their takes (d infinite), nor any into them at first (c = a). Of
u and all to which `->` leads from it, D_u, the least d, and along channels alone B_u, the least b, come from the same
rounds run backwards: time and edges reversed, a queue is a queue again, with puts for takes (by edges by takes D_u
could only become less if there was a cycle). Each u with D_u finite needs an unknown take called before D_u. If each
gets one, no cycle appears: one through the new takes would give d_w < p_u < D_u' <= d_w' < p_u' < D_u'' ... around to
itself. The proof that not fewer unknown takes do is by deadlines as before.

Empty answers: of values seen again a moment t will do iff none is both left of it for certain and right of it for
certain. What leads to a left one is left, so this fails iff a way leads from some y with c_y > t to some z with b_z <
t. Go along it from the last such y: by channels up to z, or up to an edge b_x < a_v or d_x < c_v, with c_v < t. So
there is an x with b_x < t < C_x: the moments to be avoided are those in some [b_x, C_x). Likewise, at other moments,
one never seen again is left for certain from B_u on, and needs an unknown take by the first moment chosen after that:
see `moments`.

Bag. Puts need no order but that of channels, so a value is consumed too early only if d_x < a_v, for a v taken before x
in a channel. Empty answers: as above, with channel edges alone (those by time never lead from right of t to left of
it); a value never seen again must be gone as soon as one to which channel edges lead from it is left of t for certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.model.history import NONE
from checkers.linearizability.calls import F
from checkers.linearizability.monitors import moments
from checkers.linearizability.monitors.found import Found
from checkers.linearizability.monitors.matching import missed
from checkers.linearizability.monitors.queues import FRESH, Values, empties, unseen
from checkers.linearizability.monitors.ranks import Ranks, Rows, grouped, objects, refuse
from checkers.linearizability.verdict import Violation

CYCLE, OVERTAKEN = "cycle", "overtaken"


@dataclass(frozen=True, slots=True)
class Chain:
    """Places in the order of their channels, one channel after the other; `of` is the channel, counted from 0."""

    order: Rows
    of: Rows

    def climb(self, ranks: Ranks, size: int) -> None:
        """Make each the greatest of those up to it in its channel."""
        lift = self.of * (size + 2)
        ranks[self.order] = np.maximum.accumulate(ranks[self.order] + lift) - lift

    def back(self) -> Chain:
        """The same backwards."""
        return Chain(self.order[::-1], (self.of[-1] - self.of[::-1]) if len(self.of) else self.of)

    def edges(self) -> tuple[Rows, Rows]:
        """Neighbours."""
        same = self.of[1:] == self.of[:-1]
        return self.order[:-1][same], self.order[1:][same]


@dataclass(frozen=True, slots=True)
class Chains:
    """Channels of puts, and of takes; whose value is in them."""

    put: Chain
    take: Chain

    def climb(self, ranks: Ranks, size: int) -> None:
        """Make each the greatest of those from which channels lead to it, of puts and of takes in turn."""
        while True:
            was = ranks.copy()
            self.put.climb(ranks, size)
            self.take.climb(ranks, size)
            if np.array_equal(was, ranks):
                return

    def back(self) -> Chains:
        """The same backwards, with puts for takes."""
        return Chains(self.take.back(), self.put.back())


def chains(all_: Values) -> Chains | None:
    """The channels, if operations of one overlap. Raises Refused if these are not all puts, or all takes of values."""
    calls, row = all_.calls, all_.line
    rows = np.flatnonzero(calls.channel >= 0)
    if len(rows) == 0:
        return None
    rows = rows[grouped(objects(calls.channel[rows]))]
    of = calls.channel[rows]
    step = of[1:] != of[:-1]
    if row.key is not None:
        rows = rows[grouped(row.key[rows])]
        of = calls.channel[rows]
        step = (of[1:] != of[:-1]) | (row.key[rows][1:] != row.key[rows][:-1])
    number = np.concatenate(([0], np.cumsum(step)))
    overlap = np.append(False, ~step & (row.ret[rows][:-1] > row.call[rows][1:]))
    if not overlap.any():
        return None
    ordered = np.zeros(int(number[-1]) + 1, dtype=np.bool_)
    ordered[number[overlap]] = True
    keep = ordered[number]
    rows, number = rows[keep], number[keep]
    is_put = calls.f[rows] == F.PUT
    mixed = np.append(False, (is_put[1:] != is_put[:-1]) & (number[1:] == number[:-1]))
    if mixed.any():
        refuse(calls, int(rows[np.argmax(mixed)]), "is in a channel of both puts and takes that overlap")
    valued = is_put | np.isin(rows, all_.take)
    blank = ~valued & (calls.out[rows] == NONE)
    if blank.any():
        refuse(calls, int(rows[np.argmax(blank)]), "is an empty or unknown take in a channel whose takes overlap")
    place = np.searchsorted(all_.put, rows[is_put])
    kept = (all_.taken[place] >= 0) | (all_.b[place] < row.size)  # the others hold nobody up
    put = Chain(place[kept], number[is_put][kept])
    who = np.full(len(all_.take), -1, dtype=np.intp)
    who[all_.taken] = np.arange(len(all_.put))
    is_take = valued & ~is_put
    place = who[np.searchsorted(all_.take[:-1], rows[is_take])]
    first = all_.take[all_.taken[place]] == rows[is_take]  # not one of a value taken twice
    return Chains(put, Chain(place[first], number[is_take][first]))


@dataclass(frozen=True, slots=True)
class Graph:
    """`x -> y` of a queue: b_x < a_y, d_x < c_y, and channels."""

    a: Ranks
    b: Ranks
    c: Ranks
    d: Ranks
    chains: Chains
    size: int

    def back(self) -> Graph:
        """Time and edges reversed: puts for takes, returns for calls."""
        size = self.size
        return Graph(size - self.d, size - self.c, size - self.b, size - self.a, self.chains.back(), size)

    def greatest(self) -> tuple[Ranks, Ranks]:
        """A and C, or what shows a cycle: somewhere A > b or C > d."""
        top_a, top_c = self.a.copy(), self.c.copy()
        self.chains.climb(top_c, self.size)
        by_d = np.argsort(self.d)
        before = np.searchsorted(self.d[by_d], self.c)
        while not (top_a > self.b).any():
            was = top_a.copy()
            self.chains.climb(top_a, self.size)
            so_far = np.maximum.accumulate(np.append(-1, top_a[by_d]))
            np.maximum(top_a, so_far[before], out=top_a)
            if np.array_equal(was, top_a):
                break
        return top_a, top_c

    def knot(self, top_a: Ranks, top_c: Ranks) -> int:
        """A place on a cycle of channel edges between values of equal A and C, -1 if there is none."""
        after: dict[int, list[int]] = {}
        for chain in (self.chains.put, self.chains.take):
            x, y = chain.edges()
            tie = (top_a[x] == top_a[y]) & (top_c[x] == top_c[y])
            for one, other in zip(x[tie].tolist(), y[tie].tolist(), strict=True):
                after.setdefault(one, []).append(other)
        done: set[int] = set()
        for root in after:
            path, trail = [root], [iter(after.get(root, ()))]
            on = {root}
            while path:
                if path[-1] in done:
                    on.discard(path.pop())
                    trail.pop()
                    continue
                step = next(trail[-1], None)
                if step is None:
                    done.add(path[-1])
                elif step in on:
                    return step
                elif step not in done:
                    path.append(step)
                    on.add(step)
                    trail.append(iter(after.get(step, ())))
        return -1

    def path(self, start: int, goal: int) -> list[int]:
        """A shortest way along `->`, of one edge at least."""
        parent = np.full(len(self.a), -1, dtype=np.intp)
        level = np.asarray([start])
        edges = [chain.edges() for chain in (self.chains.put, self.chains.take)]
        while parent[goal] < 0 and len(level):
            fresh = parent < 0
            for chain_x, chain_y in edges:
                here = np.isin(chain_x, level) & fresh[chain_y]
                parent[chain_y[here]] = chain_x[here]
            for begin, end in ((self.a, self.b), (self.c, self.d)):
                x = int(level[np.argmin(end[level])])
                parent[(parent < 0) & (begin > end[x])] = x
            level = np.flatnonzero(fresh & (parent >= 0))
        way = [goal]
        while len(way) == 1 or way[-1] != start:
            way.append(int(parent[way[-1]]))
        return way[::-1]


def fifo(all_: Values, chains_: Chains, found: Found) -> None:
    """What breaks the rules of a queue."""
    if found.at is not None:  # with one value; what follows takes values to be sound
        return
    row, graph = all_.line, _graph(all_, chains_)
    top_a, top_c = graph.greatest()
    at = _cycle(graph, top_a, top_c)
    if at >= 0:
        found.first(np.ones(1, dtype=np.bool_), all_.a[at:], lambda _: _told(all_, graph, graph.path(at, at)))
        return
    lost = np.flatnonzero((all_.taken < 0) & (all_.b < row.size))
    if len(lost) == 0:
        empties(all_, found, graph.b, top_c, np.full(len(top_c), row.size))
        return
    due, begin = (graph.size - latest[lost] for latest in graph.back().greatest())
    due = np.where(due < row.end(all_.a[lost]), due, row.size)
    by_due = np.argsort(due, kind="stable")
    late = by_due[due[by_due] < row.size]
    bad = missed(row, all_.jokers, due[late])
    found.first(bad, due[late], lambda place: _overtaken(all_, graph, int(lost[late[place]]), int(due[late[place]])))
    if len(all_.empty):
        moments.empties(all_, found, graph.b, top_c, moments.Lost(lost, begin, due))


def _cycle(graph: Graph, top_a: Ranks, top_c: Ranks) -> int:
    over = (top_a > graph.b) | (top_c > graph.d)
    return int(np.argmin(np.where(over, graph.a, graph.size))) if over.any() else graph.knot(top_a, top_c)


def _graph(all_: Values, chains_: Chains) -> Graph:
    """With what never happened after the end of time, where nothing leads from it."""
    seen, size = all_.taken >= 0, all_.line.size
    happened = seen | (all_.b < size)
    a = np.where(happened, all_.a, -1).astype(np.int64)
    c = np.where(seen, np.maximum(all_.a, all_.c), a)
    d = np.where(happened, all_.d, size).astype(np.int64)
    return Graph(a, np.minimum(all_.b, d), c, d, chains_, size)


def bag(all_: Values, chains_: Chains, found: Found) -> None:
    """What breaks the rules of a bag."""
    row, chain = all_.line, chains_.take
    latest = all_.a.astype(np.int64)
    chain.climb(latest, row.size)
    found.first(latest > all_.d, all_.d, lambda place: _early(all_, chain, place, int(latest[place])))
    if len(all_.empty) == 0:
        return
    graph = _graph(all_, chains_)
    until, gone = graph.c.copy(), graph.size - graph.b
    chains_.climb(until, graph.size)
    chains_.back().climb(gone, graph.size)
    empties(all_, found, graph.b, until, np.where(all_.taken < 0, graph.size - gone, row.size))


def _told(all_: Values, graph: Graph, way: list[int]) -> Violation:
    """A cycle, edge by edge."""
    rows, words = _edges(all_, graph, way)
    return Violation(CYCLE, rows, f"{'; '.join(words)}: so no order is first in, first out")


def _edges(all_: Values, graph: Graph, way: list[int]) -> tuple[tuple[int, ...], list[str]]:
    rows: set[int] = set()
    words = []
    puts = set(zip(*(side.tolist() for side in graph.chains.put.edges()), strict=True))
    takes = set(zip(*(side.tolist() for side in graph.chains.take.edges()), strict=True))
    for x, y in pairwise(way):
        v, w = all_.value(x), all_.value(y)
        (put_x, take_x), (put_y, take_y) = all_.rows(x), all_.rows(y)
        if (x, y) in puts:
            rows |= {put_x, put_y}
            words.append(f"message {v} was published before {w}, in channel {all_.calls.channel[put_x]}")
        elif (x, y) in takes:
            rows |= {take_x, take_y}
            words.append(f"message {v} was consumed before {w}, in channel {all_.calls.channel[take_x]}")
        elif graph.b[x] < graph.a[y]:
            rows |= {put_x if all_.b[x] < graph.a[y] else take_x, put_y}
            left = "confirmed" if all_.b[x] < graph.a[y] else "consumed"
            words.append(f"message {v} was {left} before {w} was published")
        else:
            rows |= {take_x, take_y if all_.c[y] > all_.d[x] else put_y}
            words.append(f"message {v} was consumed before {w} was asked for")
    return tuple(sorted(rows)), words


def _overtaken(all_: Values, graph: Graph, earlier: int, deadline: int) -> Violation:
    later = int(np.flatnonzero(all_.d == deadline)[0])
    rows, words = _edges(all_, graph, graph.path(earlier, later))
    v, w = all_.value(earlier), all_.value(later)
    words.append(f"yet {w} was consumed, and {v} never was{unseen(all_, deadline)}")
    return Violation(OVERTAKEN, tuple(sorted({*rows, all_.rows(later)[1]})), "; ".join(words))


def _early(all_: Values, chain: Chain, later: int, published: int) -> Violation:
    earlier = int(chain.order[np.flatnonzero(all_.a[chain.order] == published)[0]])
    v, w = all_.value(earlier), all_.value(later)
    channel = all_.calls.channel[all_.rows(later)[1]]
    text = f"message {v} was consumed before {w}, in channel {channel}, and {w} was consumed before {v} was published"
    return Violation(FRESH, tuple(sorted({*all_.rows(earlier), all_.rows(later)[1]})), text)
