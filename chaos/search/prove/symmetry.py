"""Nodes are alike: worlds that differ only in which node is called what are one.

Of all worlds that come from each other by renaming, one is explored: the smallest of those whose nodes are in order. A
node's place in that order is its class, the same for all names of the same state. So where no two nodes are in the same
class only one renaming is tried, not all n!. After Ip and Dill, "Better verification through symmetry" (1996).
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from chaos.search.prove.invariants import NOBODY, Chronicle
from chaos.search.prove.model import Core, Disk, View
from chaos.search.prove.world import Letter, Local, World, Worlds

Renaming = tuple[int, ...]  # the new number of each node


class Symmetry:
    """Renamings of the nodes of some worlds, each part's worked out once."""

    def __init__(self, worlds: Worlds) -> None:
        self.renamings: list[Renaming] = list(permutations(range(worlds.size)))
        self._worlds = worlds
        self._classes: dict[int, int] = {}
        self._renamers = {renaming: _Renamer(worlds, renaming) for renaming in self.renamings}
        self._sorting: dict[tuple[int, ...], tuple[_Renamer, ...]] = {}

    def canonical(self, world: World) -> World:
        """The one world for all that are like this one."""
        classes = self._classes
        size = self._worlds.size
        ranks = tuple([classes.get(local) or self._class(local) for local in world[:size]])
        renamers = self._sorting.get(ranks)
        if renamers is None:
            renamers = self._sorting[ranks] = tuple(
                renamer for renaming, renamer in self._renamers.items() if _in_order(ranks, renaming)
            )
        return min([renamer.world(world) for renamer in renamers]) if len(renamers) > 1 else renamers[0].world(world)

    def renamed(self, world: World, renaming: Renaming) -> World:
        """The same world with other names."""
        return self._renamers[renaming].world(world)

    def _class(self, local: int) -> int:
        """From 1 on."""
        orbit = [renamer.local(local) for renamer in self._renamers.values()]
        first = min(orbit) + 1
        for each in orbit:
            self._classes[each] = first
        return first


def _in_order(ranks: tuple[int, ...], renaming: Renaming) -> bool:
    placed = dict(zip(renaming, ranks, strict=True))
    return all(placed[place] <= placed[place + 1] for place in range(len(ranks) - 1))


class _Renamer:
    """One renaming."""

    def __init__(self, worlds: Worlds, renaming: Renaming) -> None:
        self._worlds = worlds
        self._renaming = renaming
        self._identity = renaming == tuple(range(worlds.size))
        nodes = worlds.model.nodes
        self._names = {name: nodes[renaming[number]] for number, name in enumerate(nodes)}
        self._origin = [renaming.index(number) for number in range(worlds.size)]
        self._locals: dict[int, int] = {}
        self._letters: dict[int, int] = {}
        self._chronicles: dict[int, int] = {}

    def world(self, world: World) -> World:
        if self._identity:
            return world
        size = self._worlds.size
        locals_, letters = self._locals, self._letters
        moved = []
        for number in self._origin:
            local = world[number]
            moved.append(locals_[local] if local in locals_ else self.local(local))
        chronicle = world[size]
        past = self._chronicles[chronicle] if chronicle in self._chronicles else self._chronicle(chronicle)
        sent = [letters[letter] if letter in letters else self._letter(letter) for letter in world[size + 2 :]]
        sent.sort()
        return (*moved, past, world[size + 1], *sent)

    def local(self, number: int) -> int:
        """The number of a local with other names."""
        node, core, left = self._worlds.locals[number]
        model = self._worlds.model
        renamed = model.normal(Core(self._named(core.state), core.timers, Disk(*self._named(core.disk))))
        view = View(*self._named(self._worlds.views[number]))
        found = self._locals[number] = self._worlds.local(Local(self._renaming[node], renamed, left), view)
        return found

    def _letter(self, number: int) -> int:
        source, target, message = self._worlds.letters[number]
        letter = Letter(self._renaming[source], self._renaming[target], self._named(message))
        found = self._letters[number] = self._worlds.letter(letter)
        return found

    def _chronicle(self, number: int) -> int:
        leaders, committed = self._worlds.chronicles[number]
        led = tuple(node if node == NOBODY else self._renaming[node] for node in leaders)
        found = self._chronicles[number] = self._worlds.chronicle(Chronicle(led, self._named(committed)))
        return found

    def _named(self, value: Any) -> Any:
        """The same, with the other names wherever a node is named."""
        if isinstance(value, tuple):
            return tuple(map(self._named, value))
        return self._names.get(value, value) if isinstance(value, str) else value
