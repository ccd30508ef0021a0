"""How a run tells whoever is watching what it does."""

from __future__ import annotations

from typing import Protocol

from chaos.model.op import OpType


class Progress(Protocol):
    """Calls come on the run's loop; all are cheap. `now` is ns on the run's clock."""

    def phase(self, name: str, now: int) -> None:
        """A phase begins: provision, open, work, undo, serve, look (simulated), drain, collect, check."""

    def line(self, text: str) -> None:
        """A line for people, about something slow ("n2 serves after 12.1 s")."""

    def op(self, f: str, type_: OpType, now: int) -> None:
        """An op was recorded. Called for every one of them, so it does no more than count."""

    def fault(self, fault_id: str, text: str, in_force: bool, now: int) -> None:
        """A fault came into force, or (in_force False) was undone. `text` says in a few words what it does to whom."""


class Silent:
    """A progress that nobody watches."""

    def phase(self, name: str, now: int) -> None:
        pass

    def line(self, text: str) -> None:
        pass

    def op(self, f: str, type_: OpType, now: int) -> None:
        pass

    def fault(self, fault_id: str, text: str, in_force: bool, now: int) -> None:
        pass
