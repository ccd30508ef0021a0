"""Queues and classes as text: what tc and nft are told of packets that are late, corrupt, doubled or too many."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.faults import queues
from clusters.faults.base import FaultError
from clusters.faults.nftables import DOUBLE, QUEUE, Class, Rule, Spared, Table, classes, render
from clusters.faults.queues import Passed, Queues, Shape, together
from clusters.faults.shape import Shape as ShapeFault

MS = 1_000_000
UNKNOWN = "Error: Specified qdisc kind is unknown."


def test_a_tree_with_a_queue_for_each_class() -> None:
    leaves = {
        0x11: Shape(delay=100 * MS, jitter=20 * MS),
        0x12: Shape(delay=MS, reorder=0.25, corrupt=0.00015),
        0x13: Shape(rate=1_000_000),
        0x14: Shape(delay=50 * MS, rate=1000),
    }
    assert queues.render("eth0", leaves) == (
        """qdisc add dev eth0 root handle 5350: htb default 0
class add dev eth0 parent 5350: classid 5350:11 htb rate 10gbit burst 1mb cburst 1mb quantum 60000
qdisc add dev eth0 parent 5350:11 handle 7011: netem limit 100000 delay 100000us 20000us
class add dev eth0 parent 5350: classid 5350:12 htb rate 10gbit burst 1mb cburst 1mb quantum 60000
qdisc add dev eth0 parent 5350:12 handle 7012: netem limit 100000 delay 1000us corrupt 0.0150% reorder 25.0000%
class add dev eth0 parent 5350: classid 5350:13 htb rate 10gbit burst 1mb cburst 1mb quantum 60000
qdisc add dev eth0 parent 5350:13 handle 6013: tbf rate 1000000bps burst 20000 latency 400ms
class add dev eth0 parent 5350: classid 5350:14 htb rate 10gbit burst 1mb cburst 1mb quantum 60000
qdisc add dev eth0 parent 5350:14 handle 6014: tbf rate 1000bps burst 3200 latency 400ms
qdisc add dev eth0 parent 6014:1 handle 7014: netem limit 100000 delay 50000us
"""
    )


def test_what_several_faults_do_to_one_packet() -> None:
    some = [Shape(delay=5, jitter=1, rate=70), Shape(delay=7, corrupt=0.5), Shape(corrupt=0.5, reorder=0.25, rate=50)]
    assert together(some) == Shape(12, 1, 0.75, 0.25, 50)
    assert together([]) == Shape()


def test_packets_doubled_dropped_beyond_a_rate_and_led_to_their_class() -> None:
    rules = {
        "c0": [Rule("out", "10.0.0.2", (), 0.5, DOUBLE, part="duplicate"), Rule("out", "10.0.0.2", does=QUEUE)],
        "c1": [Rule("in", "10.0.0.3", (5672,), limit=1000, part="rate"), Rule("out", "10.0.0.2", (5672,), does=QUEUE)],
    }
    assert render(rules, Spared("10.0.0.9", 22), ("ip6",)) == (
        """add table inet splitbrain
