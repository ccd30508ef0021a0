"""Each command, on runs of a broker that cannot fail and on histories written by hand."""

from __future__ import annotations

import errno
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos import scenario
from chaos.cli import main
from chaos.controller import Interrupted
from chaos.model.history import History
from chaos.model.op import CONTROLLER, INVOKE, OK, Op
from chaos.scenario_flags import from_flags
from results.ledger import open_entries
from results.publish import publish
from results.store import RunDirectory, Store
from tests.results.example import results, script, stored, write_stream

Invoke = Callable[..., Result]
QUICK = ("run", "--broker", "null", "--nemesis", "none", "--rate", "50", "--time", "1s")

LOST = History.from_ops(
    [
        Op(index=0, time=0, process=0, type=INVOKE, f="publish", key="q", value=1),
        Op(index=1, time=1, process=0, type=OK, f="publish", key="q", value=1, op=0),
        Op(index=2, time=2, process=CONTROLLER, type=INVOKE, f="drain", key="q"),
        Op(index=3, time=3, process=CONTROLLER, type=OK, f="drain", key="q", op=2),
    ]
)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPLITBRAIN_STORE", raising=False)
    runner = CliRunner()

    def run(*words: str, code: int = 0) -> Result:
        done = runner.invoke(main.group(), words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        assert done.return_value == code, done.output
        return done

    return run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "splitbrain-runs")


def test_a_run_leaves_everything_behind(invoke: Invoke, store: Store) -> None:
    done = invoke(*QUICK, "--seed", "5")
    (directory,) = store.runs()
    assert directory.id.endswith("-null-s5")
    assert sorted(path.name for path in directory.path.iterdir() if path.name != "nodes") == [
        "history.parquet", "junit.xml", "ledger.jsonl", "report.html", "run.json", "scenario.toml", "schedule.json",
        "verdict.json", "versions.json",
    ]  # fmt: skip
    assert done.stdout.startswith(f"✓ VALID  {directory.id}  seed 5  digest ")
    assert done.stdout.splitlines()[-1] == f"report: splitbrain-runs/{directory.id}/report.html"
    assert open_entries(directory.ledger) == []
    assert scenario.load(directory.scenario).seed == 5
    assert directory.run().status == "done"


def test_json_is_one_object_on_stdout(invoke: Invoke, store: Store) -> None:
    told = json.loads(invoke(*QUICK, "--seed", "5", "--json").stdout)
    (directory,) = store.runs()
    assert told["valid"] is True
    assert (told["run"], told["seed"], told["report"]) == (
        directory.id,
        5,
        f"splitbrain-runs/{directory.id}/report.html",
    )
    assert told["digest"] == directory.history().digest()
    assert told["checkers"]["messages"]["counts"]["lost"] == 0
    assert {"valid", "reason", "counts", "anomalies", "metrics"} == set(told["checkers"]["order"])


def test_progress_goes_to_stderr_in_plain_lines(invoke: Invoke) -> None:
    said = invoke(*QUICK).stderr.splitlines()
    assert [line.split()[-1] for line in said if len(line.split()) == 3] == [
        "provision", "open", "work", "undo", "serve", "drain", "collect", "check",
    ]  # fmt: skip


def test_the_same_seed_is_the_same_history(invoke: Invoke) -> None:
    first, again, other = (json.loads(invoke(*QUICK, "--json", "--seed", seed).stdout) for seed in ("1", "1", "2"))
    assert first["digest"] == again["digest"] != other["digest"]


