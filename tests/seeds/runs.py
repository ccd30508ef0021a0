"""Whole simulated runs, in processes of their own: a scenario and a seed in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos import scenario
from chaos.controller import Outcome
from chaos.model.schedule import Schedule
from chaos.model.verdict import Verdict
from chaos.search.spread import cores, spread
from chaos.search.trial import trial

BAD = (Verdict.INVALID, Verdict.UNKNOWN)
ALL_NEMESES = ("partition", "kill", "pause", "restart", "power-off", "clock", "loss")


@dataclass(frozen=True)
class Judged:
    """What became of one seed. `why`: of each checker that found it invalid or unknown. `anomalies`: "checker.kind"."""

    seed: int
    verdict: Verdict
    why: Mapping[str, str]
    anomalies: tuple[str, ...]
    digest: str


def data(
    seed: int,
    *,
    nemeses: Iterable[str | Mapping[str, Any]] = ALL_NEMESES,
    time: str = "60s",
    rate: float = 50,
    workload: Mapping[str, Any] | None = None,
    nodes: int = 3,
    faults: Iterable[Mapping[str, Any]] = (),
    **settings: Any,
) -> dict[str, Any]:
    """A scenario of the simulated quorum queue, on three nodes unless it says otherwise."""
    listed = [dict(fault) for fault in faults]
    return {
        "schema": 1,
        "name": "seeds",
        "seed": seed,
        "cluster": {"broker": "rabbitmq-quorum", "on": "simulated", "nodes": nodes, "settings": settings},
        "workload": {"name": "queue", "rate": rate, "time": time, **(workload or {})},
        "nemesis": [{"name": nemesis} if isinstance(nemesis, str) else dict(nemesis) for nemesis in nemeses],
        **({"fault": listed} if listed else {}),
    }


def run(told: Mapping[str, Any], schedule: Schedule | None = None) -> Outcome:
    """Run a scenario, with its own faults or the given ones."""
    return trial(scenario.from_data(told), schedule).outcome


def judge(told: Mapping[str, Any]) -> Judged:
    """Run a scenario and check its history, as `splitbrain run` does."""
    done = trial(scenario.from_data(told))
    return Judged(
        told["seed"],
        done.verdict,
        {name: result.reason for name, result in done.results.items() if result.verdict in BAD},
        done.anomalies,
        done.outcome.history.digest(),
    )


def judge_all(many: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """The same for many, over the cores of this machine."""
    return [judged for _, judged in spread(judge, many, cores())]
