"""What of a suite is run, and in which part: from a suite to the plan that is recorded, and to the work itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from chaos.expectation import Expectation
from chaos.model.errors import BadInput
from chaos.scenario import Scenario
from chaos.suite import Case, Row, Suite
from results.store import PartOf
from results.suite_runs import Cell, Key, Plan, mark
from results.versions import versions


@dataclass(frozen=True)
class Work:
    """One seed of one case, one time. `versus`: the run that it is compared with. `keep`: where the run is kept, and
    which ones are; `part_of`: of what it is a part."""

    row: int
    case: int
    key: Key
    scenario: Scenario
    versus: Scenario | None
    expect: Expectation
    retries: int
    keep: tuple[Path, str]
    part_of: PartOf | None

    @property
    def seed(self) -> int:
        return self.scenario.seed


def plan(
    suite: Suite,
    file: Path,
    *,
    id_: str = "",
    shard: tuple[int, int] = (1, 1),
    repeat: int = 1,
    retries: int = 0,
    keep: str,
    seeds: Mapping[str, tuple[int, ...]] | None = None,
    rerun_of: str | None = None,
) -> Plan:
    """All cells of a suite with all their seeds, or only those `seeds` of those cells."""
    with_ = versions()
    return Plan(
        id=id_,
        suite=suite.name,
        file=str(file),
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        splitbrain=with_["splitbrain"],
        commit=with_["commit"],
        cells=tuple(
            _cell(row, case, tuple(row.seeds) if seeds is None else seeds[case.cell])
            for row in suite.rows
            for case in row.cases
            if seeds is None or case.cell in seeds
        ),
        shard=shard,
        repeat=repeat,
        retries=retries,
        keep=keep,
        rerun_of=rerun_of,
    )


def _cell(row: Row, case: Case, seeds: tuple[int, ...]) -> Cell:
    cluster = case.scenario.cluster
    return Cell(
        cell=case.cell,
        row=row.name,
        label=case.label,
        scenario=case.scenario.name,
        broker=cluster.broker,
        version=cluster.version,
        on=cluster.on,
        claim=row.claim,
        said_by=row.said_by,
        expected=row.expect.says(),
        expect=row.expect.to_json(),
        seeds=seeds,
        digest=_digest(case, row.expect),
        quarantine=None if row.quarantine is None else row.quarantine.to_json(),
    )


def _digest(case: Case, expect: Expectation) -> str:
    whole = [replace(one, seed=0).dumps() if one is not None else "" for one in (case.scenario, case.versus)]
    return hashlib.blake2b("\0".join((*whole, repr(expect))).encode(), digest_size=8).hexdigest()


def works(suite: Suite, plan: Plan, store: Path) -> Iterator[Work]:
    """What this part of a plan has to run, in the suite's order. Raises BadInput where the suite has changed since."""
    cells = {case.cell: (row, place) for row, line in enumerate(suite.rows) for place, case in enumerate(line.cases)}
    for cell in plan.cells:
        if cell.cell not in cells:
            raise BadInput(f"{plan.file}: {cell.cell!r} is not in it any more: begin anew, without --resume")
        number, place = cells[cell.cell]
        row = suite.rows[number]
        case = row.cases[place]
        if _digest(case, row.expect) != cell.digest:
            raise BadInput(f"{plan.file}: {cell.cell!r} is not what it was: begin anew, without --resume")
        for seed in cell.seeds:
            versus = None if case.versus is None else replace(case.versus, seed=seed)
            for repetition in range(1, plan.repeat + 1):
                key = (cell.cell, seed, repetition)
                if plan.mine(key):
                    yield Work(
                        number,
                        place,
                        key,
                        replace(case.scenario, seed=seed),
                        versus,
                        row.expect,
                        plan.retries,
                        (store, plan.keep),
                        PartOf(plan.id, cell.cell, mark=mark(plan.shard)) if plan.id else None,
                    )
