"""Protocols so small that their states can be counted by hand; and worlds, ways and explorations for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, cast

from chaos.model.settings import Setting, integer, resolve
from chaos.search.prove.explore import Found, Limits, explore
from chaos.search.prove.model import RESTARTS, Core, Model, View, common_bounds
from chaos.search.prove.protocols import PROTOCOLS
from chaos.search.prove.symmetry import Symmetry
from chaos.search.prove.world import World, Worlds
from clusters.simulated.replica import SEND, SYNC, TIMER, WRITE, Message, Pid, Record, Replica


class Knocker(Replica):
    """Sends one knock to the others when its timer fires, and remembers that it was knocked at. When it syncs what it
    wrote of that, it says so to nobody."""

    __slots__ = ("heard", "me", "others", "safe")

    def __init__(self, me: str, members: tuple[str, ...]) -> None:
        super().__init__()
        self.me = me
        self.others = [node for node in members if node != me]
        self.heard = False
        self.safe = False

    def start(self, records: Iterable[Record], draw: float) -> None:
        self.heard = bool(list(records))
        self.effects.append((TIMER, 0, 1))

    def message(self, source: str, message: Message) -> None:
        if not self.heard:
            self.heard = True
            self.effects += [(WRITE, ("heard",)), (SYNC, "token")]

    def timer(self, name: int, draw: float) -> None:
        self.effects += [(SEND, node, ("knock",)) for node in self.others]

    def synced(self, token: Any) -> None:
        self.safe = token == "token"

    def request(self, pid: Pid, request: Message) -> None: ...

    def up(self, node: str) -> None: ...

    def down(self, node: str, draw: float) -> None: ...

    def ended(self, pid: Pid) -> None: ...

    def flush(self) -> None: ...

    def snapshot(self) -> tuple[Any, ...]:
        return (self.heard, self.safe)

    def restore(self, state: tuple[Any, ...]) -> None:
        self.heard, self.safe = state


class Knocking(Model):
    """Knockers, each of which may knock so often."""

    name = "knocking"
    bounds = (Setting("terms", integer(0), 0, ""), Setting("knocks", integer(0), 1, ""), *common_bounds(in_flight=0))
    each = ("knocks", RESTARTS)
    mutations = ()
    invariants = ()

    def replica(self, me: str) -> Replica:
        return Knocker(me, self.nodes)

    def view(self, replica: Replica) -> View:
        return View(0, "heard" if cast(Knocker, replica).heard else "", False)

    def charged(self, core: Core, timer: int) -> str | None:
        return "knocks"

    def timer(self, core: Core, name: int) -> str:
        return "knocks"

    def message(self, message: Message) -> str:
        return "knock"

    label = message

    def term_of(self, message: Message) -> int | None:
        return None


class Unreduced(Model):
    """Mixed into a protocol: every letter counts."""

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        return False

    def forgets(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        return False


class Raw(Model):
    """Mixed into a protocol: nothing is dropped or sorted."""

    def normal(self, core: Core) -> Core:
        return core


def model(kind: type[Model] | str, nodes: int = 3, mutation: str = "none", **bounds: Any) -> Model:
    """A protocol, by its name or class, with bounds; a dash is an underscore."""
    chosen = PROTOCOLS[kind] if isinstance(kind, str) else kind
    given = {name.replace("_", "-"): value for name, value in bounds.items()}
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    return chosen(names, resolve(chosen.bounds, given, ""), mutation)


def prove(kind: type[Model] | str, nodes: int = 3, *, symmetry: bool = True, **told: Any) -> tuple[Worlds, Found]:
    """Explored to its end."""
    worlds = Worlds(model(kind, nodes, **told))
    return worlds, explore(worlds, Limits(), symmetry=symmetry)


def reached(worlds: Worlds, canonical: bool = False) -> dict[World, None]:
    """Every world, by the plainest search that there is."""
    like = Symmetry(worlds).canonical if canonical else lambda world: world
    found = {like(worlds.first()): None}
    ahead = list(found)
    while ahead:
        for _, after, _ in worlds.steps(ahead.pop()):
            if like(after) not in found:
                found[like(after)] = None
                ahead.append(like(after))
    return found


def spelt(worlds: Worlds, world: World) -> tuple[Any, ...]:
    """A world in full, so that it can be told from those of another exploration, where numbers differ."""
    size = worlds.size
    letters = sorted((worlds.letters[letter] for letter in world[size + 2 :]), key=repr)
    nodes = tuple(worlds.locals[local] for local in world[:size])
    return nodes, worlds.chronicles[world[size]], world[size + 1], tuple(letters)


def walk(worlds: Worlds, random: Random, steps: int) -> list[World]:
    """Worlds on a random way."""
    way = [worlds.first()]
    for _ in range(steps):
        ahead = [after for _, after, _ in worlds.steps(way[-1])]
        if not ahead:
            break
        way.append(random.choice(ahead))
    return way
