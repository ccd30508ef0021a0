"""The store that tests and benchmarks of the pipeline are made on: what is planted is there, and nothing else."""

from __future__ import annotations

from pathlib import Path

from benchmarks.store import CUT, DUAL_LEADER, DUPLICATED, LOST, REJECTED, make
from chaos import scenario
from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Verdict
from checkers.run import check_all, overall
from results.store import RunDirectory


def test_each_plant_is_found_by_its_checker_and_the_other_runs_are_valid(tmp_path: Path) -> None:
    planted = make(tmp_path, runs=12, ops=900, scenarios=2)
    assert len(planted) == 9
    for path in sorted(tmp_path.iterdir()):
        plant = planted.get(path.name)
        directory = RunDirectory(path)
        if plant in REJECTED:
            try:
                directory.run()
                directory.history()
            except SplitbrainError:
                continue
            raise AssertionError(f"{path.name} was to be {plant}, and is whole")
        results = check_all(directory.history(), scenario.load(directory.scenario).checkers)
        counts = results["messages"].counts
        verdict = overall(results.values())
        assert (counts["lost"], counts["duplicated"]) == (plant == LOST, plant == DUPLICATED)
        assert results["leaders"].counts["two-leaders"] == (plant == DUAL_LEADER)
        assert (directory.history().cut is not None) == (plant == CUT)
        bad = plant in (LOST, DUAL_LEADER)
        assert verdict is (Verdict.INVALID if bad else Verdict.UNKNOWN if plant == CUT else Verdict.VALID)
