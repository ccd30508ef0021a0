"""Cut and lossy links, by nftables: one table of ours on the node, replaced whole at every change and removed whole.

A link source -> target is hurt at the target, where its packets come in; where the target is not a node (clients), at
the source, where they go out. Loss is drawn by nftables itself (numgen), so that it works where the kernel has no
netem. Counters prove that packets were dropped. Faults on one link do not hide each other: each counts and marks what
it would drop, and what is marked is dropped at the end.

The controller's own way onto the node, where it has one (SSH), is let through before any rule is looked at; and a rule
on its address must name ports, so that whatever else it does here is spared.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.faults.base import FaultError, Probe, required

TABLE = "splitbrain"
_MARK = "0x53504c54"  # of a packet that is to be dropped
_RESOLUTION = 10_000  # packets lost of this many: a probability is kept to 0.01%


@dataclass(frozen=True)
class Rule:
    """Drop packets between this node and `peer` (an address): "in" those that arrive from it, "out" those that leave
    for it; only TCP from or to one of `ports`, where there are any; each with `probability`.
    """

    direction: str
    peer: str
    ports: tuple[int, ...] = ()
    probability: float = 1.0

    @staticmethod
    def parse(data: Mapping[str, Any], probability: float) -> Rule:
        """From a link of an action's arguments, as JSON. Raises FaultError."""
        rule = Rule(data.get("direction", ""), data.get("peer", ""), tuple(data.get("ports", ())), probability)
        if rule.direction not in ("in", "out"):
            raise FaultError(f"direction: {rule.direction!r} is neither in nor out")
        if not rule.peer or not set(rule.peer) <= set("0123456789abcdefABCDEF.:"):
            raise FaultError(f"peer: {rule.peer!r} is not an address")
        if not all(isinstance(port, int) and 0 < port < 65536 for port in rule.ports):
            raise FaultError(f"ports: {list(rule.ports)} are not all ports")
        if not 0 < probability <= 1:
            raise FaultError(f"probability: {probability} is not above 0 and at most 1")
        return rule

    def lines(self, counter: str) -> list[str]:
        """The rule in nft's language: one line, or one for each end that may hold the service's port."""
        family = "ip6" if ":" in self.peer else "ip"
        match = f"{family} {'saddr' if self.direction == 'in' else 'daddr'} {self.peer}"
        chance = "" if self.probability == 1 else f" numgen random mod {_RESOLUTION} < {self._share()}"
        drop = f'{chance} counter name "{counter}" meta mark set {_MARK}'
        if not self.ports:
            return [match + drop]
        ports = "{ " + ", ".join(map(str, self.ports)) + " }"
        return [f"{match} tcp {end} {ports}{drop}" for end in ("dport", "sport")]

    def _share(self) -> int:
        return max(1, round(self.probability * _RESOLUTION))


@dataclass(frozen=True)
class Spared:
    """The controller's address, as this node sees it, and the port here that it comes in by."""

    address: str
    port: int

    def lines(self, direction: str) -> list[str]:
        """What lets it through, ahead of all rules."""
        family = "ip6" if ":" in self.address else "ip"
        ends = ("saddr", "dport") if direction == "in" else ("daddr", "sport")
        return [f"{family} {ends[0]} {self.address} tcp {ends[1]} {self.port} accept"]

    def check(self, rule: Rule) -> None:
        """Raises FaultError for a rule that would cut the controller off."""
        if rule.peer == self.address and (not rule.ports or self.port in rule.ports):
            raise FaultError(f"peer: {rule.peer} is the controller, of whose traffic only a broker's ports may be cut")


def render(faults: Mapping[str, Sequence[Rule]], spared: Spared | None = None) -> str:
    """A script for `nft -f` that replaces our table, in one transaction, by one with these rules; a counter a fault.

    With no fault at all the table is gone.
    """
    head = f"add table inet {TABLE}\ndelete table inet {TABLE}\n"  # add first: deleting what is not there is an error
    if not faults:
        return head
    lines = [f"table inet {TABLE} {{", *(f"  counter {counter} {{ }}" for counter in faults)]
    for direction, hook in (("in", "input"), ("out", "output")):
        lines += [f"  chain {hook} {{", f"    type filter hook {hook} priority -10; policy accept;"]
        lines += [f"    {line}" for line in (spared.lines(direction) if spared else ())]
        for counter, rules in faults.items():
            lines += [f"    {line}" for rule in rules if rule.direction == direction for line in rule.lines(counter)]
        lines += [f"    meta mark {_MARK} drop", "  }"]
    return head + "\n".join([*lines, "}"]) + "\n"


class Table:
    """The node's table: which faults have rules in it, and how many packets each has dropped so far."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._faults: dict[str, Sequence[Rule]] = {}
        self._dropped: dict[str, int] = {}
        self._next = 0
        self.spared: Spared | None = None

    def add(self, rules: Sequence[Rule]) -> str:
        """Bring the rules into force; returns the name that `remove` wants. Raises FaultError."""
        if (spared := self.spared) is not None:
            for rule in rules:
                spared.check(rule)
        with self._lock:
            name = f"c{self._next}"
            self._next += 1
            self._replace({**self._faults, name: rules})
            return name

    def remove(self, name: str) -> int:
        """Take the rules away; returns how many packets they dropped. Raises FaultError."""
        with self._lock:
            if name in self._faults:
                self._replace({key: rules for key, rules in self._faults.items() if key != name})
            return self._dropped.get(name, 0)

    def _replace(self, faults: dict[str, Sequence[Rule]]) -> None:
        if self._faults:  # the counters go with the table
            for name, packets in _counters().items():
                self._dropped[name] = self._dropped.get(name, 0) + packets
        _nft("-f", "-", text=render(faults, self.spared))
        self._faults = faults


class Links:
    """A cut (no `probability`) or loss. Arguments: rules, as `Rule` has them; probability."""

    def __init__(self, table: Table, args: Mapping[str, Any]) -> None:
        probability = float(required(args, "probability", int, float)) if "probability" in args else 1.0
        self._rules = [Rule.parse(rule, probability) for rule in required(args, "rules", list)]
        self._table = table
        self._name: str | None = None

    def inject(self) -> str:
        self._name = self._table.add(self._rules)
        return f"{len(self._rules)} rules in force"

    def undo(self) -> Probe:
        dropped = self._table.remove(self._name) if self._name else 0
        return Probe(dropped > 0, f"{dropped} packets dropped")


def unable() -> str | None:
    """Why links cannot be hurt here, or None."""
    try:
        _nft("-c", "-f", "-", text=render({"probe": [Rule("in", "192.0.2.1", (1,), 0.5)]}))
    except FaultError as error:
        return str(error)
    return None


def sweep() -> None:
    """Remove our table, whoever made it. Raises FaultError."""
    if shutil.which("nft") is not None:
        _nft("-f", "-", text=render({}))


def _counters() -> dict[str, int]:
    listed = json.loads(_nft("-j", "list", "counters", "table", "inet", TABLE))
    return {item["counter"]["name"]: item["counter"]["packets"] for item in listed["nftables"] if "counter" in item}


def _nft(*arguments: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(["nft", *arguments], input=text, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        raise FaultError("there is no nft command on the node (Debian package nftables)") from None
    except subprocess.TimeoutExpired:
        raise FaultError("nft did not end within 10 s") from None
    if done.returncode:
        problem = (done.stderr.strip() or "no message").splitlines()[0]
        raise FaultError(f"nft failed (does the node have NET_ADMIN, the kernel nf_tables?): {problem}")
    return done.stdout
