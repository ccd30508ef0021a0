"""Links that are cut, lose packets or double them, by nftables: a table of ours on the node, replaced whole at every
change and removed whole.

A link source -> target is hurt at the target, where its packets come in; where the target is not a node (clients), at
the source, where they go out. Loss is drawn by nftables itself (numgen), so that it works where the kernel has no
netem. Counters prove that packets were dropped. Faults on one link do not hide each other: each counts and marks what
it would drop, and what is marked is dropped at the end. Packets that are to be queued (`queues`) are only told their
class here, so that one language says which packets a fault is about.

The controller's own way onto the node, where it has one (SSH), is let through before any rule is looked at; and a rule
on its address must name ports, so that whatever else it does here is spared.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.faults.base import FaultError, Probe, required

TABLE = "splitbrain"
_MARK = "0x53504c54"  # of a packet that is to be dropped
HANDLE = "5350"  # of our tree of queues, hexadecimal
DROP, DOUBLE, QUEUE = "drop", "double", "queue"
_RESOLUTION = 10_000  # packets lost of this many: a probability is kept to 0.01%
_BURST = 128 << 10  # bytes at once that a rate lets through: of segments that the kernel has merged, two
_FIRST = 0x10  # number of the first class
_MOST = 5  # faults that may queue the packets of one link at a time: each doubles the classes


@dataclass(frozen=True)
class Rule:
    """Drop packets between this node and `peer` (an address): "in" those that arrive from it, "out" those that leave
    for it; only TCP from or to one of `ports`, where there are any; each with `probability`, or those beyond `limit`
    bytes a second. `does`: double packets that leave, or queue them, instead. `part`: of a fault, what it counts for.
    """

    direction: str
    peer: str
    ports: tuple[int, ...] = ()
    probability: float = 1.0
    does: str = DROP
    limit: int = 0
    part: str = ""

    @staticmethod
    def parse(data: Mapping[str, Any], probability: float, does: str = DROP, limit: int = 0, part: str = "") -> Rule:
        """From a link of an action's arguments, as JSON. Raises FaultError."""
        ends = data.get("direction", ""), data.get("peer", ""), tuple(data.get("ports", ()))
        rule = Rule(*ends, probability, does, limit, part)
        if rule.direction not in ("in", "out"):
            raise FaultError(f"direction: {rule.direction!r} is neither in nor out")
        if not rule.peer or not set(rule.peer) <= set("0123456789abcdefABCDEF.:"):
            raise FaultError(f"peer: {rule.peer!r} is not an address")
        if not all(isinstance(port, int) and 0 < port < 65536 for port in rule.ports):
            raise FaultError(f"ports: {list(rule.ports)} are not all ports")
        if not 0 < probability <= 1:
            raise FaultError(f"probability: {probability} is not above 0 and at most 1")
        return rule

    @property
    def family(self) -> str:
        return "ip6" if ":" in self.peer else "ip"

    def lines(self, statement: str) -> list[str]:
        """A statement for these packets, in nft's language: one line, or one for each end that may hold the port."""
        match = f"{self.family} {'saddr' if self.direction == 'in' else 'daddr'} {self.peer}"
        if not self.ports:
            return [f"{match} {statement}"]
        ports = "{ " + ", ".join(map(str, self.ports)) + " }"
        return [f"{match} tcp {end} {ports} {statement}" for end in ("dport", "sport")]

    def hurting(self, name: str, number: int) -> list[str]:
        """The lines that drop or double them, for the rule of that number of a fault."""
        chance = "" if self.probability == 1 else f"numgen random mod {_RESOLUTION} < {self._share()} "
        beyond = f'limit name "{name}_{number}" ' if self.limit else ""
        what = f"dup to {self.peer}" if self.does == DOUBLE else f"meta mark set {_MARK}"
        return self.lines(f'{chance}{beyond}counter name "{self.counter(name)}" {what}')

    def counter(self, name: str) -> str:
        return f"{name}_{self.part}" if self.part else name

    def _share(self) -> int:
        return max(1, round(self.probability * _RESOLUTION))