def test_a_dry_run_starts_nothing(invoke: Invoke, tmp_path: Path) -> None:
    words = ("run", "--broker", "rabbitmq-quorum", "--nemesis", "partition", "--time", "60s", "--dry-run")
    told = invoke(*words).stdout
    assert tomllib.loads(told)["cluster"]["broker"] == "rabbitmq-quorum@4.0"
    assert "# " in told
    assert "partition-1" in told
    data = json.loads(invoke(*words, "--json").stdout)
    assert tomllib.loads(data["scenario"]) == tomllib.loads(told)
    assert [fault["id"] for fault in data["schedule"]["faults"]][:1] == ["partition-1"]
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_is_plain_to_read(invoke: Invoke) -> None:
    sets = ("--set", "nemesis.kill.trigger=leader-change", "--set", "nemesis.kill.delay=1500ms")
    nemesis = ("--nemesis", "clock,kill", "--time", "1m")
    told = invoke("run", "--broker", "rabbitmq-quorum", *nemesis, *sets, "--dry-run").stdout
    for line in ('time = "1m"', 'jump = "1h"', 'every = "20s"', 'delay = "1500ms"', 'delay = "0s"', 'drain = "120s"'):
        assert line in told.splitlines()
    assert [" ".join(line.split()) for line in told.splitlines() if line.startswith("#")] == [
        "# 5 faults, counted from the beginning of the work:",
        "# clock-1 at 7.2 s for 10.0 s clock rate: minority, rate 0.6398",
        "# kill-1 1.5 s after the first leader-change from 12.8 s on for 4.0 s kill: majority",
        "# clock-2 at 27.6 s for 10.0 s clock jump: majority, offset 1200.6 s",
        "# kill-2 1.5 s after the first leader-change from 34.8 s on for 4.0 s kill: one",
        "# clock-3 at 45.0 s for 10.0 s clock strobe: leader, offset -1.8 s, strobe 0.2 s",
    ]
    assert tomllib.loads(told)["workload"]["time"] == "1m"


def test_a_saved_schedule_is_injected_as_it_stands(invoke: Invoke, tmp_path: Path) -> None:
    words = ("run", "--broker", "rabbitmq-quorum", "--nemesis", "partition", "--time", "60s", "--dry-run", "--json")
    schedule = json.loads(invoke(*words).stdout)["schedule"]
    schedule["faults"] = schedule["faults"][1:2]
    (tmp_path / "one.json").write_text(json.dumps(schedule))
    told = json.loads(invoke(*words, "--schedule", "one.json").stdout)
    assert told["schedule"] == schedule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "one.json: not a schedule: "),
        ('{"schema": 9, "faults": []}', "one.json: schedule schema 9 is not one that this version reads"),
        ('{"schema": 1, "faults": [{"id": "x"}]}', "one.json: not a schedule: "),
        ("FAULT(kil)", "one.json: fault 'x': no 'kil' among the nemeses; did you mean 'kill'?"),
        ("TWICE(kill)", "one.json: 2 faults are called 'x'; give each an id of its own"),
        ("EARLY(kill)", "one.json: fault 'x': at: -1 is not a number of ns, 0 or more"),
    ],
)
def test_a_schedule_that_cannot_be_carried_out_is_refused(
    invoke: Invoke, tmp_path: Path, text: str, problem: str
) -> None:
    word, paren, nemesis = text.rstrip(")").partition("(")
    if paren:
        fault = {"id": "x", "nemesis": nemesis, "kind": "kill", "at": -1 if word == "EARLY" else 0, "duration": 1}
        text = json.dumps({"schema": 1, "faults": [fault] * (2 if word == "TWICE" else 1)})
    (tmp_path / "one.json").write_text(text)
    assert main.run([*QUICK, "--schedule", "one.json"]) == 254
    with pytest.raises(Exception, match="one") as refusal:
        invoke(*QUICK, "--schedule", "one.json")
    assert str(refusal.value).startswith(problem)
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--json",), ("--dry-run", "--json")])
def test_what_a_cluster_cannot_do_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["run", "--broker", "null", "--nemesis", "partition", "--time", "60s", *more]) == 254
    out, err = capsys.readouterr()
    problem = "nemesis[0]: 'partition' needs 'cut', which this cluster cannot do: there is nothing to hurt"
    assert (out, err) == ("", f"splitbrain: error: --nemesis: {problem}\n")
    assert list(tmp_path.iterdir()) == []


