"""[[fault]] tables: faults that a scenario lists one by one."""

from __future__ import annotations

import pytest

from chaos.model.errors import BadInput
from chaos.model.schedule import CUT, Action, Fault, Schedule
from chaos.scenario import loads, plan
from chaos.scenario_flags import from_flags
from nemesis.base import View
from nemesis.partition import Partition

S = 1_000_000_000

HEAD = """\
schema = 1
name = "listed"

[cluster]
broker = "rabbitmq-quorum@4.0"

[workload]
name = "queue"
time = "20s"
"""
LISTED = (
    HEAD
    + """
[[fault]]
nemesis = "partition"
kind = "halves"
at = "2s"
for = "3s"
target = "n3"

[[fault]]
id = "after"
nemesis = "kill"
trigger = "leader-change"
after = "5s"
at = "10ms"
target = "leader"
draw = 7

[[fault]]
nemesis = "loss"
at = "1s"
target = "all"
args = { probability = 0.5, clients = false }
"""
)
FAULTS = (
    Fault("partition-1", "partition", "halves", 2 * S, 3 * S, "n3"),
    Fault("after", "kill", "kill", 10_000_000, 5 * S, "leader", "leader-change", 5 * S, 7),
    Fault("loss-1", "loss", "loss", S, 5 * S, "all", args={"probability": 0.5, "clients": False}),
)


@pytest.fixture(autouse=True)
def world() -> None:
    """The real brokers and nemeses, in place of this folder's small world."""


def test_they_are_planned_as_they_are_listed() -> None:
    scenario = loads(LISTED)
    assert scenario.faults == FAULTS
    assert scenario.expect["faults"] == "bite"
    assert plan(scenario) == Schedule((FAULTS[2], FAULTS[0], FAULTS[1]))


def test_beside_a_nemesis_they_leave_its_faults_as_they_are() -> None:
    alone = HEAD + '\n[[nemesis]]\nname = "pause"\n'
    both = LISTED + '\n[[nemesis]]\nname = "pause"\n'
    assert [fault for fault in plan(loads(both)).faults if fault.nemesis == "pause"] == list(plan(loads(alone)).faults)


def test_what_is_dumped_loads_back_equal() -> None:
    scenario = loads(LISTED)
    assert loads(scenario.dumps()) == scenario
    assert scenario.dumps().count("[[fault]]") == 3
    assert "[[fault]]" not in loads(HEAD).dumps()


def test_a_flag_replaces_them_too() -> None:
    assert from_flags(None, broker="rabbitmq-quorum", nemesis="none").faults == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('nemesis = "partition"\n', "", "listed.toml:11: fault[0].nemesis: missing: known: clock, "),
        ('"partition"', '"partitoin"', "listed.toml:12: fault[0].nemesis: no 'partitoin' among the nemeses; did you"),
        ('kind = "halves"', 'kind = "half"', "listed.toml:13: fault[0].kind: 'half' is not one of them: did you mean "),
        ('kind = "halves"\n', "", "listed.toml:11: fault[0].kind: missing: 'partition' has halves, one, "),
        ('at = "2s"', "at = 2.5", "listed.toml:14: fault[0].at: 2.5 is not a duration"),
        ('at = "2s"', 'at = "20s"', "listed.toml:14: fault[0].at: it begins 20s into the work, which is"),
        ('"n3"', '"n4"', "listed.toml:16: fault[0].target: there is no node 'n4'; the nodes are n1, n2, n3"),
        ('"n3"', '"n1+n2+n3"', "listed.toml:16: fault[0].target: 'n1+n2+n3' is nobody among n1, n2, n3"),
        ('for = "3s"', 'fro = "3s"', "listed.toml:15: fault[0].fro: unknown setting 'fro'; did you mean 'for'?"),
        ('for = "3s"', 'for = "0s"', "listed.toml:15: fault[0].for: '0s' is too short: at least 1ns"),
        ('for = "3s"', 'after = "3s"', "listed.toml:15: fault[0].after: only with a trigger"),
        ('id = "after"', 'id = "loss-1"', "listed.toml:27: fault[2].id: another fault is called 'loss-1'"),
        ("clients = false", "client = false", "listed.toml:31: fault[2].args: 'loss' needs 'clients'"),
        ("[[fault]]", "[fault]", "listed.toml:11: fault: each fault is a table of its own; write [[fault]]"),
        ('args = { probability = 0.5, clients = false }', 'kind = "heavy"', "listed.toml:31: fault[2].kind: 'loss'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_line(old: str, new: str, told: str) -> None:
    text = LISTED.replace(old, new, 1)
    if new == "[fault]":
        text = HEAD + '\n[fault]\nnemesis = "kill"\n'
    with pytest.raises(BadInput) as error:
        loads(text, "listed.toml")
    assert str(error.value).startswith(told)


def test_a_fault_and_no_faults_expected() -> None:
    with pytest.raises(BadInput, match=r"listed.toml:\d+: expect.faults: 'none', and yet there is a \[\[fault\]\]"):
        loads(LISTED + '\n[expect]\nfaults = "none"\n', "listed.toml")


def test_named_nodes_are_the_side_that_is_cut_off() -> None:
    view = View(("n1", "n2", "n3", "n4"), "n1")
    sides = {("n2", "n3"), ("n2", "n1"), ("n2", "n4")}
    for kind in ("one", "halves", "leader"):
        (action,) = Partition().resolve(Fault("p", "partition", kind, 0, S, "n2"), view)
        assert {tuple(link) for link in action.args["links"]} == sides | {(b, a) for a, b in sides}
    one_way: list[Action] = list(Partition().resolve(Fault("p", "partition", "one-way", 0, S, "n2", draw=1), view))
    assert [action.verb for action in one_way] == [CUT]
    links = {tuple(link) for link in one_way[0].args["links"]}
    assert links in (sides, {(b, a) for a, b in sides})
