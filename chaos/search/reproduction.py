"""What shrinking leaves: a scenario as short as can be, a test that fails because of it, and its space-time diagram."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.verdict import Anomaly
from chaos.scenario import Scenario, from_data, loads
from chaos.scenario_text import write_toml
from chaos.search.shrink import Shrunk
from chaos.search.trial import Trial, trial
from results.scene import of_anomaly, scene
from results.spacetime import spacetime
from results.text import length, plural
from results.timeline import timeline

SCENARIO, TEST, PICTURE = "repro.toml", "test_repro.py", "spacetime.svg"

_TEST = '''"""{what}

Shrunk from {run}.
It fails for as long as the scenario beside it shows {plain}:

    pytest -p chaos.pytest_plugin {file}
"""

from pathlib import Path

from chaos.pytest_plugin import Splitbrain


def test_{name}(splitbrain: Splitbrain) -> None:
    splitbrain.shows_no({anomaly}, Path(__file__).with_name({scenario}))
'''


@dataclass(frozen=True)
class Reproduction:
    """`toml` and `test` are texts of files; `trial` is the run of `toml`, with its trace and all its checkers."""

    anomaly: Anomaly
    toml: str
    test: str
    trial: Trial

    @property
    def picture(self) -> Markup:
        """The space-time diagram."""
        history, trace = self.trial.outcome.history, self.trial.trace
        assert trace is not None, "it was run with one"
        return spacetime(scene(trace, *of_anomaly(history, timeline(history), self.anomaly)))


def reproduction(shrunk: Shrunk, anomaly: str, run: str) -> Reproduction:
    """Run the smallest once more, as it is written, and say what there is of it. `run`: what it was shrunk from."""
    toml = brief(shrunk.after.case)
    done = trial(loads(toml, SCENARIO), traced=True)
    checker, _, kind = anomaly.partition(".")
    shown = [found for found in done.results[checker].anomalies if found.kind == kind]
    if not shown:
        raise SplitbrainError(f"{SCENARIO} does not show {anomaly} as it is written; this is a mistake of ours")
    head = f"# {anomaly}: {shown[0].message}.\n# Shrunk from {run}: {described(shrunk.after.case)}, "
    published = plural(shrunk.after.published, "message")
    test = _TEST.format(
        what=_sentence(shown[0].message),
        run=run,
        plain=anomaly,
        anomaly=json.dumps(anomaly),
        file=TEST,
        name="".join(letter if letter.isalnum() else "_" for letter in anomaly),
        scenario=json.dumps(SCENARIO),
    )
    return Reproduction(shown[0], f"{head}{published}.\n\n{toml}", test, done)


def described(case: Scenario) -> str:
    """How large a scenario is: "1 fault, 3 nodes, 3 clients, 12 s"."""
    clients = sum(int(case.workload.options.get(name, 0)) for name in ("producers", "consumers"))
    parts = [plural(len(case.faults), "fault"), plural(case.cluster.nodes, "node")]
    parts += [plural(clients, "client")] if clients else []
    return ", ".join([*parts, length(case.workload.time_ns)])


def brief(scenario: Scenario) -> str:
    """As TOML without what goes without saying: each key whose absence changes nothing is left out."""
    data = tomllib.loads(scenario.dumps())
    scenario = from_data(data)  # durations as they are written there
    for path in _paths(data):
        *above, key = path
        table: Any = data
        for part in above:
            table = table[part]
        said = table.pop(key)
        try:
            needed = replace(from_data(data), name=scenario.name) != scenario
        except BadInput:
            needed = True
        if needed:
            table[key] = said
    return write_toml(_in_order(data, scenario.dumps()))


def _paths(data: dict[str, Any], above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every key, those within a table before the table; what a run is called, and what it is of, always stays."""
    found: list[tuple[str | int, ...]] = []
    for key, value in data.items():
        path = (*above, key)
        if isinstance(value, dict):
            found += _paths(value, path)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, table in enumerate(value):
                found += _paths(table, (*path, number))
            continue
        if path not in (("schema",), ("name",), ("seed",), ("cluster", "nodes"), ("workload", "time")):
            found.append(path)
    return found


def _in_order(data: dict[str, Any], text: str) -> dict[str, Any]:
    """The keys in the order in which scenarios are written, whatever was taken out and put back."""

    def ordered(part: Any, like: Any) -> Any:
        if isinstance(part, dict):
            return {key: ordered(part[key], like[key]) for key in like if key in part}
        if isinstance(part, list):
            return [ordered(one, other) for one, other in zip(part, like, strict=True)]
        return part

    made: dict[str, Any] = ordered(data, tomllib.loads(text))
    return made


def _sentence(words: str) -> str:
    """Words as a sentence that can stand in a docstring."""
    plain = words.replace("\\", "/").replace('"""', "'''").rstrip(".")
    return f"{plain[:1].upper()}{plain[1:]}."
