"""Worlds: all nodes, the messages under way, what was spent of the bounds, and the chronicle; a flat tuple of numbers.

    (local of each node, chronicle, spent, letter, letter, ...)

A local is a node's core and what it has left of its own bounds. Locals, letters and chronicles are numbered as they are
first met. What an event does to a local is worked out once, on the replica's code, and then looked up: the nodes of
very many worlds are in few states. `spent` is publishes, losses and duplications so far. Letters (messages under way)
are in no order, for any may arrive next, and sorted. One that never arrives is lost: a loss needs no event of its own,
but where `losses` asks for it.

An event that changes nothing and sends nothing is left out: the world after it can do only what this one can as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

from chaos.search.prove.invariants import Chronicle, Violation, matching, witness
from chaos.search.prove.model import RESTARTS, Core, Model, View
from chaos.search.prove.node import CONNECT, DELIVER, DISCONNECT, FIRE, KILL, POWER, PUBLISH, SYNCED, Event, Node

World = tuple[int, ...]

# What befalls a letter, beside being delivered
LOSE = "lose"
REPEAT = "repeat"  # it is delivered, and still under way

CONNECTIONS = (("reconnects", CONNECT), ("disconnects", DISCONNECT))
LOSS = 1 << 10  # one of them in `spent`, where publishes count from 1: more than MANY of either
DUPLICATION = 1 << 20


class Local(NamedTuple):
    """A node: its number, its core, and what is left of each of its own bounds, in the model's order."""

    node: int
    core: Core
    left: tuple[int, ...]


class Letter(NamedTuple):
    """A message under way, between nodes by number."""

    source: int
    target: int
    message: tuple[Any, ...]


class Move(NamedTuple):
    """One step of a world: an event at a node, or what befalls a letter. `letter`: its number, if it is about one."""

    node: int
    event: Event
    letter: int | None = None


class Result(NamedTuple):
    """What a move makes of a local: the one after it, the letters that it sends, and whether it looks different."""

    move: Move
    local: int
    sent: tuple[int, ...]
    seen: bool


Step = tuple[Move, World, Violation | None]


