"""Scenarios: what a file or flags resolve to, and how what cannot be used is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos import scenario
from chaos.model.errors import EXIT_BAD_INPUT, BadInput, SplitbrainError
from chaos.model.settings import BadKey
from chaos.scenario import ClusterPart, NemesisPart, Scenario, WorkloadPart, loads, plan
from chaos.scenario_flags import from_flags

S = 1_000_000_000

FULL = """\
schema = 1
name = "quorum-partition"
seed = 7

[cluster]
broker = "rabbitmq-quorum@3.10"
nodes = 5
settings = { election = "1s", mutation = "no-fsync" }

[workload]
name = "queue"
rate = 200
time = "30s"

[[nemesis]]
name = "partition"
kinds = ["leader"]
every = "5s"

[[nemesis]]
name = "kill"

[checkers.availability]
recovery = "20s"

[checkers.order]

[checkers.messages]
enabled = false

[checkers.earned]
at_least = 10

[expect]
progress = "any"
"""


def test_a_file_resolves_to_a_value_for_everything() -> None:
    assert loads(FULL) == Scenario(
        name="quorum-partition",
        seed=7,
        cluster=ClusterPart(
            "rabbitmq-quorum", "3.10", "simulated", 5, {"election": S, "mutation": "no-fsync", "fsync": True}
        ),
        workload=WorkloadPart("queue", 30 * S, {"rate": 200.0, "delivery": "at-least-once", "queue": "q", "keys": 1}),
        nemeses=(
            NemesisPart("partition", {"every": 5 * S, "for": 4 * S, "kinds": ("leader",)}),
            NemesisPart("kill", {"every": 10 * S, "for": 4 * S, "kinds": ("halves", "leader")}),
        ),
        checkers={
            "availability": {"recovery": 20 * S},
            "earned": {"progress": "any", "faults": "bite", "at_least": 10},
            "order": {},
        },
        expect={"progress": "any", "faults": "bite"},
        disabled=("messages",),
    )


def test_what_is_dumped_is_plain_to_read_and_loads_back_equal() -> None:
    text = loads(FULL).dumps()
    assert loads(text) == loads(FULL)
    assert (
        text
        == """\
schema = 1
name = "quorum-partition"
seed = 7

[cluster]
broker = "rabbitmq-quorum@3.10"
on = "simulated"
nodes = 5

[cluster.settings]
election = "1s"
mutation = "no-fsync"
fsync = true

[workload]
name = "queue"
time = "30s"
rate = 200.0
delivery = "at-least-once"
queue = "q"
keys = 1

[[nemesis]]
name = "partition"
every = "5s"
for = "4s"
kinds = ["leader"]

[[nemesis]]
name = "kill"
every = "10s"
for = "4s"
kinds = ["halves", "leader"]

[checkers.availability]
recovery = "20s"

[checkers.earned]
at_least = 10

[checkers.order]

[checkers.messages]
enabled = false

