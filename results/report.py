"""A run's report: one HTML file that needs nothing else, drawn from what the run left in its directory.

It is drawn for every run, also when a checker died or the history was cut off: a part that cannot be drawn says so in
its place. Jinja escapes everything, and the page's own content policy forbids scripts and requests.
"""

from __future__ import annotations

import json
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import numpy as np
from markupsafe import Markup

from chaos.model.history import History
from chaos.model.op import PROCESS_NAMES, Op
from chaos.model.trace import Trace
from chaos.model.verdict import WINDOW, Anomaly, Result, Verdict, merge
from results import plots, text
from results.journey import Step, journey, message_of, row_of
from results.operations import operations
from results.scene import of_anomaly, scene
from results.spacetime import spacetime
from results.store import RunDirectory
from results.timeline import Timeline, timeline

T = TypeVar("T")

TAIL_LINES = 60
TAIL_BYTES = 64 * 1024
ROWS_SHOWN = 24

_GLYPH = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.NOT_APPLICABLE: "–"}
_STYLE = {verdict: str(verdict).replace(" ", "-") for verdict in Verdict}
_FIRST = ("messages", "leaders", "order")
_ORDER = (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VALID, Verdict.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Shown:
    """An anomaly with its evidence: the ops that show it, for a lost message what became of it, and for an order that
    cannot be a picture of the operations (those of `detail.window`). `spacetime`: who said what to whom meanwhile."""

    anomaly: Anomaly
    ops: list[Op]
    more: int
    detail: str
    steps: list[Step]
    message: int | None
    picture: Markup
    spacetime: Markup


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a node's log."""

    node: str
    file: str
    lines: list[str]
    skipped: bool


def draw(
    directory: RunDirectory,
    history: History | None,
    results: Sequence[Result],
    *,
    digest: str | None = None,
    problem: str | None = None,
) -> str:
    """The page. `history` is None where there is none that can be read; `problem` says what ended the run early."""
    record = directory.read_json(directory.record)
    scenario_text = _text(directory.scenario)
    scenario = _guard(lambda: tomllib.loads(scenario_text)) or {}
    line = (_guard(lambda: timeline(history)) if history is not None else None) or Timeline(0, 0)
    trace = _guard(lambda: Trace.loads(_text(directory.trace)))
    return _template().render(
        run=directory.id,
        record=record,
        verdict=merge(result.verdict for result in results),
        headline=headline(results, problem),
        problem=problem,
        cut=history.cut if history is not None else None,
        facts=_guard(lambda: _facts(scenario, record)) or {},
        figures=_guard(lambda: _figures(history, line)) or [],
        results=in_order(results),
        evidence={
            result.checker: [_shown(history, line, trace, anomaly) for anomaly in result.anomalies]
            for result in results
        },
        throughput=_plot(lambda: plots.throughput(history, line) if history is not None else Markup("")),
        latency=_plot(lambda: plots.latency(history, line) if history is not None else Markup("")),
        leaders=_plot(lambda: plots.leaders(line)),
        scopes_left_out=max(len(line.scopes) - plots.SCOPES, 0),
        faults_plot=_plot(lambda: plots.faults(line)),
        hues=plots.fault_hues(line),
        line=line,
        counts=_guard(lambda: _op_counts(history)) or [],
        logs=_guard(lambda: _logs(directory.nodes)) or [],
        versions=directory.read_json(directory.versions),
        digest=digest,
        scenario_text=scenario_text,
        directory=directory.path,
        glyph=_GLYPH,
        style=_STYLE,
    )


def headline(results: Sequence[Result], problem: str | None = None) -> list[str]:
    """Why the verdict is what it is, in a few sentences: the reasons of the checkers that decided it."""
    verdict = merge(result.verdict for result in results)
    deciding = in_order(result for result in results if result.verdict is verdict)
    if not deciding:
        return [problem or "no checker had anything to judge"]
    if verdict is Verdict.VALID:
        idle = sum(result.verdict is Verdict.NOT_APPLICABLE for result in results)
        rest = f"; {text.plural(idle, 'other')} had nothing to judge" if idle else ""
        return [f"{text.plural(len(deciding), 'checker')} found nothing wrong{rest}"]
    return [f"{result.checker}: {result.reason}" for result in deciding]


def in_order(results: Iterable[Result]) -> list[Result]:
    """What a reader should see first: the worst, and of these what is about the messages themselves."""

    def rank(result: Result) -> tuple[int, int]:
        first = _FIRST.index(result.checker) if result.checker in _FIRST else len(_FIRST)
        return _ORDER.index(result.verdict), first

    return sorted(results, key=rank)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("results"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        moment=text.moment,
        duration=text.length,
        grouped=text.count,
        who=lambda process: PROCESS_NAMES.get(process, str(process)),
        compact=lambda data: json.dumps(data, sort_keys=True, default=str),
    )
    return environment.get_template("report.html.j2")


def _guard(draw: Callable[[], T]) -> T | None:
    """A part of the report; None when it cannot be drawn. The report itself always is."""
    try:
        return draw()
    except Exception:
        return None


def _plot(draw: Callable[[], Markup]) -> Markup:
    try:
        return draw()
    except Exception as error:
        return Markup('<p class="muted">This plot could not be drawn: {}: {}</p>').format(type(error).__name__, error)


def _facts(scenario: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, str]:
    """The scenario in a few lines."""
    cluster, workload = scenario.get("cluster", {}), scenario.get("workload", {})
    nemeses = [
        f"{nemesis.get('name')}" + (f" ({', '.join(kinds)})" if (kinds := nemesis.get("kinds")) else "")
        for nemesis in scenario.get("nemesis", [])
    ]
    nemeses += [f"{fault.get('nemesis')}: {fault.get('target', 'one')}" for fault in scenario.get("fault", [])]
    rate = f", {workload['rate']:g} publishes/s" if isinstance(workload.get("rate"), int | float) else ""
    return {
        "Broker": str(cluster.get("broker", record.get("broker", "?"))),
        "Nodes": f"{cluster.get('nodes', '?')}, {cluster.get('on', record.get('on', '?'))}",
        "Workload": f"{workload.get('name', '?')}{rate}, {workload.get('time', '?')}",
        "Faults": ", ".join(nemeses) or "none",
        "Seed": str(record.get("seed", scenario.get("seed", "?"))),
        "Begun": str(record.get("created", "?"))[:19].replace("T", " ") + " UTC",
    }


def _figures(history: History | None, line: Timeline) -> list[tuple[str, str]]:
    """The numbers at the top."""
    if history is None:
        return []
    ok = {f: history.rows(f)[history.type[history.rows(f)] == 1] for f in ("publish", "consume")}
    delivered = int(np.sum(history.value[ok["consume"]] >= 0))
    bit = sum(fault.bit is True for fault in line.faults)
    return [
        ("confirmed", text.count(len(ok["publish"]))),
        ("delivered", text.count(delivered)),
        ("leader changes", text.count(sum(change.before is not None for change in line.changes))),
        ("faults that bit", f"{bit} of {len(line.faults)}"),
        ("length", text.length(line.end - line.begin)),
    ]


def _shown(history: History | None, line: Timeline, trace: Trace | None, anomaly: Anomaly) -> Shown:
    told = {key: value for key, value in anomaly.detail.items() if key != WINDOW}
    detail = json.dumps(told, sort_keys=True, default=str) if told else ""
    if history is None:
        return Shown(anomaly, [], 0, detail, [], None, Markup(""), Markup(""))
    rows = [row for op in anomaly.ops[:ROWS_SHOWN] if (row := row_of(history, op)) is not None]
    message = message_of(history, anomaly.ops) if anomaly.kind == "lost" else None
    steps = _guard(lambda: journey(history, line, message)) or [] if message is not None else []
    window = anomaly.detail.get(WINDOW)
    picture = _plot(lambda: operations(history, line, window)) if window else Markup("")
    said = _plot(lambda: spacetime(scene(trace, *of_anomaly(history, line, anomaly)))) if trace else Markup("")
    ops = [history[row] for row in rows]
    return Shown(anomaly, ops, len(anomaly.ops) - len(rows), detail, steps, message, picture, said)


def _op_counts(history: History | None) -> list[tuple[str, list[int]]]:
    """How many ops of each f are invoke, ok, fail, info; the clients' first."""
    if history is None:
        return []
    counted = []
    for f in history.f.words:
        kinds = history.type[history.rows(f)]
        counted.append((f, [int(np.sum(kinds == type_)) for type_ in range(4)]))
    order = {f: number for number, f in enumerate(("publish", "consume", "ack", "open", "close"))}
    return sorted(counted, key=lambda entry: (order.get(entry[0], len(order)), entry[0]))


def _logs(nodes: Path) -> list[Log]:
    """The last lines of each file below nodes/<node>/."""
    logs = []
    for path in sorted(path for path in nodes.glob("**/*") if path.is_file()):
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - TAIL_BYTES, 0))
            lines = deque(file.read().decode("utf-8", "replace").splitlines(), TAIL_LINES + 1)
        skipped = size > TAIL_BYTES or len(lines) > TAIL_LINES
        parts = path.relative_to(nodes).parts
        logs.append(Log(parts[0], "/".join(parts[1:]) or parts[0], list(lines)[-TAIL_LINES:], skipped))
    return logs


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