delete table inet splitbrain
add table ip6 splitbrain
delete table ip6 splitbrain
add table ip splitbrain
delete table ip splitbrain
table inet splitbrain {
  counter c1_rate { }
  limit c1_0 { rate over 1000 bytes/second burst 131072 bytes }
  chain input {
    type filter hook input priority -10; policy accept;
    ip saddr 10.0.0.9 tcp dport 22 accept
    ip saddr 10.0.0.3 tcp dport { 5672 } limit name "c1_0" counter name "c1_rate" meta mark set 0x53504c54
    ip saddr 10.0.0.3 tcp sport { 5672 } limit name "c1_0" counter name "c1_rate" meta mark set 0x53504c54
    meta mark 0x53504c54 drop
  }
  chain output {
    type filter hook output priority -10; policy accept;
    ip daddr 10.0.0.9 tcp sport 22 accept
    meta mark 0x53504c54 drop
  }
  chain classes {
    type filter hook output priority -9; policy accept;
    ip daddr 10.0.0.9 tcp sport 22 accept
    ip daddr 10.0.0.2 meta priority set 5350:10
    ip daddr 10.0.0.2 meta priority 5350:10 meta priority set 5350:11
    ip daddr 10.0.0.2 tcp dport { 5672 } meta priority 5350:10 meta priority set 5350:12
    ip daddr 10.0.0.2 tcp sport { 5672 } meta priority 5350:10 meta priority set 5350:12
    ip daddr 10.0.0.2 tcp dport { 5672 } meta priority 5350:11 meta priority set 5350:13
    ip daddr 10.0.0.2 tcp sport { 5672 } meta priority 5350:11 meta priority set 5350:13
  }
}
table ip splitbrain {
  counter c0_duplicate { }
  chain doubling {
    type filter hook output priority -8; policy accept;
    ip daddr 10.0.0.9 tcp sport 22 accept
    ip daddr 10.0.0.2 numgen random mod 10000 < 5000 counter name "c0_duplicate" dup to 10.0.0.2
  }
}
"""
    )
    assert classes(rules) == [
        Class(0x11, "10.0.0.2", ("c0",)),
        Class(0x12, "10.0.0.2", ("c1",)),
        Class(0x13, "10.0.0.2", ("c0", "c1")),
    ]


_CLASSIFIES = re.compile(r"ip daddr (\S+)(?: tcp ([sd]port) \{ ([\d, ]+) \})?((?: meta priority(?: set)? \S+)+)")
QUEUED = st.builds(
    lambda peer, ports: Rule("out", peer, ports, does=QUEUE),
    st.sampled_from(["10.0.0.2", "10.0.0.3"]),
    st.lists(st.sampled_from([1, 2]), max_size=2, unique=True).map(tuple),
)


@given(st.lists(st.lists(QUEUED, max_size=3), max_size=5), st.sampled_from(["10.0.0.2", "10.0.0.3"]),
       st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 3]))  # fmt: skip
def test_a_packet_comes_to_the_class_of_just_the_faults_that_are_about_it(
    rules: list[list[Rule]], peer: str, sport: int, dport: int
) -> None:
    faults = {f"c{number}": some for number, some in enumerate(rules)}
    about = tuple(
        name
        for name, some in faults.items()
        if any(rule.peer == peer and (not rule.ports or {sport, dport} & set(rule.ports)) for rule in some)
    )
    there = {one.minor: one for one in classes(faults)}
    assert len(there) == len(classes(faults)), "each has a number of its own"
    priority = "0:0"
    for line in render(faults).splitlines():
        found = _CLASSIFIES.match(line.strip())
        if found is None or found[1] != peer:
            continue
        port = {"sport": sport, "dport": dport, None: None}[found[2]]
        if port is not None and str(port) not in found[3].split(", "):
            continue
        *condition, then = [word for word in found[4].split() if word.startswith("5350:")]
        if not condition or condition == [priority]:
            priority = then
    came = there.get(int(priority.split(":")[1], 16))
    assert (came.faults if came else ()) == about


def test_more_faults_on_one_link_than_can_be_told_apart() -> None:
    faults = {f"c{number}": [Rule("out", "10.0.0.2", does=QUEUE)] for number in range(6)}
    with pytest.raises(FaultError, match=r"6 faults would delay or slow what is sent to 10\.0\.0\.2; 5 at a time can"):
        render(faults)


class Kernel:
    """What tc would say, by the command's beginning; and what it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fails: str) -> None:
        self.told: list[str] = []
        self.listed: list[dict[str, Any]] = []
        self.fails = fails
        monkeypatch.setattr(queues, "_tc", self.tc)
        monkeypatch.setattr(queues, "_listed", lambda *arguments: self.listed)
        monkeypatch.setattr(queues, "_device", lambda peer: "eth0")
        monkeypatch.setattr(queues, "_devices", {})

    def tc(self, *arguments: str, text: str | None = None) -> str:
        self.told.append(" ".join(arguments))
        for word, problem in self.fails.items():
            if any(word in part.split() for part in (*arguments, text or "")) and "add" in (text or arguments):
                raise FaultError(f"tc failed: {problem}")
        return ""


