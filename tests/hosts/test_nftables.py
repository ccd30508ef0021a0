"""Rules as text: what nft is told for which links."""

from __future__ import annotations

from clusters.faults.nftables import Rule, render


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
