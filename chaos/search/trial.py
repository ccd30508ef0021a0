"""A simulated run that nobody keeps: a scenario and its faults in, what happened and what the checkers say out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.controller import Outcome, execute
from chaos.model.schedule import Action, Schedule
from chaos.model.trace import Recording, Trace
from chaos.model.verdict import Result, Verdict, merge
from chaos.progress import Silent
from chaos.scenario import Scenario, plan
from checkers.run import check_all
from workloads.payload import Corrupt, Foreign, decode


@dataclass(frozen=True)
class Trial:
    """What became of it. `results`: by checker, in the scenario's order. `trace`: of every message, if asked for."""

    scenario: Scenario
    schedule: Schedule
    outcome: Outcome
    results: Mapping[str, Result]
    trace: Trace | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of all checkers'."""
        return merge(result.verdict for result in self.results.values())

    @property
    def anomalies(self) -> tuple[str, ...]:
        """Each kind of anomaly once, as "checker.kind", in the order of the checkers."""
        kinds = (f"{name}.{anomaly.kind}" for name, result in self.results.items() for anomaly in result.anomalies)
        return tuple(dict.fromkeys(kinds))

    def why(self, verdict: Verdict) -> dict[str, str]:
        """Of each checker with that verdict, the reason."""
        return {name: result.reason for name, result in self.results.items() if result.verdict is verdict}


class Forgotten:
    """A ledger for clusters that are gone when their process is."""

    def note(self, fault: str, action: Action, now: int) -> None:
        pass

    def strike(self, fault: str, now: int) -> None:
        pass


def recorder() -> Recording:
    """A recording that knows the messages of our workloads by their ids."""

    def identify(body: bytes) -> int | None:
        try:
            return decode(body).id
        except (Foreign, Corrupt):
            return None

    return Recording(identify)


def trial(scenario: Scenario, schedule: Schedule | None = None, *, traced: bool = False) -> Trial:
    """Run a scenario whose cluster is simulated, with its own faults or the given ones, and judge it.

    Raises what `chaos.controller.execute` does, and BadHistory for a history that breaks the rules.
    """
    faults = plan(scenario) if schedule is None else schedule
    recording = recorder() if traced else None
    with tempfile.TemporaryDirectory(prefix="splitbrain-") as logs:
        outcome = execute(
            scenario,
            faults,
            run="trial",
            stream=None,
            nodes=Path(logs),
            ledger=Forgotten(),
            progress=Silent(),
            recording=recording,
        )
    outcome.history.validate()
    results = check_all(outcome.history, scenario.checkers)
    return Trial(scenario, faults, outcome, results, recording.trace() if recording is not None else None)
