"""What a nemesis is: it plans faults from a seed, and resolves each to actions when it falls due. It does no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from chaos.model.schedule import Action, Fault
from chaos.model.settings import Setting


@dataclass(frozen=True, slots=True)
class View:
    """What is known of the cluster when a fault falls due."""

    nodes: tuple[str, ...]
    leader: str | None
    newest: str | None = None  # whose broker was started last


class Nemesis(ABC):
    """A family of faults. `verbs` are those that its actions may use; a cluster must be able to do them.

    `settings` always include those of timing (see `nemesis.timing`).
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]]
    in_turn: ClassVar[bool] = False  # each action is undone, and its nodes serve again, before the next is carried out

    @abstractmethod
    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Which verbs a plan with these options may use."""

    @abstractmethod
    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        """The faults for `span` ns of work. The same arguments and random state give the same faults.

        Ids are "NAME-N", N from 1; composition makes them unique across several of the same nemesis.
        """

    @abstractmethod
    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        """What to do, now that it is known who leads. Empty when there is nobody to hurt (no leader is known)."""
