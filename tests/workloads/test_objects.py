"""Workloads of objects on a simulated etcd: kept where etcd keeps its promise, found where nobody promised anything."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from chaos import scenario
from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.op import CONTROLLER, FAIL, INFO, INVOKE, OK
from chaos.model.verdict import Verdict
from chaos.search.trial import Trial, trial
from checkers.columns import said

HARD = ("partition", "kill", "pause", "restart", "power-off", "loss")


def told(workload: str, *nemeses: Any, seed: int = 1, time: str = "30s", broker: str = "etcd", **options: Any) -> Any:
    """A scenario. What begins with `set_` is a setting of the cluster."""
    settings = {key[4:]: value for key, value in options.items() if key.startswith("set_")}
    return {
        "schema": 1,
        "name": "objects",
        "seed": seed,
        "cluster": {"broker": broker, "on": "simulated", "nodes": 3, "settings": settings},
        "workload": {
            "name": workload,
            "time": time,
            **{key: value for key, value in options.items() if not key.startswith("set_")},
        },
        "nemesis": [{"name": nemesis} if isinstance(nemesis, str) else nemesis for nemesis in nemeses],
    }


def run(*args: Any, **options: Any) -> Trial:
    return trial(scenario.from_data(told(*args, **options)))


def bad(done: Trial) -> dict[str, str]:
    return {
        name: result.reason
        for name, result in done.results.items()
        if result.verdict in (Verdict.INVALID, Verdict.UNKNOWN)
    }


def fs(history: History) -> dict[str, int]:
    """How often each f of a client was invoked."""
    rows = [row for row in range(len(history)) if history.process[row] >= 0 and history.type[row] == INVOKE]
    found: dict[str, int] = {}
    for row in rows:
        found[str(history.f[row])] = found.get(str(history.f[row]), 0) + 1
    return found


@pytest.mark.parametrize("workload", ["register", "counter", "set", "ids", "mutex"])
@pytest.mark.parametrize("seed", [1, 2])
def test_etcd_keeps_its_promise_under_every_fault(workload: str, seed: int) -> None:
    done = run(workload, *HARD, seed=seed, time="40s", set_election_timeout="500ms")
    assert bad(done) == {}
    assert done.results["earned"].counts["bit"] >= 3
    assert done.results["leaders"].verdict is Verdict.VALID


CONTROLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "serializable registers": (("register", "partition"), {"reads": "serializable"}, "linearizable"),
    "serializable counters": (("counter", "partition"), {"reads": "serializable"}, "counter.out-of-bounds"),
    "serializable sets": (("set", "partition"), {"reads": "serializable"}, "set-full.stale"),
    "counters without compare": (("counter",), {"update": "read-write"}, "counter.out-of-bounds"),
    "sets without compare": (("set",), {"update": "read-write"}, "set.lost"),
    "ids without compare": (("ids",), {"by": "read-write"}, "unique-ids.duplicated"),
    "a holder stands still": (("mutex",), {"stands_still": 5}, "linearizable.held-twice"),
    "nothing is synced": (
        ("set", {"name": "power-off", "targets": ["all"]}),
        {"set_mutation": "no-fsync"},
        "set.lost",
    ),
    "old logs win": (
        ("set", "partition", "kill"),
        {"set_mutation": "ignore-log-up-to-date", "time": "60s"},
        "set.lost",
    ),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_what_promises_nothing_is_found_out(control: str) -> None:
    args, options, expected = CONTROLS[control]
    for seed in range(1, 21):
        done = run(*args, seed=seed, **options)
        if done.verdict is Verdict.INVALID:
            assert any(anomaly.startswith(expected) for anomaly in done.anomalies), (seed, done.anomalies)
            return
    pytest.fail("not found in 20 seeds")


def test_tokens_grow_also_where_a_lock_has_two_holders() -> None:
    done = run("mutex", seed=3, stands_still=5)
    assert done.anomalies == ("linearizable.held-twice",)
    assert done.results["fencing"].verdict is Verdict.VALID
    assert done.results["fencing"].counts["tokens"] > 20


@pytest.mark.parametrize("broker", ["rabbitmq-quorum", "rabbitmq-mirrored", "lavinmq", "null"])
def test_a_lock_made_of_a_message_excludes_while_nobody_is_hurt(broker: str) -> None:
    done = run("mutex", broker=broker)
    assert bad(done) == {}
    assert done.results["earned"].counts["confirmed"] > 100
    assert done.results["fencing"].verdict is Verdict.NOT_APPLICABLE


LONG_HOLDS = {"hold": "15s", "pause": "1s", "time": "60s"}
LONG_CUTS = {"name": "partition", "kinds": ["one"], "every": "20s", "for": "14s", "start": "10s"}


@pytest.mark.parametrize(
    ("broker", "nemesis", "options"),
    [
        ("rabbitmq-quorum", LONG_CUTS, LONG_HOLDS),
        ("lavinmq", LONG_CUTS, LONG_HOLDS),
        ("rabbitmq-mirrored", "partition", {}),
    ],
)
def test_a_lock_made_of_a_message_does_not_exclude_under_partitions(broker: str, nemesis: Any, options: Any) -> None:
    """The broker takes the client of a node that it does not hear for gone, and the client knows nothing of it."""
    found = [run("mutex", nemesis, broker=broker, seed=seed, **options) for seed in range(1, 9)]
    invalid = [done for done in found if done.verdict is Verdict.INVALID]
    assert invalid
    assert {anomaly for done in invalid for anomaly in done.anomalies if not anomaly.startswith("earned")} == {
        "linearizable.held-twice"
    }


def test_who_heeds_what_its_client_says_holds_no_lock_that_another_holds() -> None:
    """Cut off from etcd itself: the client's own clock tells it in time. Who does not listen is found."""
    cut = {"name": "partition", "kinds": ["clients"], "every": "20s", "for": "14s", "start": "5s"}
    heedful = [run("mutex", cut, seed=seed, **LONG_HOLDS) for seed in range(1, 6)]
    heedless = [run("mutex", cut, seed=seed, heeds=False, **LONG_HOLDS) for seed in range(1, 6)]
    assert [bad(done) for done in heedful] == [{}] * 5
    assert "linearizable.held-twice" in [anomaly for done in heedless for anomaly in done.anomalies]
    assert [done.results["fencing"].verdict for done in heedless] == [Verdict.VALID] * 5


