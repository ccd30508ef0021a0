"""Whole simulated runs, in processes of their own: a scenario and a seed in, verdicts out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from chaos import scenario
from chaos.controller import Outcome, execute
from chaos.model.schedule import Schedule
from chaos.model.verdict import Verdict, merge
from chaos.progress import Silent
from checkers.run import check_all
from results.ledger import Ledger

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
    **settings: Any,
) -> dict[str, Any]:
    """A scenario of the simulated quorum queue on three nodes."""
    return {
        "schema": 1,
        "name": "seeds",
        "seed": seed,
        "cluster": {"broker": "rabbitmq-quorum", "on": "simulated", "nodes": 3, "settings": settings},
        "workload": {"name": "queue", "rate": rate, "time": time, **(workload or {})},
        "nemesis": [{"name": nemesis} if isinstance(nemesis, str) else dict(nemesis) for nemesis in nemeses],
    }


def run(told: Mapping[str, Any], schedule: Schedule | None = None) -> Outcome:
    """Run a scenario, with its own faults or the given ones."""
    planned = scenario.from_data(told)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        return execute(
            planned,
            scenario.plan(planned) if schedule is None else schedule,
            run="seeds",
            stream=None,
            nodes=path,
            ledger=Ledger(path / "ledger.jsonl"),
            progress=Silent(),
        )


def judge(told: Mapping[str, Any]) -> Judged:
    """Run a scenario and check its history, as `splitbrain run` does."""
    outcome = run(told)
    outcome.history.validate()
    results = check_all(outcome.history, scenario.from_data(told).checkers)
    return Judged(
        told["seed"],
        merge(result.verdict for result in results.values()),
        {name: result.reason for name, result in results.items() if result.verdict in BAD},
        tuple(f"{name}.{anomaly.kind}" for name, result in results.items() for anomaly in result.anomalies),
        outcome.history.digest(),
    )


def judge_all(many: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """The same for many, over the cores of this machine."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(judge, many, chunksize=2))
