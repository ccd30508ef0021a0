"""What a workload is: it asks a cluster for something, records all of it, and knows which checkers that implies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.kernel.clock import Clock
from chaos.kernel.recorder import Recorder
from chaos.kernel.streams import Streams
from chaos.model.settings import Setting
from clusters.base import QUEUE, Cluster


@dataclass(frozen=True, slots=True)
class Context:
    """What a workload works with. `until`: run-clock ns at which to ask for nothing new."""

    cluster: Cluster
    recorder: Recorder
    clock: Clock
    streams: Streams
    until: int


class Workload(ABC):
    """One kind of use of a broker. Made anew for each run, with a value for each of `settings`."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]]
    checkers: ClassVar[tuple[str, ...]]
    tells: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # settings of checkers, where the scenario says no other
    needs: ClassVar[Sequence[str]] = (QUEUE,)  # kinds of client, of which the broker must have one

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    @classmethod
    def implied(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The checkers that judge it when it is told this."""
        return cls.checkers

    @classmethod
    def asks(cls, options: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, str]:
        """What it asks of the broker's queues beyond the plain (see `clusters.base`), each by the setting that does.

        Raises BadKey for options that do not go together, or not with these nodes.
        """
        return {}

    @abstractmethod
    async def setup(self, context: Context) -> None:
        """Declare what is needed."""

    @abstractmethod
    async def work(self, context: Context) -> None:
        """Ask until `context.until`, then return with every operation completed or given up as info.

        Cancelled when the run is interrupted; open operations are then recorded as info by the controller.
        """

    @abstractmethod
    async def drain(self, context: Context, deadline: int) -> None:
        """Read what is left until nothing is, or until `deadline`; record a `drain` op a queue: ok only if complete."""