def test_containers_cannot_be_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("run", "--broker", "rabbitmq-quorum", "--nemesis", "wipe")
    assert main.run([*words, "--on", "docker", "--dry-run"]) == 254
    said = capsys.readouterr().err
    assert "nemesis[0]: 'wipe' needs 'wipe', which this cluster cannot do: nobody would bring" in said
    assert said.endswith("; a simulated cluster can\n")
    assert main.run([*words, "--dry-run"]) == 0


@pytest.mark.parametrize("on", ["simulated", "docker"])
def test_a_service_that_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("run", "--broker", "rabbitmq-quorum@4.0", "--on", on)
    assert main.run([*words, "--nemesis", "kill,partition", "--set", "nemesis.partition.service=clients,etdc"]) == 254
    said = "nemesis[1].service: no service 'etdc'; known: clients, replication"
    assert capsys.readouterr().err == f"splitbrain: error: --set: {said}\n"
    one = {"id": "p1", "nemesis": "partition", "kind": "one", "at": 0, "duration": 10**9, "target": "n1"}
    fault = {**one, "after": 0, "trigger": None, "draw": 1, "args": {"service": "replicaton", "clients": False}}
    (tmp_path / "one.json").write_text(json.dumps({"schema": 1, "faults": [fault]}))
    assert main.run([*words, "--schedule", "one.json"]) == 254
    said = "splitbrain: error: fault 'p1': no service 'replicaton'; did you mean 'replication'?"
    assert capsys.readouterr().err.startswith(said)
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    ("broker", "on", "said"),
    [
        ("rabbitmq-quorum@4.0", "simulated", "no process 'epmf' on a node; known: broker"),
        ("rabbitmq-quorum@4.0", "docker", "no process 'epmf' on a node; did you mean 'epmd'?"),
        ("lavinmq", "simulated", "no process 'epmf' on a node; known: broker, etcd"),
        ("lavinmq", "docker", "no process 'epmf' on a node; known: broker, etcd"),
        ("blazingmq", "docker", "no process 'epmf' on a node; known: broker"),
        ("etcd", "docker", "no process 'epmf' on a node; known: broker"),
    ],
)
def test_a_process_that_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker: str, on: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clusters.brokers.blazingmq.Blazingmq.ready", lambda self: None)
    words = ("run", "--broker", broker, "--on", on, *(("--workload", "register") if broker == "etcd" else ()))
    assert main.run([*words, "--nemesis", "pause,kill", "--set", "nemesis.kill.process=epmf"]) == 254
    assert capsys.readouterr().err == f"splitbrain: error: --set: nemesis[1].process: {said}\n"
    one = {"id": "k1", "nemesis": "kill", "kind": "kill", "at": 0, "duration": 10**9, "target": "n1"}
    fault = {**one, "after": 0, "trigger": None, "draw": 1, "args": {"process": "epmf"}}
    (tmp_path / "one.json").write_text(json.dumps({"schema": 1, "faults": [fault]}))
    assert main.run([*words, "--schedule", "one.json"]) == 254
    assert capsys.readouterr().err.startswith(f"splitbrain: error: fault 'k1': {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


def test_a_history_file_is_checked(invoke: Invoke, tmp_path: Path) -> None:
    write_stream(tmp_path / "lost.arrows", LOST)
    told = json.loads(invoke("check", "lost.arrows", "--checker", "messages", "--json", code=1).stdout)
    assert (told["valid"], told["run"], told["seed"], told["digest"]) == (False, None, None, LOST.digest())
    assert told["checkers"].keys() == {"messages"}
    assert told["checkers"]["messages"]["counts"]["lost"] == 1
    assert [anomaly["kind"] for anomaly in told["checkers"]["messages"]["anomalies"]] == ["lost"]
    plain = invoke("check", "lost.arrows", "--checker", "messages", code=1).stdout
    assert plain.startswith("✗ INVALID")
    assert "messages.lost" in plain


def test_a_history_that_was_cut_is_unknown(invoke: Invoke, tmp_path: Path) -> None:
    write_stream(tmp_path / "cut.arrows", LOST, end=False)
    told = json.loads(invoke("check", "cut.arrows", "--checker", "messages", "--json", code=2).stdout)
    assert told["valid"] == "unknown"
    assert told["cut"].startswith("it ends after 4 ops without its end marker")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--checker", "mesages"), "did you mean 'messages'?"),
        (("--set", "messages.delivery"), "write it as CHECKER.SETTING=VALUE"),
        (("--set", "messages=1"), "write it as CHECKER.SETTING=VALUE"),
        (("--set", "messages.delivry=x"), "did you mean 'delivery'?"),
        (("--set", "messages.delivery=often"), "--set messages.delivery: 'often' is not one of them"),
        (("--checker", "order", "--set", "messages.delivery=at-most-once"), "'messages' is not asked"),
    ],
)
def test_what_cannot_be_asked_of_a_check_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    write_stream(tmp_path / "lost.arrows", LOST)
    assert main.run(["check", str(tmp_path / "lost.arrows"), *words]) == 254
    assert problem in capsys.readouterr().err