[expect]
progress = "any"
faults = "bite"
"""
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.from_regex(r"\A[a-z][a-z0-9._-]{0,20}\Z"),
    seed=st.integers(0, 2**64),
    nodes=st.integers(1, 7),
    on=st.sampled_from(["simulated", "docker"]),
    time=st.integers(15 * S, 30 * S),
    every=st.integers(S, 10 * S),
    queue=st.text(st.characters(codec="utf-8"), max_size=8),
    nemeses=st.lists(st.sampled_from(["partition", "kill"]), max_size=3),
)
def test_every_scenario_survives_its_own_text(
    name: str, seed: int, nodes: int, on: str, time: int, every: int, queue: str, nemeses: list[str]
) -> None:
    made = scenario.from_data(
        {
            "schema": 1,
            "name": name,
            "seed": seed,
            "cluster": {"broker": "rabbitmq-quorum", "on": on, "nodes": nodes},
            "workload": {"name": "queue", "time": time, "queue": queue},
            "nemesis": [{"name": nemesis, "every": every} for nemesis in nemeses],
        }
    )
    assert loads(made.dumps()) == made


def test_flags_alone_make_a_scenario() -> None:
    made = from_flags(broker="rabbitmq-quorum@3.10", on="docker", nodes=3, rate=50, time="20s", seed=2)
    assert made == Scenario(
        name="rabbitmq-quorum-queue",
        seed=2,
        cluster=ClusterPart("rabbitmq-quorum", "3.10", "docker", 3, {"net_ticktime": 15 * S}),
        workload=WorkloadPart("queue", 20 * S, {"rate": 50.0, "delivery": "at-least-once", "queue": "q", "keys": 1}),
        nemeses=(),
        checkers={
            "messages": {},
            "availability": {"recovery": None},
            "earned": {"progress": "required", "faults": "none", "at_least": 1},
        },
        expect={"progress": "required", "faults": "none"},
    )


def test_flags_change_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text(FULL)
    changed = from_flags(
        file,
        seed=8,
        sets=[
            "nemesis.kill.every=20s",
            "nemesis[0].kinds=['halves']",
            "checkers.availability.recovery=1m",
            "workload.queue=x y",
        ],
    )
    before = scenario.load(file)
    assert changed.seed == 8
    assert changed.nemeses[0].options == {**before.nemeses[0].options, "kinds": ("halves",)}
    assert changed.nemeses[1].options == {**before.nemeses[1].options, "every": 20 * S}
    assert changed.checkers["availability"] == {"recovery": 60 * S}
    assert changed.workload.options["queue"] == "x y"
    assert [part.name for part in from_flags(file, nemesis="kill, partition").nemeses] == ["kill", "partition"]
    calm = from_flags(file, nemesis="none")
    assert (calm.nemeses, calm.expect) == ((), {"progress": "any", "faults": "none"})


def test_an_image_makes_containers_and_nothing_else() -> None:
    made = from_flags(broker="rabbitmq-quorum", workload="queue", image="my/rabbitmq:4.1")
    assert (made.cluster.on, made.cluster.image) == ("docker", "my/rabbitmq:4.1"), "simulated where there is no image"
    assert 'image = "my/rabbitmq:4.1"' in made.dumps()
    assert loads(made.dumps()) == made


def test_a_file_without_a_name_is_called_as_the_file(tmp_path: Path) -> None:
    file = tmp_path / "nightly.toml"
    file.write_text('schema = 1\n[cluster]\nbroker = "other"\n[workload]\nname = "queue"\n')
    made = scenario.load(file)
    assert (made.name, made.cluster) == ("nightly", ClusterPart("other", None, "docker", 3, {}))


REFUSED = [
    ("every = ", "evry = ", "s:18: nemesis[0].evry: unknown setting 'evry'; did you mean 'every'?"),
    ('"leader"', '"leadr"', "s:17: nemesis[0].kinds: 'leadr' is not one of them: did you mean 'leader'?"),
    ('"5s"', "5.0", "s:18: nemesis[0].every: 5.0 is not a duration: write a number with a unit, such as"),
    ('every = "5s"', 'for = "2m"', "s:18: nemesis[0].for: longer than anybody waits"),
    ('"kill"', '"kil"', "s:21: nemesis[1].name: no 'kil' among the nemeses; did you mean 'kill'?"),
    ('name = "kill"', 'nam = "kill"', "s:20: nemesis[1].name: missing: known: kill, partition"),
    ('"queue"', '"queu"', "s:11: workload.name: no 'queu' among the workloads; did you mean 'queue'?"),
    ("rate", "rte", "s:12: workload.rte: unknown setting 'rte'; did you mean 'rate'?"),
    ('"30s"', '"0s"', "s:13: workload.time: '0s' is no time at all: write a duration above zero, such as \"60s\""),
    ('"30s"', '"3s"', "s:15: nemesis[0]: not one fault of 'partition' fits in 3s of work"),
    ("rabbitmq-quorum@", "rabbitmq-qorum@", "s:6: cluster.broker: no 'rabbitmq-qorum' among the brokers; did you mean"),
    ("@3.10", "@3.1", "s:6: cluster.broker: no version '3.1' of 'rabbitmq-quorum' simulated; did you mean '3.10'?"),
    ("nodes = 5", "nodes = 10", "s:7: cluster.nodes: 10 is out of range: at least 1, at most 9"),
    ("nodes = 5", 'on = "docker"\nnodes = 8', "s:8: cluster.nodes: 8 is out of range: at least 1, at most 7"),
    (
        "nodes = 5",
        'image = "a"\non = "simulated"',
        "s:7: cluster.image: containers are made of an image, and this cluster is simulated; write on = \"docker\"",
    ),
    ("nodes = 5", 'image = ""', "s:7: cluster.image: '' is not the name of an image, such as \"my/rabbitmq:4.1\""),
    ("nodes", "node", "s:7: cluster.node: unknown key 'node'; did you mean 'nodes'?"),
    (
        "election",
        "net_ticktime",
        "s:8: cluster.settings.net_ticktime: 'net_ticktime' is a setting of 'rabbitmq-quorum' on docker only; this",
    ),
    (
        "nodes = 5",
        'on = "docker"',
        "s:8: cluster.settings.election: 'election' is a setting of 'rabbitmq-quorum' simulated only; this cluster is",
    ),
    ("election", "electon", "s:8: cluster.settings.electon: unknown setting 'electon'; did you mean 'election'?"),
    ("nodes = 5", 'on = "dcoker"', "s:7: cluster.on: 'dcoker' is not one of them: did you mean 'docker'?"),
    ("recovery", "recover", "s:24: checkers.availability.recover: unknown setting 'recover'; did you mean 'recovery'?"),
    ("checkers.order", "checkers.ordr", "s:26: checkers.ordr: no 'ordr' among the checkers; did you mean 'order'?"),
    ("enabled = false", "enabled = 0", "s:29: checkers.messages.enabled: 0 is neither true nor false"),
    ("at_least = 10", 'progress = "any"', "s:32: checkers.earned.progress: say it under [expect]: progress = 'any'"),
    ('"any"', '"many"', "s:35: expect.progress: 'many' is not one of them: did you mean 'any'?"),
    ('progress = "any"', 'faults = "none"', "s:35: expect.faults: 'none', and yet there is a [[nemesis]]; take it out"),
    ("[expect]", "[expct]", "s:34: expct: unknown key 'expct'; did you mean 'expect'?"),
    ("schema = 1\n", "", "s:1: schema: missing; write schema = 1"),
    ("schema = 1", "schema = 2", "s:1: schema: 2 is not one that this version reads; write schema = 1"),
    ('"quorum-partition"', '"a/b"', "s:2: name: 'a/b' is not a name: letters, digits, '.', '_' and '-', at most 64"),
    ('name = "quorum-partition"\n', "", "s:1: name: missing"),
    ("seed = 7", "seed = -1", "s:3: seed: -1 is out of range: at least 0"),
    ("seed = 7", "seed = 7\nseed = 8", "s:4: not TOML: Cannot overwrite a value"),
    ("seed = 7", "seed = ", "s:3: not TOML: Invalid value"),
    ('progress = "any"', 'progress = "any', "s:35: not TOML: "),
    ("[[nemesis]]\nname = \"kill\"\n", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("said", "instead", "message"), REFUSED)
def test_what_cannot_be_used_is_refused_with_its_line(said: str, instead: str, message: str | None) -> None:
    assert said in FULL
    text = FULL.replace(said, instead, 1)
    if message is None:
        loads(text, "s")
        return
    with pytest.raises(BadInput) as caught:
        loads(text, "s")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 1", "s:1: cluster.broker: missing: which broker? known: other, rabbitmq-quorum"),
        ("schema = 1\ncluster = 3", "s:2: cluster: 3 is not a table; write [cluster] and its keys below it"),
        ("schema = 1\n\n[cluster]\nnodes = 3", "s:3: cluster.broker: missing: which broker?"),
        ("schema = 1\n[cluster]\nbroker = 3", "s:3: cluster.broker: 3 is not text"),
        ('schema = 1\n[cluster]\nbroker = "other@1"', "s:3: cluster.broker: no version '1' of 'other' on docker"),
        (
            'schema = 1\n[cluster]\nbroker = "other"\non = "simulated"',
            "s:4: cluster.on: 'other' cannot be simulated; write 'docker'",
        ),
        (
            'schema = 1\ncluster.broker = "other"\nworkload.name = "queue"\n[nemesis]\nname = "kill"',
            "s:4: nemesis: each nemesis is a table of its own; write [[nemesis]], with two brackets",
        ),
        (
            'schema = 1\ncluster.broker = "other"\nworkload.name = "queue"\nnemesis = [\n"kill"]',
            "s:5: nemesis[0]: 'kill' is not a table; write [[nemesis]] and below it name = 'kill'",
        ),
        (
            'schema = 1\ncluster.broker = "other"\nworkload.name = "queue"\n[expect]\nfaults = "bite"',
            "s:5: expect.faults: 'bite' needs a fault, and there is no [[nemesis]]; say \"none\", or add one",
        ),
        ("[" * 5000, "s"),
    ],
)  # fmt: skip
def test_a_scenario_that_is_not_one(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        loads(text, "s")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "which broker (other, rabbitmq-quorum), or which scenario file? For example: splitbrain run --broker "),
        ({"broker": "oter"}, "--broker: cluster.broker: no 'oter' among the brokers; did you mean 'other'?"),
        ({"broker": "other", "nodes": "x"}, "--nodes: cluster.nodes: 'x' is not a whole number"),
        ({"broker": "other", "seed": "-3"}, "--seed: seed: -3 is out of range: at least 0"),
        ({"broker": "other", "nemesis": "kill,kil"}, "--nemesis: nemesis[1].name: no 'kil' among the nemeses"),
        ({"broker": "other", "time": "1"}, "--time: workload.time: '1' is not a duration"),
        ({"broker": "other", "sets": ["rate"]}, "--set rate: write it as KEY=VALUE, such as workload.rate=500"),
        ({"broker": "other", "sets": ["workload.rte=1"]}, "--set: workload.rte: unknown setting 'rte'"),
        ({"broker": "other", "sets": ["a..b=1"]}, "--set a..b: not a dotted key"),
        (
            {"broker": "other", "sets": ["nemesis.kill.every=1s"]},
            "--set nemesis.kill.every: none is named 'kill'; there",
        ),
        (
            {"broker": "other", "nemesis": "kill", "sets": ["nemesis.kil.every=1s"]},
            "--set nemesis.kil.every: none is named 'kil'; did you mean 'kill'?",
        ),
        (
            {"broker": "other", "nemesis": "kill", "sets": ["nemesis[1].every=1s"]},
            "--set nemesis[1].every: there are only 1, counted from 0",
        ),
        ({"broker": "other", "sets": ["seed.x=1", "seed.x.y=1"]}, "--set seed.x.y: seed.x is not a table"),
    ],
)
def test_flags_that_cannot_be_used(flags: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_flags(**flags)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


FILE = """\
schema = 1
[cluster]
broker = "rabbitmq-quorum"
nodes = 5
settings = { election = "1s" }
[workload]
name = "queue"
time = "30s"
[[nemesis]]
name = "kill"
every = "20s"
[expect]
faults = "bite"
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"time": "5s"}, "--time: nemesis[0]: not one fault of 'kill' fits in 5s of work"),
        ({"time": "5s", "seed": 3}, "--time: nemesis[0]: not one fault of 'kill' fits in 5s of work"),
        ({"sets": ["nemesis.kill.for=1m", "seed=3"]}, "--set: nemesis[0]: not one fault of 'kill' fits in 30s of work"),
        ({"nemesis": "none"}, "--nemesis: expect.faults: 'bite' needs a fault, and there is no [[nemesis]]"),
        ({"on": "docker"}, "--on: cluster.settings.election: 'election' is a setting of 'rabbitmq-quorum' simulated"),
        ({"broker": "other"}, "--broker: cluster.settings.election: "),
        (
            {"nemesis": "kill", "time": "9s"},
            "--time: nemesis[0]: not one fault of 'kill' fits in 9s of work",
        ),
        (
            {"time": "20s", "nemesis": "kill", "sets": ["nemesis.kill.for=18s"]},
            "--time and --set: nemesis[0]: not one fault of 'kill' fits in 20s of work",
        ),
        ({"sets": ["nemesis.kill.evry=1s"], "time": "25s"}, "--set: nemesis[0].evry: unknown setting 'evry'"),
    ],
)
def test_what_a_flag_brought_about_is_not_laid_to_the_file(
    tmp_path: Path, flags: dict[str, object], message: str
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(FILE)
    with pytest.raises(BadInput) as caught:
        from_flags(file, **flags)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_what_the_file_says_is_not_laid_to_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(FILE.replace("every", "evry"))
    with pytest.raises(BadInput) as caught:
        from_flags(file, time="40s", seed=3)
    assert str(caught.value).startswith(f"{file}:11: nemesis[0].evry: unknown setting 'evry'")


def test_what_cannot_be_run_is_placed_like_what_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(FILE)

    def able(made: Scenario) -> None:
        if made.nemeses and made.cluster.nodes == 5:
            raise BadKey("nemesis[0]", "cannot be done")

    def refused(**flags: object) -> str:
        with pytest.raises(BadInput) as caught:
            from_flags(file, able=able, **flags)  # type: ignore[arg-type]
        return str(caught.value)

    assert refused() == f"{file}:9: nemesis[0]: cannot be done"
    assert refused(seed=5) == f"{file}:9: nemesis[0]: cannot be done"
    assert refused(nemesis="kill") == "--nemesis: nemesis[0]: cannot be done"
    assert from_flags(file, able=able, nodes=4).cluster.nodes == 4


def test_a_name_of_a_broker_is_no_file() -> None:
    with pytest.raises(
        BadInput, match=r"^rabbitmq-quorum@4.0: there is no such file; .* --broker rabbitmq-quorum@4.0$"
    ):
        from_flags(Path("rabbitmq-quorum@4.0"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "s.toml:1: schema: missing; write schema = 1"),
        (b"\xef\xbb\xbf", "s.toml:1: schema: missing; write schema = 1"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "s.toml:1: not TOML: "),
        (b"\xff\xfes\x00", "s.toml: not a scenario: it is not UTF-8 text"),
        (b"# \n" * 40_000, "s.toml: not a scenario: it is larger than 64 KB"),
        (b"\xc3\xa9" * 60_000, "s.toml: not a scenario: it is larger than 64 KB"),
        (b"a." * 3_000 + b"a = 1", "s.toml: not a scenario: it is nested too deeply"),
        (b"a." * 20 + b"a = 1", "s.toml: not a scenario: it is nested too deeply"),
        (b"a." * 18 + b"a = 1", "s.toml:1: a: unknown key"),
        (b"seed = " + b"9" * 5000, "s.toml: not TOML: Exceeds the limit (4300 digits) for integer string conversion"),
        (b"a = " + b"[" * 60_000, "s.toml"),
    ],
)
def test_a_file_that_holds_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(BadInput) as caught:
        scenario.load(tmp_path / "s.toml")
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_editors_of_all_kinds_write_scenarios(tmp_path: Path, prefix: str, end: str) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes((prefix + FILE.replace("\n", end)).encode())
    assert scenario.load(file).workload.time_ns == 30 * S
    file.write_bytes((prefix + FILE.replace("every", "evry").replace("\n", end)).encode())
    with pytest.raises(BadInput, match=r"s\.toml:11: nemesis\[0\]\.evry: "):
        scenario.load(file)