def test_a_register_is_asked_by_its_rules() -> None:
    history = run("register", "partition", seed=2, length=20, keys=2).outcome.history
    asked = fs(history)
    assert set(asked) == {"read", "write", "cas", "open"}
    writes = history.rows("write", INVOKE)
    values = history.value[writes].tolist()
    assert len(set(values)) == len(values)
    keys = [history.key[row] for row in range(len(history)) if history.f[row] in ("read", "write", "cas")]
    assert len(set(keys)) > 10
    refused = history.rows("cas", FAIL)
    assert {history.error[row] for row in refused.tolist()} == {"it held another value"}
    processes = {int(history.process[row]) for row in history.rows("write", INFO).tolist()}
    assert processes, "a cut leaves somebody in doubt"
    for process in processes:  # whoever was in doubt asks nothing more
        mine = [row for row in range(len(history)) if history.process[row] == process]
        assert [str(history.f[row]) for row in mine][-1] in ("close", "write", "open")


def test_in_the_end_every_client_reads_everything_once_more() -> None:
    history = run("set", "partition", seed=4, keys=2).outcome.history
    drain = int(history.rows("drain", INVOKE)[0])
    assert history.process[drain] == CONTROLLER
    assert len(history.rows("drain", OK)) == 1
    last = [row for row in history.rows("read", OK).tolist() if row > drain]
    assert sorted(str(history.key[row]) for row in last) == ["s1"] * 6 + ["s2"] * 6
    sizes = {str(key): {len(answer) for row, answer in zip(last, said(history, np.array(last)), strict=True)
                        if history.key[row] == key} for key in ("s1", "s2")}  # fmt: skip
    assert all(len(found) == 1 for found in sizes.values())


def test_a_holder_whose_connection_dies_lets_go_at_that_moment() -> None:
    history = run("mutex", "kill", seed=5, hold="3s").outcome.history
    given_up = [row for row in history.rows("release", INFO).tolist() if "gone" in str(history.error[row])]
    assert given_up
    for row in given_up:
        close = [r for r in history.rows("close").tolist() if history.process[r] == history.process[row]]
        assert history.time[row] == history.time[close[0]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (told("register", broker="rabbitmq-quorum"), "asks a broker as a key-value store, and 'rabbitmq-quorum'"),
        (told("mutex", broker="blazingmq"), "as a lock or a queue that takes messages back, and 'blazingmq'"),
        (told("queue"), "'queue' asks a broker as a queue, and 'etcd' simulated is not one; what can ask it: counter"),
        (told("register", writes=0.8, cas=0.5), "writes and cas together are more than all operations"),
        (told("mutex", locks=9), "there are only 6 clients"),
    ],
)
def test_what_does_not_fit_is_refused(data: Any, said: str) -> None:
    with pytest.raises(BadInput, match="workload") as caught:
        scenario.from_data(data)
    assert said in str(caught.value)


def test_what_a_workload_tells_its_checkers_may_be_said_otherwise() -> None:
    assert scenario.from_data(told("register")).checkers["linearizable"]["model"] == "cas-register"
    data = told("set") | {"checkers": {"set-full": {"linearizable": False}}}
    assert scenario.from_data(data).checkers["set-full"]["linearizable"] is False


def test_a_seed_gives_the_same_digest_in_every_process() -> None:
    code = (
        "from tests.workloads.test_objects import HARD, run;"
        "print([run(name, *HARD, time='20s').outcome.history.digest() for name in ('register', 'set', 'mutex')])"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "271828")
    }
    assert len(digests) == 1