def test_a_setting_changes_the_verdict(invoke: Invoke, tmp_path: Path) -> None:
    write_stream(tmp_path / "lost.arrows", LOST)
    allowed = ("--set", "messages.delivery=at-most-once")
    invoke("check", "lost.arrows", "--checker", "messages", *allowed)


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"\xff\xff\xff\xff\x10\x00\x00\x00", b"PAR1" * 10, b"{}" * 999])
@pytest.mark.parametrize("suffix", [".arrows", ".parquet"])
def test_a_file_that_is_no_history_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, suffix: str
) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    assert main.run(["check", str(path)]) == 254
    said = capsys.readouterr().err
    assert said.startswith(f"splitbrain: error: {path}: not a")
    assert "Traceback" not in said


def test_a_run_whose_controller_was_killed_can_be_checked(invoke: Invoke, store: Store) -> None:
    invoke(*QUICK)
    (directory,) = store.runs()
    write_stream(directory.stream, directory.history().select(directory.history().index < 60), end=False)
    for path in (directory.parquet, directory.verdict, directory.report, directory.junit):
        path.unlink()
    assert "its controller was killed before there was a verdict" in invoke("show").stdout
    invoke("check", code=2)
    assert directory.report.exists()
    assert directory.read_json(directory.verdict)["valid"] == "unknown"
    assert directory.read_json(directory.verdict)["cut"]


def test_checking_with_other_settings_leaves_the_stored_verdict(invoke: Invoke, store: Store) -> None:
    invoke(*QUICK)
    (directory,) = store.runs()
    before = directory.verdict.read_bytes()
    told = json.loads(invoke("check", directory.id[:12], "--checker", "order", "--json", code=0).stdout)
    assert told["checkers"].keys() == {"order"}
    assert directory.verdict.read_bytes() == before
    invoke("check", str(directory.path))
    assert directory.verdict.read_bytes() == before


@pytest.fixture
def example(store: Store) -> RunDirectory:
    history = script(rate=40).history()
    directory = stored(store, history)
    publish(directory, history, results(history))
    return directory


def test_show_says_the_verdict_and_why(invoke: Invoke, example: RunDirectory) -> None:
    told = invoke("show").stdout
    assert told.startswith(f"✗ INVALID  {example.id}  seed 7  digest ")
    for said in ("✗ messages      3 confirmed messages were lost", "messages.lost message 913", "– order", "? earned"):
        assert said in told
    assert str(example.report.name) in told


def test_show_gives_ops_and_the_report(invoke: Invoke, example: RunDirectory) -> None:
    told = invoke("show", "last-invalid", "--ops", "0..2").stdout.splitlines()
    assert told[0] == "#0 0.000000s controller info phase  {'name': 'provision'}"
    assert len(told) == 3
    assert invoke("show", "--ops", "7").stdout.startswith("#7 ")
    assert invoke("show", "--report").stdout == f"{example.report}\n".replace(str(example.path.parents[1]) + "/", "")
    data = json.loads(invoke("show", "--json").stdout)
    assert (data["valid"], data["state"], data["name"]) == (False, "invalid", "quorum-partition")


