"""How runs stand by what was expected of them: those of a suite by their cell, all others by being valid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.expectation import Expectation, Seen
from chaos.model.verdict import Verdict
from results.gate.evidence import shown, within
from results.suite_runs import Cell, SuiteRun
from results.tables.load import Loaded

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stands:
    """How a run stands: valid where its cell is as expected, or where it did its own part in one that is not. expected:
    what its cell was to do, where that is not to be valid."""

    state: Verdict
    expected: str | None = None


class Expected:
    """What suites expected of the runs in some rows of the table `runs`, and what these showed."""

    def __init__(self, tables: Loaded, suites: Iterable[SuiteRun], rows: Sequence[Row]) -> None:
        wanted = {row["suite_run"] for row in rows}
        self._suites = {suite.id: suite for suite in suites if suite.id in wanted}
        self._cells = {(name, cell.cell): cell for name, suite in self._suites.items() for cell in suite.plan.cells}
        lines = (line for suite in self._suites.values() for line in suite.lines)
        self._lines = {line.run: line for line in lines if line.run is not None}
        mine = [row for row in rows if self._cell(row) is not None]
        asked = {str(row["scenario"]) for row in mine if _looked_at(self._cell(row))}
        where = within({str(row["day"]) for row in mine}, asked)
        found = shown(tables, {row["run"] for row in mine}, where, with_numbers=True) if asked else ({}, {})
        self._kinds, self._numbers = found

    def key(self, row: Row) -> tuple[Any, ...]:
        """The same for attempts at the same: a seed of a cell, and of its repetitions each."""
        if row["suite_run"] is None:
            return (row["run"],)
        line = self._lines.get(row["run"])
        return row["suite_run"], row["cell"], row["seed"], 1 if line is None else line.repetition

    def judge(self, rows: Sequence[Row]) -> Mapping[str, Stands]:
        """How each run stands."""
        stands: dict[str, Stands] = {}
        cells: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            stands[row["run"]] = Stands(Verdict(row["verdict"]))
            if self._cell(row) is not None:
                cells[row["suite_run"], row["cell"]].append(row)
        for key, of_cell in cells.items():
            stands |= self._judge(self._suites[key[0]].plan.repeat, self._cells[key], of_cell)
        return stands

    def _judge(self, repeat: int, cell: Cell, rows: Sequence[Row]) -> Mapping[str, Stands]:
        expectation = Expectation.from_json(cell.expect)
        showed = {row["run"]: self._seen(row, expectation) for row in rows}
        judgement = expectation.judge(list(showed.values()), len(cell.seeds) * repeat, repeat)
        words = None if expectation.verdict is Verdict.VALID else cell.expected
        if judgement.met:
            return {run: Stands(Verdict.VALID, words) for run in showed}
        missed = judgement.missed or tuple(showed.values())  # a ratio is of all of them together
        found = {}
        for run, seen in showed.items():
            bad = Verdict.UNKNOWN if seen.verdict is Verdict.UNKNOWN else Verdict.INVALID
            found[run] = Stands(bad if seen in missed else Verdict.VALID, words)
        return found

    def _seen(self, row: Row, expectation: Expectation) -> Seen:
        line = self._lines.get(row["run"])
        number = self._numbers.get(row["run"], {}).get(expectation.measure or "")
        kinds = tuple(self._kinds.get(row["run"], ()))
        versus = None if line is None else line.versus
        return Seen(row["seed"], Verdict(row["verdict"]), kinds, row["run"], number, versus)  # no two are alike

    def _cell(self, row: Row) -> Cell | None:
        return self._cells.get((row["suite_run"], row["cell"]))


def _looked_at(cell: Cell | None) -> bool:
    """Whether more than verdicts is expected of it."""
    return cell is not None and bool(cell.expect.get("anomalies") or cell.expect.get("measure"))
