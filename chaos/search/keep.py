"""A trial that is worth keeping becomes a run like any other: found, shown, replayed and shrunk by its id."""

from __future__ import annotations

from datetime import UTC, datetime

from chaos.search.trial import Trial
from results.publish import publish
from results.store import DONE, PartOf, RunDirectory, Store
from results.versions import versions


def keep(store: Store, trial: Trial, part_of: PartOf | None = None) -> RunDirectory:
    """A directory with all that `splitbrain run` would have kept of it but the ledger and logs, which are about
    machines. Raises SplitbrainError when it cannot be written; then there is no directory."""
    scenario = trial.scenario
    directory = store.create(
        name=scenario.name,
        broker=scenario.cluster.broker,
        on=scenario.cluster.on,
        seed=scenario.seed,
        now=datetime.now(UTC),
        part_of=part_of,
    )
    with directory.whole():
        directory.write(directory.scenario, scenario.dumps())
        directory.write(directory.schedule, trial.schedule.dumps())
        directory.write_json(directory.versions, {**versions(), **trial.outcome.versions})
        directory.keep_history(trial.outcome.history)
        if trial.trace is not None:
            directory.write(directory.trace, trial.trace.dumps())
        publish(directory, trial.outcome.history, list(trial.results.values()))
        directory.finish(DONE)
    return directory