@pytest.mark.parametrize("wanted", ["x", "-1", "5..", "99999999", "9..1", "0x1"])
def test_ops_that_are_not_there_are_refused(
    example: RunDirectory, capsys: pytest.CaptureFixture[str], wanted: str
) -> None:
    assert main.run(["show", "--store", str(example.path.parent), f"--ops={wanted}"]) == 254
    assert f"--ops {wanted}: " in capsys.readouterr().err


def test_list_has_the_runs_newest_first(invoke: Invoke, store: Store, example: RunDirectory) -> None:
    later = store.create(name="later", broker="null", on="simulated", seed=1, now=datetime(2027, 1, 1, tzinfo=UTC))
    assert [line.split()[1] for line in invoke("list").stdout.splitlines()] == [later.id, example.id]
    runs = json.loads(invoke("list", "runs", "--json").stdout)["runs"]
    assert [(run["id"], run["valid"]) for run in runs] == [(later.id, None), (example.id, False)]
    with later.held():
        assert json.loads(invoke("list", "--json").stdout)["runs"][0]["state"] == "running"


@pytest.mark.parametrize("what", ["brokers", "nemeses", "workloads", "checkers"])
def test_list_says_what_everything_means(invoke: Invoke, what: str) -> None:
    things: list[dict[str, Any]] = json.loads(invoke("list", what, "--json").stdout)[what]
    assert things
    for thing in things:
        assert thing["meaning"]
        assert all(setting["meaning"] for setting in thing["settings"])
        assert thing["name"] in invoke("list", what).stdout


