"""A cluster that can be hurt in name only, and writes down what was asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.kernel.clock import Clock
from chaos.model.errors import SplitbrainError
from chaos.model.schedule import ABILITIES, Action, Fault
from clusters.base import Injected, Setup, Undone
from clusters.null import NullCluster
from nemesis.base import Nemesis, View


class FakeCluster(NullCluster):
    """`asked` holds (time, what); `refuses` names faults that cannot be injected."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.clock: Clock = setup.clock
        self.asked: list[tuple[int, str]] = []
        self.refuses: tuple[str, ...] = ()
        self.leads: str | None = "n1"
        self.silent: dict[str, int] = {}  # nodes that do not serve before that time

    def abilities(self) -> Mapping[str, str | None]:
        return dict.fromkeys(ABILITIES)

    async def up(self, report: Callable[[str], None]) -> None:
        self._note("up")

    async def down(self) -> None:
        self._note("down")
        await super().down()

    async def inject(self, fault: str, action: Action) -> Injected:
        self._note(f"inject {fault} {action.verb} {'+'.join(action.nodes)}")
        if fault in self.refuses:
            raise SplitbrainError("the node did not answer")
        return Injected(dict.fromkeys(action.nodes, self.clock.now()), "it is done")

    async def undo(self, fault: str) -> Undone:
        self._note(f"undo {fault}")
        return Undone(dict.fromkeys(self.nodes, self.clock.now()), True, "it bit")

    async def serving(self) -> Mapping[str, str | None]:
        return {node: "silent" if self.clock.now() < self.silent.get(node, 0) else None for node in self.nodes}

    def leader(self, scope: str | None = None) -> str | None:
        return self.leads

    def _note(self, what: str) -> None:
        self.asked.append((self.clock.now(), what))


class FakeLedger:
    """Keeps lines in memory, among what the cluster was asked."""

    def __init__(self, asked: list[tuple[int, str]]) -> None:
        self.asked = asked

    def note(self, fault: str, action: Action, now: int) -> None:
        self.asked.append((now, f"note {fault}"))

    def strike(self, fault: str, now: int) -> None:
        self.asked.append((now, f"strike {fault}"))


class Killer(Nemesis):
    """Kills the leader, or else the first node that is free."""

    name = "killer"
    meaning = "for tests"
    settings = ()

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("kill",)

    def plan(self, options: Mapping[str, Any], nodes: Any, span: int, random: Any) -> list[Fault]:
        return []

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        node = view.leader if fault.target == "leader" else next(iter(view.nodes), None)
        return (Action("kill", (node,)),) if node else ()


class Rolling(Killer):
    """Kills every node, in turn."""

    in_turn = True

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        return tuple(Action("kill", (node,)) for node in view.nodes)
