"""Whether each cell of a suite's run came out as expected, by what was recorded of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from chaos.expectation import Expectation, Judgement, Seen
from chaos.model.verdict import Verdict
from results.suite_runs import Cell, Line, SuiteRun


@dataclass(frozen=True)
class Judged:
    """A cell with its last attempts, and what they come to. `missing`: how many of its runs there are not."""

    cell: Cell
    judgement: Judgement
    lines: tuple[Line, ...]
    missing: int

    @property
    def whole(self) -> bool:
        """Whether it was run wholly and is as expected."""
        return self.judgement.met and not self.missing


def shown(line: Line) -> Seen:
    """What a recorded attempt showed."""
    return Seen(line.seed, Verdict(line.verdict), line.anomalies, line.why, line.measured, line.versus)


def judged(run: SuiteRun) -> Iterator[Judged]:
    """Each cell, in the order of the plan. Where runs are missing, its judgement is whether it can still be met."""
    plan = run.plan
    lines: dict[str, list[Line]] = defaultdict(list)
    for key in plan.planned():
        if key in run.last:
            lines[key[0]].append(run.last[key])
    for cell in plan.cells:
        here = lines[cell.cell]
        planned = len(cell.seeds) * plan.repeat
        judgement = Expectation.from_json(cell.expect).judge([shown(one) for one in here], planned, plan.repeat)
        yield Judged(cell, judgement, tuple(here), planned - len(here))


def failed(run: SuiteRun) -> dict[str, tuple[int, ...]]:
    """What is worth another look, by cell: seeds that did not do their part where the cell is not as expected, and all
    that were not run to their end."""
    found: dict[str, tuple[int, ...]] = {}
    for one in judged(run):
        seeds = {seed for cell, seed, _ in run.missing if cell == one.cell.cell}
        if not one.judgement.met:
            compared = not one.judgement.missed  # a ratio is of all of them together
            missed = one.judgement.missed
            seeds |= {line.seed for line in one.lines if compared or shown(line) in missed}
        if seeds:
            found[one.cell.cell] = tuple(seed for seed in one.cell.seeds if seed in seeds)
    return found