def test_init_writes_a_scenario_that_runs_and_overwrites_nothing(
    invoke: Invoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke("init", "new.toml", "--nemesis", "partition,kill")
    text = (tmp_path / "new.toml").read_text()
    assert scenario.load(tmp_path / "new.toml") == from_flags(broker="rabbitmq-quorum", nemesis="partition,kill")
    assert main.run(["init", "new.toml"]) == 254
    assert "new.toml is there already, and is left as it is" in capsys.readouterr().err
    assert (tmp_path / "new.toml").read_text() == text


def test_every_line_that_init_comments_out_can_be_taken_in(invoke: Invoke, tmp_path: Path) -> None:
    invoke("init", "--nemesis", "partition,kill,pause,clock,loss")
    lines = (tmp_path / "scenario.toml").read_text().splitlines()
    taken = [line.removeprefix("# ") if " = " in line and " =   #" not in line else line for line in lines]
    (tmp_path / "taken.toml").write_text("\n".join(taken))
    assert scenario.load(tmp_path / "taken.toml") == scenario.load(tmp_path / "scenario.toml")


def test_clean_has_nothing_to_do_for_a_simulated_run(invoke: Invoke) -> None:
    invoke(*QUICK)
    assert invoke("clean", "latest").stdout == "there was nothing to remove\n"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """An engine with a network of each run that a test puts there, and who holds it."""
    there: dict[str, str | None] = {}

    def clean(run: str) -> list[str]:
        return [f"network splitbrain-{run}"] if there.pop(run, "nobody") != "nobody" else []

    monkeypatch.setattr("clusters.hosts.docker.runs", lambda: dict(there))
    monkeypatch.setattr("clusters.hosts.docker.clean", clean)
    return there


def test_clean_removes_what_a_run_left(invoke: Invoke, example: RunDirectory, engine: dict[str, str | None]) -> None:
    engine.update({example.id: None, "other": None})
    assert invoke("clean", "2026").stdout == f"removed network splitbrain-{example.id}\n"
    assert invoke("clean", "2026").stdout == "there was nothing to remove\n"
    assert engine == {"other": None}


def test_clean_all_leaves_alone_what_goes_on_wherever_its_store_is(
    invoke: Invoke, engine: dict[str, str | None]
) -> None:
    engine.update({"a": None, "b": "process 7", "c": None})
    assert invoke("clean", "--all").stdout.splitlines() == [
        "removed network splitbrain-a",
        "removed network splitbrain-c",
        "left b alone: it is going on (process 7); --force takes it too",
    ]
    told = {"removed": [], "going_on": {"b": "process 7"}, "unreached": []}
    assert json.loads(invoke("clean", "--all", "--json").stdout) == told
    assert invoke("clean", "--all", "--force").stdout == "removed network splitbrain-b\n"
    assert invoke("clean", "--all").stdout == "there was nothing to remove\n"


def test_clean_all_names_each_host_that_it_cannot_reach_and_goes_on(
    tmp_path: Path, invoke: Invoke, engine: dict[str, str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    engine["a"] = None
    hosts = {"host": [{"address": "127.0.0.1", "port": 9}]}
    told = {"broker": "rabbitmq-quorum", "on": "ssh", "ssh": hosts}
    own = scenario.from_data({"schema": 1, "name": "own", "cluster": told, "workload": {"name": "queue"}})
    for seed in (1, 2):  # of many runs on a host it is asked once
        made = Store(tmp_path).create(name="own", broker="rabbitmq-quorum", on="ssh", seed=seed, now=datetime.now(UTC))
        made.write(made.scenario, own.dumps())
    assert main.run(["clean", "--all", "--store", str(tmp_path)]) == 255
    out, err = capsys.readouterr()
    assert out == "removed network splitbrain-a\n"
    (said,) = err.splitlines()
    assert said.startswith("splitbrain: error: n1 (127.0.0.1:9): no SSH at [127.0.0.1]:9 (Connection refused)")


def test_clean_refuses_a_run_that_is_going_on(
    invoke: Invoke, example: RunDirectory, capsys: pytest.CaptureFixture[str], engine: dict[str, str | None]
) -> None:
    engine[example.id] = None
    words = ["clean", "latest", "--store", str(example.path.parent)]
    with example.held():
        assert main.run(words) == 254
    said = "is going on: stop it first, with Ctrl-C or SIGTERM, or say --force"
    assert capsys.readouterr().err == f"splitbrain: error: {example.id} {said}\n"
    engine[example.id] = "process 7"  # of the same id, in another store
    assert main.run(words) == 254
    assert f"{example.id} is going on (process 7): " in capsys.readouterr().err
    assert main.run([*words, "--force"]) == 0
    assert engine == {}


def test_doctor_is_content_where_simulated_clusters_work(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    told = invoke("doctor").stdout
    assert "✓ Python" in told
    assert "– Docker engine  no Docker engine answers" in told
    assert "apt-get install docker.io" in told
    data = json.loads(invoke("doctor", "--json").stdout)
    assert data["simulated"] is True


def test_doctor_is_255_where_they_do_not(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr("chaos.cli.doctor.PYTHONS", ((4, 0), (4, 1)))
    assert "✗ Python" in invoke("doctor", code=255).stdout


def test_a_crash_leaves_a_failed_run_with_a_report(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by <nothing>")

    monkeypatch.setattr("chaos.cli.run.execute", crash)
    assert main.run([*QUICK, "--store", str(store.path)]) == 255
    assert "internal error: ZeroDivisionError: by <nothing>" in capsys.readouterr().err
    (directory,) = store.runs()
    assert directory.run().status == "failed"
    assert "by &lt;nothing&gt;" in directory.report.read_text()


def test_an_interrupt_before_the_work_is_130_and_recorded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Interrupted("interrupted before the work began")

    monkeypatch.setattr("chaos.cli.run.execute", stop)
    assert main.run([*QUICK, "--store", str(store.path)]) == 130
    (directory,) = store.runs()
    assert directory.run().problem == "interrupted before the work began"


def test_a_full_disk_is_one_line_and_no_verdict(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("chaos.model.history_file.pq.write_table", full)
    assert main.run([*QUICK, "--store", str(store.path)]) == 255
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("splitbrain")]
    assert said == [f"splitbrain: error: {store.runs()[0].parquet}: cannot be written: No space left on device"]
    (directory,) = store.runs()
    assert not directory.parquet.exists()
    assert directory.read_json(directory.verdict)["valid"] == "unknown"