class Worlds:
    """Everything that was met so far, by number. `memo`: whether results are looked up; without, the replica's code
    runs for every step, which comes to the same."""

    def __init__(self, model: Model, memo: bool = True) -> None:
        self.model = model
        self.size = len(model.nodes)
        self.locals: list[Local] = []
        self.views: list[View] = []  # of each local
        self.letters: list[Letter] = []
        self.chronicles: list[Chronicle] = []
        self._local: dict[Local, int] = {}
        self._letter: dict[Letter, int] = {}
        self._chronicle: dict[Chronicle, int] = {}
        self._nodes = [Node(model, name) for name in model.nodes]
        self._number = {name: number for number, name in enumerate(model.nodes)}
        self._memo = memo
        self._own: dict[int, tuple[Result, ...]] = {}
        self._deliveries: dict[tuple[int, int], Result | None] = {}
        self._ends: list[tuple[int, int]] = []  # of each letter: source and target
        self._dead: dict[tuple[int, int], bool] = {}
        self._publishes: dict[tuple[int, int], tuple[Result, ...]] = {}
        self._witnessed: dict[tuple[int, int], int | Violation] = {}
        self._matching: dict[tuple[int, int], bool] = {}
        limits = model.limits
        self._publications = limits.get("publishes", 0)
        self._losses = limits["losses"]
        self._duplications = limits["duplications"]
        self._in_flight = limits["in-flight"] or sys.maxsize
        self._place = {bound: place for place, bound in enumerate(model.each)}

    # --- numbers

    def local(self, local: Local, view: View) -> int:
        """The number of a local, which looks so."""
        number = self._local.setdefault(local, len(self.locals))
        if number == len(self.locals):
            self.locals.append(local)
            self.views.append(view)
        return number

    def letter(self, letter: Letter) -> int:
        """Its number."""
        number = self._letter.setdefault(letter, len(self.letters))
        if number == len(self.letters):
            self.letters.append(letter)
            self._ends.append(letter[:2])
        return number

    def chronicle(self, chronicle: Chronicle) -> int:
        """Its number."""
        number = self._chronicle.setdefault(chronicle, len(self.chronicles))
        if number == len(self.chronicles):
            self.chronicles.append(chronicle)
        return number

    # --- steps

    def first(self) -> World:
        """All nodes have just started, for the first time."""
        left = tuple(self.model.limits[bound] for bound in self.model.each)
        locals_: list[int] = []
        letters: list[int] = []
        for number, node in enumerate(self._nodes):
            core, view, sent = node.first()
            locals_.append(self.local(Local(number, core, left), view))
            letters += [self.letter(Letter(number, self._number[target], message)) for target, message in sent]
        return (*locals_, self.chronicle(Chronicle()), 0, *sorted(letters))

    def steps(self, world: World) -> Iterator[Step]:
        """Each step that can come next, the world after it, and the invariant that it breaks."""
        size = self.size
        spent = world[size + 1]
        under_way = world[size + 2 :]
        for local in world[:size]:
            for result in self._own[local] if local in self._own else self._own_results(local):
                yield from self._step(world, result, under_way, spent)
        if (publishes := spent % LOSS) < self._publications:
            for local in world[:size]:
                key = (local, publishes)
                for result in self._publishes[key] if key in self._publishes else self._publish(key):
                    yield from self._step(world, result, under_way, spent + 1)
        may_lose = spent % DUPLICATION // LOSS < self._losses
        may_repeat = spent // DUPLICATION < self._duplications
        before = -1
        for place, letter in enumerate(under_way):
            if letter == before:
                continue
            before = letter
            pair = (world[self.letters[letter].target], letter)
            delivered = self._deliveries[pair] if pair in self._deliveries else self._deliver(pair)
            rest = under_way[:place] + under_way[place + 1 :]
            if delivered is not None:
                yield from self._step(world, delivered, rest, spent)
                if may_repeat:
                    again = delivered._replace(move=delivered.move._replace(event=(REPEAT,)))
                    yield from self._step(world, again, under_way, spent + DUPLICATION)
            if may_lose:
                move = Move(self.letters[letter].target, (LOSE,), letter)
                yield move, (*world[: size + 1], spent + LOSS, *rest), None

    def _step(self, world: World, result: Result, letters: tuple[int, ...], spent: int) -> tuple[Step, ...]:
        """That step: one world, or where more are under way than may arrive, one for each choice of those that do."""
        move, local, sent, seen = result
        size, node = self.size, move[0]
        after = (*world[:node], local, *world[node + 1 : size])
        ends, dead = self._ends, self._dead
        if sent:
            alive = [letter for letter in sent if not self._is_dead(after[ends[letter][1]], letter)]
            letters = tuple(sorted([*letters, *alive]))
        letters = tuple([
            letter for letter in letters
            if node not in ends[letter]
            or not (dead[pair] if (pair := (local, letter)) in dead else self._is_dead(local, letter))
        ])  # fmt: skip
        chronicle = world[size]
        violation = None
        if seen:
            known = self._witness(chronicle, local)
            if isinstance(known, Violation):
                violation = known
            else:
                chronicle = known
                violation = self._mismatch(after, node)
        if len(letters) <= self._in_flight:
            return ((move, (*after, chronicle, spent, *letters), violation),)
        kept = dict.fromkeys(combinations(letters, self._in_flight))
        return tuple([(move, (*after, chronicle, spent, *some), violation) for some in kept])

    # --- what an event makes of a local

    def _own_results(self, local: int) -> tuple[Result, ...]:
        """Of the events that need nobody else."""
        node, core, left = self.locals[local]
        results = []
        for event, bound in self._own_events(node, core):
            remaining = left
            if bound is not None:
                place = self._place[bound]
                if not left[place]:
                    continue
                remaining = (*left[:place], left[place] - 1, *left[place + 1 :])
            results.append(self._result(local, Move(node, event), event, remaining))
        found = tuple(result for result in results if result is not None)
        if self._memo:
            self._own[local] = found
        return found

    def _own_events(self, node: int, core: Core) -> Iterator[tuple[Event, str | None]]:
        """Each with the bound that it is charged to."""
        for timer in core.timers:
            yield (FIRE, timer), self.model.charged(core, timer)
        if core.disk.token is not None:
            yield (SYNCED,), None
        yield (KILL,), RESTARTS
        if core.disk.durable != core.disk.written:
            yield (POWER,), RESTARTS
        for bound, kind in CONNECTIONS:
            if bound in self._place:
                for number, name in enumerate(self.model.nodes):
                    if number != node:
                        yield (kind, name), bound

    def _deliver(self, pair: tuple[int, int]) -> Result | None:
        local, number = pair
        letter = self.letters[number]
        event = (DELIVER, self.model.nodes[letter.source], letter.message)
        result = self._result(local, Move(letter.target, (DELIVER,), number), event, self.locals[local].left)
        if self._memo:
            self._deliveries[pair] = result
        return result

    def _is_dead(self, local: int, number: int) -> bool:
        """Whether one end of a letter, in that state, makes it of no account for good."""
        pair = (local, number)
        if pair not in self._dead:
            node, core, left = self.locals[local]
            letter = self.letters[number]
            of_no_account = self.model.ignores if letter.target == node else self.model.forgets
            remaining = dict(zip(self.model.each, left, strict=True))
            self._dead[pair] = of_no_account(core, remaining, letter.message)
        return self._dead[pair]

    def _publish(self, key: tuple[int, int]) -> tuple[Result, ...]:
        local, number = key
        node, _, left = self.locals[local]
        event = (PUBLISH, number)
        result = self._result(local, Move(node, event), event, left)
        found = () if result is None else (result,)
        if self._memo:
            self._publishes[key] = found
        return found

    def _result(self, local: int, move: Move, event: Event, left: tuple[int, ...]) -> Result | None:
        """None if nothing comes of it, or what is beyond the bounds."""
        node, core, _ = self.locals[local]
        after, view, sent = self._nodes[node].after(core, event)
        same = after.state == core.state and after.disk == core.disk and set(after.timers) <= set(core.timers)
        if (same and not sent) or not self.model.within(view):
            return None
        letters = tuple(self.letter(Letter(node, self._number[target], message)) for target, message in sent)
        return Result(move, self.local(Local(node, after, left), view), letters, view != self.views[local])

    # --- invariants

    def _witness(self, chronicle: int, local: int) -> int | Violation:
        key = (chronicle, local)
        known = self._witnessed.get(key)
        if known is None:
            node = self.locals[local].node
            past = witness(self.chronicles[chronicle], node, self.model.nodes[node], self.views[local])
            known = past if isinstance(past, Violation) else self.chronicle(past)
            if self._memo:
                self._witnessed[key] = known
        return known

    def _mismatch(self, locals_: tuple[int, ...], node: int) -> Violation | None:
        one = locals_[node]
        for other in locals_:
            key = (one, other)
            if key not in self._matching:
                self._matching[key] = matching(self.views[one], self.views[other])
            if not self._matching[key]:
                names = [self.model.nodes[self.locals[local].node] for local in key]
                return Violation.mismatch(*names)
        return None
