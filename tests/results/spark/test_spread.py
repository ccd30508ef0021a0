"""Work on Spark's tasks: in order, ended when nobody wants it any more, and not spoilt by what takes a worker down.

What needs a session takes the one of all tests; Ctrl-C is pressed in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.cli.explore import seed_range
from chaos.model.errors import SplitbrainError
from chaos.scenario_flags import from_flags
from chaos.search.explore import Seed, Spread, explore, lost
from chaos.search.journal import Journal
from chaos.search.spread import spread as processes
from chaos.search.spread_spark import MOST, ROUNDS, SECONDS, _Rounds, pace, spread
from results.spark.ingest import ingest
from results.spark.verdicts import kept as verdicts
from results.store import DONE, Store
from results.tables.load import load
from results.tables.manifest import Tables
from tests.results.spark.conftest import Session

# a leader that confirms too soon: of these seeds one loses messages, and of another nothing is known
MUTATION = "cluster.settings.mutation=confirm-before-commit"
WORDS = (
    "--broker", "rabbitmq-quorum", "--nemesis", "partition,kill", "--time", "10s", "--rate", "30", "--set", MUTATION,
)  # fmt: skip
SEEDS = "3..6"
SAME = (
    "scenario", "broker", "version", "seed", "digest", "verdict", "published", "confirmed", "lost", "duplicated",
    "outage", "recovery", "failover", "confirmed_under_faults", "faults", "splitbrain", "commit", "python",
)  # fmt: skip


@pytest.fixture(scope="session")
def on_spark(session: Session) -> Spread:
    return partial(spread, spark=session(), tasks=2, lost=lost)


@pytest.mark.spark
def test_results_come_in_order(on_spark: Any) -> None:
    assert list(on_spark(lambda item: item * item, range(25))) == [(item, item * item) for item in range(25)]
    assert list(on_spark(lambda item: item, [])) == []


@pytest.mark.spark
def test_what_takes_its_worker_with_it_is_lost_alone(on_spark: Spread) -> None:
    def fatal(item: int) -> Seed:
        if item == 3:
            os._exit(9)
        return lost(item, "as it should")

    made = list(on_spark(fatal, range(6)))
    assert [item for item, _ in made] == list(range(6))
    whys = [seed.why["run"] for _, seed in made]
    assert [why for item, why in enumerate(whys) if item != 3] == ["the run failed: as it should"] * 5
    assert whys[3].startswith("the run failed: ")
    assert "as it should" not in whys[3]
    assert "\n" not in whys[3]


@pytest.mark.spark
def test_what_raises_and_cannot_be_lost_is_told(on_spark: Any) -> None:
    with pytest.raises(Exception, match="integer division or modulo by zero"):
        list(spread(lambda item: item // 0, range(2), spark=on_spark.keywords["spark"], tasks=2))


@pytest.mark.spark
def test_what_executors_lack_is_no_matter_of_the_items(on_spark: Spread) -> None:
    def lacking(item: int) -> Seed:
        __import__("there_is_no_such_module")
        return lost(item, "")

    with pytest.raises(SplitbrainError, match="the Python of the executors has no module 'there_is_no_such_module'"):
        list(on_spark(lacking, range(4)))


@pytest.mark.spark
def test_what_is_not_wanted_any_more_is_ended(on_spark: Spread, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def slow(item: int) -> Seed:
        Path(folder, str(item)).touch()
        if item > 3:  # the first two rounds, under way together, are quick, the others never end
            time.sleep(3600)
        return lost(item, "")

    wanted = on_spark(slow, range(1000))
    assert [next(wanted)[0] for _ in range(3)] == [0, 1, 2]
    wanted.close()
    begun = len(list(tmp_path.iterdir()))
    assert begun <= 4 * 2
    assert next(on_spark(partial(lost, why=""), [7]))[0] == 7  # there is room for more
    assert len(list(tmp_path.iterdir())) == begun


def test_what_never_began_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds wait for a thread while an item at a time is done again, or where one is not yet awake."""
    ended = threading.Event()

    class Table:
        def toArrow(self) -> None:
            assert ended.wait(60)
            raise InterruptedError

    class Session:
        def interruptAll(self) -> None:
            ended.set()

    monkeypatch.setattr("chaos.search.spread_spark.run", lambda *given: Table())
    session: Any = Session()
    rounds: _Rounds[int, int] = _Rounds(session, abs)
    begun = [rounds.begin([item], 1) for item in range(ROUNDS + 3)]
    ending = threading.Thread(target=rounds.end, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()
    assert [future.cancelled() for future in begun] == [False] * ROUNDS + [True] * 3


@pytest.mark.spark
def test_the_same_seeds_come_to_the_same_and_runs_are_kept_where_they_run(
    on_spark: Spread, session: Session, tmp_path: Path
) -> None:
    base = from_flags(sets=[MUTATION], broker="rabbitmq-quorum", nemesis="partition,kill", time="10s", rate="30")
    wanted = seed_range(SEEDS)
    there = list(explore(base, wanted, spread=on_spark, swarm=True, done={}, store=tmp_path))
    here = list(explore(base, wanted, spread=partial(processes, jobs=1), swarm=True, done={}))
    assert [replace(seed, run=None) for seed in there] == here
    assert [seed.verdict.value for seed in here] == ["unknown", "valid", "valid", "invalid"]
    kept = Store(tmp_path).runs()
    assert sorted(run.id for run in kept) == sorted(str(seed.run) for seed in there)
    assert {run.read_json(run.verdict)["digest"] for run in kept} == {seed.digest for seed in there}
    assert {run.run().status for run in kept} == {DONE}
    # and what the tables say of a seed is what they say of its run
    journal = Journal(tmp_path, base, swarm=True)
    journal.begin()
    for seed in there:
        journal.add(seed, seed.run)
    journal.close()
    done = ingest(session, str(tmp_path), Tables(tmp_path / "tables"), verdicts)
    assert list(done.explored.values()) == [len(there)]
    loaded = load(tmp_path)
    runs = {row["run"]: row for row in loaded.runs.to_arrow().to_pylist()}
    for row in loaded.seeds.to_arrow().to_pylist():
        assert {name: row[name] for name in SAME} == {name: runs[row["kept"]][name] for name in SAME}


@pytest.mark.spark
def test_ctrl_c_ends_it_and_another_engine_goes_on(tmp_path: Path) -> None:
    code = "from chaos.cli.main import main; main()"
    explore_ = [sys.executable, "-c", code, "explore", *WORDS, "--all", "--json", "--store", "store"]
    words = [*explore_, "--seeds", "3..2000", "--engine", "spark", "--master", "local[2]", "--memory", "1g"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not any(path.read_bytes().count(b"\n") > 1 for path in (tmp_path / "store").glob("explore-*.jsonl")):
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
        out, err = process.communicate(timeout=200)
    assert process.returncode == 130, err
    assert "with --resume it goes on from there" in err
    assert "Traceback" not in err
    (journal,) = (tmp_path / "store").glob("explore-*.jsonl")
    done = [json.loads(line)["seed"] for line in journal.read_text().splitlines()[1:]]
    assert done == list(range(3, 3 + json.loads(out)["seeds"]))
    assert gone(process.pid)
    last = str(max(done[-1] + 1, 6))
    rest = [*explore_, "--resume", "--seeds", f"3..{last}", "--jobs", "1"]
    said = json.loads(subprocess.run(rest, cwd=tmp_path, capture_output=True, text=True).stdout)
    assert said["seeds"] == int(last) - 2
    assert ("messages", "lost", 6) in {(one["checker"], one["anomaly"], one["first"]) for one in said["failures"]}


def gone(session: int) -> bool:
    """Whether no process of a session is left, or soon none will be: Java and its workers take a moment."""
    for _ in range(300):
        if not any(belongs(path, session) for path in Path("/proc").glob("[0-9]*/stat")):
            return True
        time.sleep(0.1)
    return False


def belongs(stat: Path, session: int) -> bool:
    try:
        fields = re.sub(r"\(.*\)", "x", stat.read_text(), flags=re.DOTALL).split()
    except OSError:
        return False
    return int(fields[5]) == session and fields[2] != "Z"


@pytest.mark.parametrize(
    ("each", "ran", "seconds", "then"),
    [
        (1, 1, 0.1, 2),  # quick: more, but not all at once
        (8, 8, 0.5, 16),
        (8, 8, 2.0, 8),
        (8, 8, 8.0, 2),
        (1, 1, 60.0, 1),
        (64, 64, 0.0, MOST),
        (8, 1, 1.0, 2),  # of few that were left
    ],
)
def test_a_task_has_as_many_items_as_take_some_seconds(each: int, ran: float, seconds: float, then: int) -> None:
    assert pace(each, ran, seconds) == then
    assert SECONDS == 2.0
