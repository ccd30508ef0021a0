"""A process that judges: whatever a checker does to it, its run has a result, and so have the others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.store import make
from chaos.model.verdict import Result, Verdict
from checkers.split import Split
from results.checking import judge
from results.checking.apart import Apart, Died, Judged, Limits
from results.checking.store import check_store, runs_of
from tests.results.checking import bad


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three good runs, and checkers that do not behave at hand."""
    monkeypatch.syspath_prepend(str(bad.install(tmp_path / "acme")))
    make(tmp_path / "store", runs=3, ops=150, plants={})
    return tmp_path / "store"


@pytest.fixture
def apart() -> Iterator[Apart]:
    one = Apart(Limits(time=20, memory=1 << 30))
    yield one
    one.close()


def results(judged: Judged) -> dict[str, Result]:
    assert judged.bad is None
    return {result.checker: result for result in judged.results}


def test_what_raises_and_what_dies_leaves_the_others(store: Path, apart: Apart, tmp_path: Path) -> None:
    first, second, _ = runs_of(str(store))
    good = results(apart.judge(str(store), first))
    once = {"kills-once": {"mark": tmp_path / "mark"}}
    bad.ask(store / first, {"raises": {}, "kills": {}, **once, "talks": {}, "segfaults": {}})
    found = results(apart.judge(str(store), first))
    assert found["raises"].verdict is Verdict.UNKNOWN
    assert found["raises"].reason.startswith("the checker failed: ZeroDivisionError: by nothing (acme_bad.py:")
    for name, signal in (("kills", "SIGKILL"), ("segfaults", "SIGSEGV")):
        assert found[name] == Result(name, Verdict.UNKNOWN, f"the checker's process died twice: killed by {signal}")
    assert found["kills-once"].verdict is Verdict.VALID
    assert found["talks"].verdict is Verdict.VALID
    assert {name: found[name] for name in good} == good
    assert list(found)[: len(good)] == list(good)
    assert results(apart.judge(str(store), second)).keys() == good.keys()


def test_what_hangs_or_eats_is_ended(store: Path) -> None:
    run = runs_of(str(store))[0]
    bad.ask(store / run, {"hangs": {}})
    short = Apart(Limits(time=3))
    found = results(short.judge(str(store), run, ["hangs", "messages"]))
    assert found["hangs"].reason == "the checker's process died twice: it did not stop within 3 s, and was killed"
    assert found["messages"].verdict is Verdict.VALID
    short.close()
    bad.ask(store / run, {"eats": {}})
    small = Apart(Limits(memory=600 << 20))
    found = results(small.judge(str(store), run, ["eats", "messages"]))
    assert found["eats"].reason == "the checker's process died twice: it grew above 600 MiB, and was killed"
    assert found["messages"].verdict is Verdict.VALID
    small.close()


def test_a_part_says_what_it_died_of(store: Path, apart: Apart) -> None:
    run = runs_of(str(store))[0]
    bad.ask(store / run, {"kills-parts": {}, "raises-in-parts": {}})
    rows = judge.Source(str(store), run).history().to_table().to_batches(max_chunksize=100)
    found = apart.part(str(store), run, Split.MESSAGE, iter(rows), None)
    assert found["kills-parts"] == ("died", "killed by SIGKILL")
    assert set(found) == {"kills-parts", "raises-in-parts", "messages"}
    bad.ask(store / run, {"raises-in-merge": {}})
    (store / run / "scenario.toml").write_text(
        (store / run / "scenario.toml").read_text().replace("[checkers.kills-parts]\n", "")
    )
    found = apart.part(str(store), run, Split.MESSAGE, iter(rows), None)
    assert found["raises-in-parts"][0] == "failed"
    assert "ZeroDivisionError: by nothing" in found["raises-in-parts"][1]
    assert found["messages"][0] == found["raises-in-merge"][0] == "pieces"


def test_it_ends_when_nobody_asks_any_more(store: Path, apart: Apart) -> None:
    run = runs_of(str(store))[0]
    bad.ask(store / run, {"hangs": {}})
    pid = os.fork()
    if pid == 0:
        try:
            Apart().judge(str(store), run)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 60
    while not (children := of(pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    while time.monotonic() < deadline and any(Path(f"/proc/{child}").exists() for child in children):
        time.sleep(0.1)
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def of(parent: int) -> list[int]:
    """The children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def test_ended_for_good(store: Path, apart: Apart) -> None:
    apart.end()
    with pytest.raises(Died, match="nobody waits"):
        apart.part(str(store), "x", Split.KEY, iter(()), None)
    assert apart.judge(str(store), "x").bad == "the process that read it died twice: nobody waits for it any more"


def test_a_store_in_the_order_of_its_runs(store: Path) -> None:
    names = runs_of(str(store))
    bad.ask(store / names[0], {"kills": {}})
    found = list(check_store(str(store), names, 2, Limits()))
    assert [judged.run for judged in found] == names
    assert [results(judged)["messages"].verdict for judged in found] == [Verdict.VALID] * 3
    assert results(found[0])["kills"].verdict is Verdict.UNKNOWN