def test_a_directory_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r": cannot be read: Is a directory$"):
        scenario.load(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"missing\.toml: cannot be read: No such file"):
        scenario.load(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(BadInput, match=r"latin\.toml: not a scenario: it is not UTF-8 text"):
        scenario.load(tmp_path / "latin.toml")


def test_only_what_is_named_is_loaded() -> None:
    loads(FULL)  # there is a checker here that cannot be imported
    with pytest.raises(SplitbrainError, match="'broken'"):
        loads(FULL + "[checkers.broken]\n")


def test_a_plan_is_ordered_and_its_ids_are_unique() -> None:
    made = from_flags(broker="rabbitmq-quorum", nemesis="partition,kill,partition", time="35s")
    assert [(fault.id, fault.at // S) for fault in plan(made).faults] == [
        ("kill-1", 10), ("partition-1", 10), ("partition.2-1", 10),
        ("kill-2", 20), ("partition-2", 20), ("partition.2-2", 20),
        ("kill-3", 30), ("partition-3", 30), ("partition.2-3", 30),
    ]  # fmt: skip


def test_the_plan_of_one_nemesis_does_not_depend_on_the_others() -> None:
    def faults(nemesis: str, name: str, seed: int = 1) -> list[object]:
        made = from_flags(broker="rabbitmq-quorum", nemesis=nemesis, seed=seed)
        return [fault for fault in plan(made).faults if fault.nemesis == name]

    assert faults("partition,kill", "kill") == faults("kill,partition", "kill") == faults("kill", "kill")
    assert faults("kill", "kill", 2) != faults("kill", "kill")
    both = faults("kill,kill", "kill")
    assert [fault for fault in both if fault in faults("kill", "kill")] == faults("kill", "kill")
    assert len({str(getattr(fault, "draw")) for fault in both}) == len(both)  # noqa: B009