def test_counts_outlive_the_tree_that_they_were_in(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, trees = Kernel(monkeypatch), Queues()
    one = Class(0x11, "10.0.0.2", ("c0",))
    trees.add("c0", Shape(delay=MS, rate=10), [one])
    kernel.listed = [
        {"kind": "htb", "handle": "5350:", "root": True, "packets": 99, "overlimits": 99},
        {"kind": "tbf", "handle": "6011:", "packets": 99, "overlimits": 3},
        {"kind": "netem", "handle": "7011:", "packets": 5, "overlimits": 99},
    ]
    trees.add("c1", Shape(delay=MS), [one, Class(0x12, "10.0.0.2", ("c1",)), Class(0x13, "10.0.0.2", ("c0", "c1"))])
    kernel.listed = [{"kind": "netem", "handle": "7013:", "packets": 2, "overlimits": 0}]
    assert trees.remove("c0", [Class(0x11, "10.0.0.2", ("c1",))]) == Passed(delayed=7, held=3)
    kernel.listed = [{"kind": "netem", "handle": "7011:", "packets": 4, "overlimits": 0}]
    assert trees.remove("c1", []) == Passed(delayed=6)
    assert kernel.told[-1] == "qdisc del dev eth0 root"
    assert trees.remove("c1", []) == Passed(delayed=6), "again is harmless"


@pytest.mark.parametrize(
    ("fails", "missing"),
    [
        ({}, set()),
        ({"netem": UNKNOWN}, {"sch_netem"}),
        ({"tbf": UNKNOWN}, {"sch_tbf"}),
        ({"netem": UNKNOWN, "tbf": UNKNOWN}, {"sch_tbf", "sch_netem"}),
        ({"htb": UNKNOWN}, {"sch_htb", "", "sch_tbf", "sch_netem"}),
    ],
)
def test_what_a_kernel_lacks(monkeypatch: pytest.MonkeyPatch, fails: dict[str, str], missing: set[str]) -> None:
    Kernel(monkeypatch, **fails)
    found = queues.lacking.__wrapped__()
    assert set(found) == missing
    for module in missing - {"", "sch_tbf"} if "htb" not in fails else set():
        assert found[module] == f"the kernel has no {module}"


def test_a_node_without_tc_says_so_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    why = "there is no tc command on the node (Debian package iproute2)"
    assert dict(queues.lacking.__wrapped__()) == dict.fromkeys(("sch_htb", "", "sch_tbf", "sch_netem"), why)
    queues.sweep()


def test_what_is_not_allowed_is_not_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(monkeypatch, netem="RTNETLINK answers: Operation not permitted")
    assert queues.lacking.__wrapped__() == {"sch_netem": "tc failed: RTNETLINK answers: Operation not permitted"}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "nothing is said of what is to become of packets: delay, jitter, loss, corrupt, duplicate, reorder, rate"),
        ({"reorder": 0.5}, "reorder: packets overtake those that wait, so a delay must be said too"),
        ({"delay": 5, "jitter": 6}, "jitter: 6 is more than the delay, 5"),
        ({"loss": 1.5}, "loss: 1.5 is not a probability"),
        ({"delay": -1}, "delay: -1 is less than nothing"),
        ({"rate": "1mbit"}, "rate: '1mbit' is not int"),
        ({"loss": 0.5, "drop": [{"direction": "in", "peer": "somewhere"}]}, "peer: 'somewhere' is not an address"),
    ],
)
def test_what_cannot_be_done_to_packets(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(FaultError) as raised:
        ShapeFault(Table(), Queues(), {"send": [], "drop": [], **args})
    assert str(raised.value) == problem