@dataclass(frozen=True)
class Class:
    """The packets to a peer that these faults, and no others, are to queue; `minor` is its number in the tree."""

    minor: int
    peer: str
    faults: tuple[str, ...]


def classes(faults: Mapping[str, Sequence[Rule]]) -> list[Class]:
    """What the rules tell apart. Raises FaultError where it is too much."""
    found = []
    for peer, (base, names) in _queued(faults).items():
        for bits in range(1, 1 << len(names)):
            chosen = tuple(name for place, name in enumerate(names) if bits >> place & 1)
            found.append(Class(base + bits, peer, chosen))
    return found


def _queued(faults: Mapping[str, Sequence[Rule]]) -> dict[str, tuple[int, list[str]]]:
    """Each peer to which packets are queued: the number from which its classes count, and the faults that it is for."""
    met: dict[str, list[str]] = {}
    for name, rules in faults.items():
        for peer in dict.fromkeys(rule.peer for rule in rules if rule.does == QUEUE):
            met.setdefault(peer, []).append(name)
    found, base = {}, _FIRST
    for peer, names in met.items():
        if len(names) > _MOST:
            raise FaultError(f"{len(names)} faults would delay or slow what is sent to {peer}; {_MOST} at a time can")
        found[peer] = base, names
        base += 1 << len(names)
    return found


def _classify(faults: Mapping[str, Sequence[Rule]]) -> Iterator[str]:
    """Lines that lead each packet from class to class, by every fault that is about it."""
    for peer, (base, names) in _queued(faults).items():
        yield Rule("out", peer).lines(f"meta priority set {HANDLE}:{base:x}")[0]
        for place, name in enumerate(names):
            for rule in faults[name]:
                if rule.does == QUEUE and rule.peer == peer:
                    for bits in range(1 << place):
                        was, then = f"{HANDLE}:{base + bits:x}", f"{HANDLE}:{base + bits + (1 << place):x}"
                        yield from rule.lines(f"meta priority {was} meta priority set {then}")


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


def render(faults: Mapping[str, Sequence[Rule]], spared: Spared | None = None, doubled: Sequence[str] = ()) -> str:
    """A script for `nft -f` that replaces our table, in one transaction, by one with these rules; a counter for each
    part of a fault.

    With no fault at all the table is gone. Packets are doubled in tables of their own, since "inet" cannot; `doubled`
    are the families that have one already.
    """
    # add first: deleting what is not there is an error
    text = "".join(
        f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n"
        for family in ("inet", *dict.fromkeys((*doubled, *doubling(faults))))
    )
    if faults:
        text += _table("inet", [*_dropping(faults, spared), *_queueing(faults, spared)], faults, DROP)
    for family in doubling(faults):
        text += _table(family, _doubling(family, faults, spared), faults, DOUBLE)
    return text


def doubling(faults: Mapping[str, Sequence[Rule]]) -> list[str]:
    """The families of addresses of which packets are doubled."""
    rules = [rule for rules in faults.values() for rule in rules]
    return list(dict.fromkeys(rule.family for rule in rules if rule.does == DOUBLE))


def _table(family: str, chains: Sequence[str], faults: Mapping[str, Sequence[Rule]], does: str) -> str:
    named = [(name, number, rule) for name, rules in faults.items() for number, rule in enumerate(rules)]
    mine = [(name, number, rule) for name, number, rule in named if rule.does == does]
    counters = dict.fromkeys(rule.counter(name) for name, _, rule in mine)
    limits = [
        f"  limit {name}_{number} {{ rate over {rule.limit} bytes/second burst {_BURST} bytes }}"
        for name, number, rule in mine if rule.limit
    ]  # fmt: skip
    return "\n".join([f"table {family} {TABLE} {{", *(f"  counter {one} {{ }}" for one in counters), *limits,
                      *chains, "}"]) + "\n"  # fmt: skip


