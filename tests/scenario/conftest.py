"""A small world of brokers, workloads, nemeses and checkers, so that scenarios are tested without the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from chaos.kernel.clock import SECOND
from chaos.model import registry
from chaos.model.schedule import Action, Fault
from chaos.model.settings import BadKey, Setting, boolean, choice, choices, duration, integer, number, optional, text
from nemesis.base import Nemesis, View
from workloads.base import Workload

TIMING = (
    Setting("every", duration, "10s", "how often"),
    Setting("for", duration, "4s", "how long"),
    Setting("kinds", choices("halves", "leader"), ("halves", "leader"), "which kinds"),
)


class Hosted:
    versions = ("4.0", "3.10")
    settings = (Setting("net_ticktime", duration, "15s", "when a silent node is given up"),)


class Simulated:
    versions = ("4.0", "3.10")
    settings = (
        Setting("election", duration, "300ms", "the election time-out"),
        Setting("mutation", optional(choice("vote-twice", "no-fsync")), None, "what is broken on purpose"),
        Setting("fsync", boolean, True, "whether writes are synced"),
    )


class HostedOnly:
    settings = ()


class Queue(Workload):
    settings = (
        Setting("rate", number(low=0.1), 500, "publishes a second"),
        Setting("delivery", choice("at-least-once", "at-most-once"), "at-least-once", "the promise"),
        Setting("queue", text, "q", "the queue's name"),
        Setting("keys", integer(low=1), 1, "how many queues"),
    )
    checkers = ("messages", "availability")


class Fake(Nemesis):
    meaning = "a fault"
    settings = TIMING

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("cut",)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        if options["for"] > 60 * SECOND:
            raise BadKey("for", "longer than anybody waits")
        starts = range(options["every"], span - options["for"] + 1, options["every"])
        return [
            Fault(
                f"{self.name}-{n}",
                self.name,
                random.choice(options["kinds"]),
                at,
                options["for"],
                draw=random.getrandbits(32),
            )
            for n, at in enumerate(starts, 1)
        ]

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        return ()


class Partition(Fake):
    name = "partition"


class Kill(Fake):
    name = "kill"


class Earned:
    settings = (
        Setting("progress", choice("required", "forbidden", "any"), "required", "as in [expect]"),
        Setting("faults", choice("bite", "none", "any"), "bite", "as in [expect]"),
        Setting("at_least", integer(low=0), 1, "how many confirms are progress"),
    )


class Availability:
    settings = (Setting("recovery", optional(duration), None, "limit of the time to recover"),)


class Plain:
    settings = ()


WORLD: dict[str, dict[str, Any]] = {
    registry.BROKERS: {"rabbitmq-quorum": Hosted, "other": HostedOnly},
    registry.SIMULATIONS: {"rabbitmq-quorum": Simulated},
    registry.NEMESES: {"partition": Partition, "kill": Kill},
    registry.WORKLOADS: {"queue": Queue},
    registry.CHECKERS: {
        "earned": Earned,
        "availability": Availability,
        "messages": Plain,
        "order": Plain,
        "broken": None,
    },
}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        def __init__(self, name: str, value: Any) -> None:
            self.name, self.value = name, value

        def load(self) -> Any:
            if self.value is None:
                raise ImportError(f"no {self.name}")
            return self.value

    entries = {
        group: {name: Entry(name, cls) for name, cls in sorted(classes.items())} for group, classes in WORLD.items()
    }
    monkeypatch.setattr(registry, "_entries", entries.__getitem__)
