"""Packets hurt on their way: delayed, lost, corrupted, doubled, out of order, or only so many bytes a second.

Of a link source -> target, what waits does so at the source, before it leaves (`queues`), and is doubled there; what is
lost is dropped at the target, as it comes in, since a kernel that drops what its own TCP sends tells it so. Where the
kernel has no netem, a packet that would be corrupted is dropped: so would its receiver, whose checksum does
not fit; and where it has no tbf, what is beyond the rate is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.faults import nftables, queues
from clusters.faults.base import FaultError, Probe, required
from clusters.faults.nftables import DOUBLE, QUEUE, Rule, Table
from clusters.faults.queues import Passed, Queues

PARTS = ("delay", "jitter", "loss", "corrupt", "duplicate", "reorder", "rate")
_CORRUPT = (("/proc/net/snmp", "Tcp", "InCsumErrors"), ("/proc/net/snmp", "Udp", "InCsumErrors"))
_EARLY = (("/proc/net/netstat", "TcpExt", "TCPOFOQueue"),)


class Shape:
    """Arguments: `send`, rules of packets that leave here, and `drop`, of those that may be dropped here, as
    `nftables.Rule` has them; any of PARTS, times in ns, `rate` in bytes a second, the others probabilities; `instead`,
    those of PARTS that are done by dropping."""

    def __init__(self, table: Table, trees: Queues, args: Mapping[str, Any]) -> None:
        self._table, self._trees = table, trees
        told = {part: _value(args, part) for part in PARTS}
        instead = args.get("instead", ())
        self._wanted = [part for part in PARTS if told[part]]
        if not self._wanted:
            raise FaultError(f"nothing is said of what is to become of packets: {', '.join(PARTS)}")
        if told["reorder"] and not told["delay"]:
            raise FaultError("reorder: packets overtake those that wait, so a delay must be said too")
        if told["jitter"] > told["delay"]:
            raise FaultError(f"jitter: {told['jitter']} is more than the delay, {told['delay']}")
        queued = {part: told[part] for part in ("delay", "jitter", "corrupt", "reorder", "rate") if part not in instead}
        self._shape = queues.Shape(**queued)
        self._rules: list[Rule] = []
        for rule in required(args, "drop", list):
            if told["loss"]:
                self._rules.append(Rule.parse(rule, told["loss"], part="loss"))
            if told["corrupt"] and "corrupt" in instead:
                self._rules.append(Rule.parse(rule, told["corrupt"], part="corrupt"))
            if told["rate"] and "rate" in instead:
                self._rules.append(Rule.parse(rule, 1.0, limit=told["rate"], part="rate"))
        for rule in required(args, "send", list):
            if told["duplicate"]:
                self._rules.append(Rule.parse(rule, told["duplicate"], DOUBLE, part="duplicate"))
            if self._shape != queues.Shape():
                self._rules.append(Rule.parse(rule, 1.0, QUEUE))
        # at the target, whose TCP tells what came to it corrupt or too early
        self._hears = any(rule["direction"] == "in" for rule in args["drop"])
        self._name: str | None = None
        self._heard: tuple[int, int] = (0, 0)

    def inject(self) -> str:
        self._heard = _heard()
        if self._rules:
            with self._trees.lock:
                self._name = self._table.add(self._rules)
                if self._queues:
                    self._trees.add(self._name, self._shape, self._table.classes())
        return f"{len(self._rules)} rules in force"

    def undo(self) -> Probe:
        if self._name is None:
            return self._probe({}, Passed())
        with self._trees.lock:
            self._table.remove(self._name)
            passed = self._trees.remove(self._name, self._table.classes())
            return self._probe(self._table.parts(self._name), passed)

    @property
    def _queues(self) -> bool:
        return any(rule.does == QUEUE for rule in self._rules)

    def _probe(self, counted: Mapping[str, int], passed: Passed) -> Probe:
        seen, words = {}, []
        for part, verb in (("loss", "lost"), ("corrupt", "corrupted, so dropped"), ("duplicate", "sent twice"),
                           ("rate", "dropped, being too many")):  # fmt: skip
            if part in counted:
                seen[part] = counted[part] > 0
                words.append(f"{counted[part]} packets {verb}")
        if self._queues and self._shape.delay:
            seen["delay"] = passed.delayed > 0
            words.append(f"{passed.delayed} packets delayed")
        elif self._queues and self._shape.corrupt:  # which of them it was, netem does not count
            words.append(f"{passed.delayed} packets through netem")
        if self._queues and self._shape.rate:
            seen["rate"] = passed.held > 0
            words.append(f"{passed.held} times too many at once")
        if self._hears:
            corrupt, early = (now - then for now, then in zip(_heard(), self._heard, strict=True))
            if self._shape.corrupt:
                seen["corrupt"] = corrupt > 0
                words.append(f"{corrupt} came corrupt")
            if self._shape.reorder:
                seen["reorder"] = early > 0
                words.append(f"{early} segments came too early")
        return Probe(any(seen.values()) if seen else None, ", ".join(words) or "nobody saw any", seen)


def abilities() -> tuple[dict[str, str | None], list[str]]:
    """Of each of PARTS why it cannot be done here, or None; and those that are done by dropping packets instead."""
    links = nftables.unable()
    missing = queues.lacking()
    waiting = missing.get("sch_htb") or missing.get("sch_netem")
    unable = {
        "delay": waiting,
        "jitter": waiting,
        "loss": None,
        "corrupt": None,
        "duplicate": nftables.unable_to_double(),
        "reorder": waiting,
        "rate": None,
    }
    instead = ["corrupt"] if waiting else []
    if "sch_htb" in missing or "sch_tbf" in missing:
        instead.append("rate")
    return {part: links or why for part, why in unable.items()}, instead


def _value(args: Mapping[str, Any], part: str) -> Any:
    if part not in args:
        return 0
    if part in ("loss", "corrupt", "duplicate", "reorder"):
        probability = float(required(args, part, int, float))
        if not 0 <= probability <= 1:
            raise FaultError(f"{part}: {probability} is not a probability")
        return probability
    amount = required(args, part, int)
    if amount < 0:
        raise FaultError(f"{part}: {amount} is less than nothing")
    return amount


def _heard() -> tuple[int, int]:
    """What came corrupt, and segments that came ahead of others, since the kernel began to count."""
    return sum(_counter(*one) for one in _CORRUPT), sum(_counter(*one) for one in _EARLY)


def _counter(path: str, protocol: str, name: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file if line.startswith(f"{protocol}:")]
        return int(dict(zip(rows[0], rows[1], strict=True))[name])
    except (OSError, LookupError, ValueError):
        return 0