def _chain(name: str, hook: str, priority: int, lines: Sequence[str], spared: Spared | None) -> list[str]:
    let = spared.lines("in" if hook == "input" else "out") if spared else []
    body = [f"type filter hook {hook} priority {priority}; policy accept;", *let, *lines]
    return [f"  chain {name} {{", *(f"    {line}" for line in body), "  }"]


def _dropping(faults: Mapping[str, Sequence[Rule]], spared: Spared | None) -> Iterator[str]:
    for direction, hook in (("in", "input"), ("out", "output")):
        hurting = [
            line
            for name, rules in faults.items()
            for number, rule in enumerate(rules)
            if rule.does == DROP and rule.direction == direction
            for line in rule.hurting(name, number)
        ]
        yield from _chain(hook, hook, -10, [*hurting, f"meta mark {_MARK} drop"], spared)


def _queueing(faults: Mapping[str, Sequence[Rule]], spared: Spared | None) -> Sequence[str]:
    lines = list(_classify(faults))
    return _chain("classes", "output", -9, lines, spared) if lines else []


def _doubling(family: str, faults: Mapping[str, Sequence[Rule]], spared: Spared | None) -> Sequence[str]:
    lines = [
        line
        for name, rules in faults.items()
        for number, rule in enumerate(rules)
        if rule.does == DOUBLE and rule.family == family
        for line in rule.hurting(name, number)
    ]
    mine = spared if spared and (":" in spared.address) == (family == "ip6") else None
    return _chain("doubling", "output", -8, lines, mine)


class Table:
    """The node's table: which faults have rules in it, and how many packets each has dropped or doubled so far."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._faults: dict[str, Sequence[Rule]] = {}
        self._counted: dict[str, int] = {}  # by counter
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
        """Take the rules away; returns how many packets they dropped or doubled. Raises FaultError."""
        with self._lock:
            if name in self._faults:
                self._replace({key: rules for key, rules in self._faults.items() if key != name})
            return sum(self.parts(name).values())

    def parts(self, name: str) -> dict[str, int]:
        """How many packets of each part of rules that were taken away."""
        counted = [(counter.partition("_"), packets) for counter, packets in self._counted.items()]
        return {part: packets for (fault, _, part), packets in counted if fault == name}

    def classes(self) -> list[Class]:
        """What is to be queued, now."""
        with self._lock:
            return classes(self._faults)

    def _replace(self, faults: dict[str, Sequence[Rule]]) -> None:
        if self._faults:  # the counters go with the table
            for counter, packets in _counters().items():
                self._counted[counter] = self._counted.get(counter, 0) + packets
        _nft("-f", "-", text=render(faults, self.spared, doubling(self._faults)))
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


def unable_to_double() -> str | None:
    """Why no packet can be doubled here, or None."""
    try:
        _nft("-c", "-f", "-", text=render({"probe": [Rule("out", "192.0.2.1", (1,), 0.5, DOUBLE)]}))
    except FaultError as error:
        return f"the kernel has no nft_dup_ipv4: {error}"
    return None


def sweep() -> None:
    """Remove our tables, whoever made them. Raises FaultError."""
    if shutil.which("nft") is not None:
        listed = json.loads(_nft("-j", "list", "tables"))
        ours = [item["table"]["family"] for item in listed["nftables"] if item.get("table", {}).get("name") == TABLE]
        _nft("-f", "-", text=render({}, doubled=[family for family in ours if family != "inet"]))


def _counters() -> dict[str, int]:
    listed = json.loads(_nft("-j", "list", "counters"))
    found = [item["counter"] for item in listed["nftables"] if "counter" in item]
    return {one["name"]: one["packets"] for one in found if one["table"] == TABLE}


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
