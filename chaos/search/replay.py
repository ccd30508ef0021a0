"""A run once more: the same history in a simulation; on real machines the same faults, by role or by node."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chaos.model import registry
from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.op import INFO, OK
from chaos.model.schedule import Schedule
from chaos.model.verdict import Verdict, merge
from chaos.scenario import SIMULATED, Scenario, from_data
from nemesis.targets import PINNED
from results.store import RunDirectory
from results.versions import unlike, versions

ROLE, NODE = "role", "node"


def by_node(schedule: Schedule, history: History) -> Schedule:
    """The faults bound to whom they hurt in that history, whatever role it had; one that hurt nobody is to hurt nobody.
    Those that the history never came to stay as they are."""
    met: dict[str | None, list[Any]] = {history.key[row]: [] for row in history.rows("inject", INFO).tolist()}
    for row in history.rows("inject", OK).tolist():
        met[history.key[row]] = history.detail(row).get("actions", [])
    return Schedule(
        tuple(
            replace(fault, args={**fault.args, PINNED: met[fault.id]}) if fault.id in met else fault
            for fault in schedule.faults
        )
    )


def moved(scenario: Scenario, on: str) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario on another kind of cluster, and the settings of the old one that the new one does not have.

    Raises BadInput where that broker, version or number of nodes cannot be there.
    """
    if on == scenario.cluster.on:
        return scenario, ()
    data = tomllib.loads(scenario.dumps())
    group = registry.SIMULATIONS if on == SIMULATED else registry.BROKERS
    settings = data["cluster"].pop("settings", {})
    data["cluster"]["on"] = on
    for key in ("image", "docker", "ssh", "external"):
        data["cluster"].pop(key, None)
    from_data(data)  # says what is wrong with the broker, before its settings are looked at
    known = {setting.name for setting in registry.find(group, scenario.cluster.broker).settings}
    data["cluster"]["settings"] = {name: value for name, value in settings.items() if name in known}
    return from_data(data), tuple(name for name in settings if name not in known)


def original(directory: RunDirectory) -> str:
    """The digest that a simulated run is to give again.

    Raises BadInput for a run that cannot be repeated: it was cut short, by whatever.
    """
    history = directory.history()
    if history.cut is not None or len(history.rows("interrupt")):
        why = history.cut or "it was interrupted"
        raise BadInput(f"{directory.id} was not run to its end ({why}), so there is nothing to compare a replay with")
    return history.digest()


def same_versions(directory: RunDirectory) -> None:
    """Raises BadInput where a simulated run was made with something else than what is here, naming that."""
    others = unlike(directory.read_json(directory.versions), versions())
    if others:
        raise BadInput(
            f"{directory.id} ran with {', '.join(others)}, and may give another history here; --force replays it anyway"
        )


def kinds(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """The anomalies of the invalid checkers of a verdict (as verdict.json has it), each once, as "messages.lost"."""
    return tuple(
        dict.fromkeys(
            f"{name}.{anomaly['kind']}"
            for name, result in verdict.get("checkers", {}).items()
            if result["valid"] is False
            for anomaly in result["anomalies"]
        )
    )


@dataclass(frozen=True)
class Recurrence:
    """How often what a run showed came again. `times`: replays with a verdict. `again`: how many showed each anomaly of
    the run; `others`: the same of those that the run did not show."""

    times: int
    verdicts: tuple[Verdict, ...]
    again: Mapping[str, int]
    others: Mapping[str, int]

    @property
    def verdict(self) -> Verdict:
        """The worst of the replays'."""
        return merge(self.verdicts)


def recurrence(before: Iterable[str], replays: Iterable[tuple[Verdict, Iterable[str]]]) -> Recurrence:
    """Count. before: the anomalies of the run; replays: the verdict of each, with its anomalies."""
    told = [(verdict, tuple(anomalies)) for verdict, anomalies in replays]
    again = {name: sum(name in anomalies for _, anomalies in told) for name in before}
    others = dict.fromkeys((name for _, anomalies in told for name in anomalies if name not in again), 0)
    others = {name: sum(name in anomalies for _, anomalies in told) for name in others}
    return Recurrence(len(told), tuple(verdict for verdict, _ in told), again, others)
