"""Rules as text: what nft is told for which links."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.faults.base import FaultError
from clusters.faults.nftables import Rule, Spared, Table, render


def test_no_fault_no_table() -> None:
    assert render({}) == "add table inet splitbrain\ndelete table inet splitbrain\n"


def test_a_cut_of_everything_one_of_a_service_and_loss() -> None:
    rules = {
        "c0": [Rule("in", "10.0.0.2"), Rule("in", "fd00::3")],
        "c1": [Rule("in", "10.0.0.3", (25672, 4369)), Rule("out", "10.0.0.1", (5672,))],
        "c2": [Rule("in", "10.0.0.4", (), 0.25)],
    }
    assert render(rules) == (
        """add table inet splitbrain
delete table inet splitbrain
table inet splitbrain {
  counter c0 { }
  counter c1 { }
  counter c2 { }
  chain input {
    type filter hook input priority -10; policy accept;
    ip saddr 10.0.0.2 counter name "c0" meta mark set 0x53504c54
    ip6 saddr fd00::3 counter name "c0" meta mark set 0x53504c54
    ip saddr 10.0.0.3 tcp dport { 25672, 4369 } counter name "c1" meta mark set 0x53504c54
    ip saddr 10.0.0.3 tcp sport { 25672, 4369 } counter name "c1" meta mark set 0x53504c54
    ip saddr 10.0.0.4 numgen random mod 10000 < 2500 counter name "c2" meta mark set 0x53504c54
    meta mark 0x53504c54 drop
  }
  chain output {
    type filter hook output priority -10; policy accept;
    ip daddr 10.0.0.1 tcp dport { 5672 } counter name "c1" meta mark set 0x53504c54
    ip daddr 10.0.0.1 tcp sport { 5672 } counter name "c1" meta mark set 0x53504c54
    meta mark 0x53504c54 drop
  }
}
"""
    )


def test_a_tiny_loss_is_still_a_loss() -> None:
    assert "< 1 counter" in render({"c0": [Rule("in", "10.0.0.4", (), 1e-9)]})


CONTROLLER, SSH, BROKER = "10.0.0.254", 22, 5672
PEERS = ("10.0.0.1", "10.0.0.2", CONTROLLER)


@dataclass(frozen=True)
class Packet:
    """A TCP packet that comes in from `peer`, or goes out to it."""

    direction: str
    peer: str
    sport: int
    dport: int


_MATCH = re.compile(r"ip [sd]addr (\S+)(?: tcp ([sd])port (?:\{ ([\d, ]+) \}|(\d+)))? (accept|counter name)")


def dropped(script: str, packet: Packet) -> bool:
    """Whether the kernel would drop it, by the text of the rules: a reader of the few forms that we write."""
    chain = script.split("  chain input {" if packet.direction == "in" else "  chain output {")[1].split("  }")[0]
    marked = False
    for line in chain.splitlines():
        if (found := _MATCH.match(line.strip())) is not None:
            address, end, ports, port, verdict = found.groups()
            there = [int(one) for one in (ports or port or "").replace(" ", "").split(",") if one]
            matches = address == packet.peer and (not there or getattr(packet, f"{end}port") in there)
            if matches and verdict == "accept":
                return False
            marked = marked or matches
        elif line.strip().endswith(" drop"):
            return marked
        else:
            assert not line.strip() or line.strip().startswith("type filter"), line
    return False


rules = st.builds(
    Rule,
    st.sampled_from(["in", "out"]),
    st.sampled_from(PEERS),
    st.lists(st.sampled_from([SSH, BROKER, 25672]), max_size=3, unique=True).map(tuple),
)
packets = st.builds(
    Packet,
    st.sampled_from(["in", "out"]),
    st.sampled_from(PEERS),
    st.sampled_from([SSH, BROKER, 40000]),
    st.sampled_from([SSH, BROKER, 40000]),
)


@given(st.lists(rules, min_size=1, max_size=5), packets, st.sampled_from(PEERS))
def test_no_rules_whatever_cut_the_controllers_session_nor_more_of_it_than_named_ports(
    wanted: list[Rule], packet: Packet, controller: str
) -> None:
    """The controller may even be on the machine of another node."""
    script = render({"c0": wanted}, Spared(controller, SSH))
    by_hand = any(
        rule.direction == packet.direction
        and rule.peer == packet.peer
        and (not rule.ports or {packet.sport, packet.dport} & set(rule.ports))
        for rule in wanted
    )
    session = packet.peer == controller and (packet.dport if packet.direction == "in" else packet.sport) == SSH
    assert dropped(script, packet) is (by_hand and not session)


@given(rules)
def test_a_rule_on_the_controllers_address_must_name_ports_and_not_its_own(rule: Rule) -> None:
    spared = Spared(CONTROLLER, SSH)
    if rule.peer == CONTROLLER and (not rule.ports or SSH in rule.ports):
        with pytest.raises(FaultError, match=r"10\.0\.0\.254 is the controller, of whose traffic only"):
            spared.check(rule)
        with pytest.raises(FaultError, match="is the controller"):  # and none comes into force
            table(spared).add([rule])
    else:
        spared.check(rule)


def table(spared: Spared) -> Table:
    one = Table()
    one.spared = spared
    return one
