"""A pytest plugin, only for those who ask for it: `pytest -p chaos.pytest_plugin`.

def test_no_loss(splitbrain: Splitbrain) -> None:
    splitbrain.is_valid("scenario.toml")
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Verdict
from chaos.scenario import SIMULATED, load
from chaos.search.trial import Trial, trial
from results.journey import journey, message_of
from results.text import moment
from results.timeline import timeline

TOLD = 3  # anomalies told in full


class Splitbrain:
    """Runs scenarios, and fails the test when a broker did not keep its promises.

    A path that is relative is taken from the directory of the test's file.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, scenario: str | Path) -> Trial:
        """Run a scenario file. Its cluster has to be simulated; one that cannot be run fails the test with why."""
        path = self._directory / scenario
        try:
            loaded = load(path)
            if loaded.cluster.on == SIMULATED:
                return trial(loaded)
            problem = f"{path}: its cluster is on {loaded.cluster.on}; only simulated ones are run here"
        except SplitbrainError as error:
            problem = str(error)
        pytest.fail(problem, pytrace=False)

    def is_valid(self, scenario: str | Path) -> Trial:
        """Run it, and fail unless every checker is content."""
        done = self.run(scenario)
        if done.verdict is not Verdict.VALID:
            pytest.fail(explained(done, str(scenario)), pytrace=False)
        return done

    def shows_no(self, anomaly: str, scenario: str | Path) -> Trial:
        """Run it, and fail if it shows the anomaly ("messages.lost"), whatever else it shows."""
        done = self.run(scenario)
        if anomaly in done.anomalies:
            pytest.fail(explained(done, str(scenario), anomaly), pytrace=False)
        return done


@pytest.fixture
def splitbrain(request: pytest.FixtureRequest) -> Splitbrain:
    """Runs scenario files; see `chaos.pytest_plugin.Splitbrain`."""
    return Splitbrain(request.path.parent)


def explained(done: Trial, scenario: str, only: str = "") -> str:
    """What is wrong with a run, in lines; of the first lost message, what became of it."""
    history = done.outcome.history
    line = timeline(history)
    lines = [f"{scenario} is {done.verdict}"]
    for name, result in done.results.items():
        if result.verdict not in (Verdict.INVALID, Verdict.UNKNOWN) or (only and not only.startswith(f"{name}.")):
            continue
        lines.append(f"{name}: {result.reason}")
        found = [anomaly for anomaly in result.anomalies if only in ("", f"{name}.{anomaly.kind}")]
        for number, anomaly in enumerate(found[:TOLD]):
            lines.append(f"  {name}.{anomaly.kind}: {anomaly.message}")
            message = message_of(history, anomaly.ops) if anomaly.kind == "lost" and number == 0 else None
            for step in journey(history, line, message) if message is not None else ():
                lines.append(f"    {moment(step.time):>10}  {step.text}")
        if len(found) > TOLD:
            lines.append(f"  and {len(found) - TOLD} more")
    if not only:
        lines.append(f"see more with: splitbrain run {scenario}")
    return "\n".join(lines)
