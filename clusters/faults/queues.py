"""Packets that wait on their way out, by tc: one tree of ours on each network device, replaced whole and removed whole.

At its root is htb, which lets through what has no class; `nftables` gives the packets to a peer their class. Under
each class sits tbf where there is a rate, and netem where packets are delayed, corrupted or overtake each other; many
kernels of small machines come without netem. When the tree is replaced, what waits in it is lost, as on a switch that
starts anew.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.faults.base import FaultError
from clusters.faults.nftables import HANDLE, Class

_RATES, _DELAYS = 0x6000, 0x7000  # handles of what sits under the class of a number
_LIMIT = 100_000  # packets that may wait: what is sent in a second at a gigabit
_MTU = 1600
_WAIT = "400ms"  # how long tbf lets a packet wait before it drops it
_OPEN = "rate 10gbit burst 1mb cburst 1mb quantum 60000"  # of a class that holds nothing up by itself


@dataclass(frozen=True)
class Shape:
    """What becomes of packets: they come `delay` ns later, give or take `jitter`; each is corrupted, or goes ahead of
    those that are delayed, with a probability; and `rate` bytes a second go through (0: any)."""

    delay: int = 0
    jitter: int = 0
    corrupt: float = 0.0
    reorder: float = 0.0
    rate: int = 0

    def netem(self) -> str:
        """The options of netem, or nothing."""
        words = []
        if self.delay or self.jitter:
            words.append(f"delay {_us(self.delay)}" + (f" {_us(self.jitter)}" if self.jitter else ""))
        if self.corrupt:
            words.append(f"corrupt {_percent(self.corrupt)}")
        if self.reorder:
            words.append(f"reorder {_percent(self.reorder)}")
        return " ".join(words)

    def queue(self, parent: str, minor: int) -> list[str]:
        """The queues under a class, as arguments of `tc qdisc add`."""
        lines = []
        if self.rate:
            burst = max(2 * _MTU, self.rate // 50)
            handle = f"{_RATES + minor:x}"
            lines.append(f"parent {parent} handle {handle}: tbf rate {self.rate}bps burst {burst} latency {_WAIT}")
            parent = f"{handle}:1"
        if options := self.netem():
            lines.append(f"parent {parent} handle {_DELAYS + minor:x}: netem limit {_LIMIT} {options}")
        return lines


def together(shapes: Iterable[Shape]) -> Shape:
    """What several do to the same packet."""
    delay = jitter = rate = 0
    whole = in_turn = 1.0
    for one in shapes:
        delay, jitter = delay + one.delay, jitter + one.jitter
        whole, in_turn = whole * (1 - one.corrupt), in_turn * (1 - one.reorder)
        rate = min(rate or one.rate, one.rate or rate)
    return Shape(delay, jitter, 1 - whole, 1 - in_turn, rate)


def render(device: str, leaves: Mapping[int, Shape]) -> str:
    """A script for `tc -batch` that makes the tree, with a queue for each class."""
    lines = [f"qdisc add dev {device} root handle {HANDLE}: htb default 0"]
    for minor, shape in leaves.items():
        parent = f"{HANDLE}:{minor:x}"
        lines.append(f"class add dev {device} parent {HANDLE}: classid {parent} htb {_OPEN}")
        lines += [f"qdisc add dev {device} {queue}" for queue in shape.queue(parent, minor)]
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Passed:
    """What went through the queues of a fault: packets that netem had, and times that a rate held one up or dropped."""

    delayed: int = 0
    held: int = 0

    def __add__(self, other: Passed) -> Passed:
        return Passed(self.delayed + other.delayed, self.held + other.held)


class Queues:
    """The node's trees: what each fault does to packets, and how many met it so far."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._shapes: dict[str, Shape] = {}
        self._made: dict[str, dict[int, tuple[str, ...]]] = {}  # device: number of a class: its faults
        self._passed: dict[str, Passed] = {}

    def add(self, name: str, shape: Shape, classes: Sequence[Class]) -> None:
        """Bring a fault into force, with the classes that there are with it. Raises FaultError."""
        with self.lock:
            self._shapes[name] = shape
            self._replace(classes)

    def remove(self, name: str, classes: Sequence[Class]) -> Passed:
        """Take a fault away, with the classes that there are without it; what met it. Raises FaultError."""
        with self.lock:
            if name in self._shapes:
                self._replace(classes)
                del self._shapes[name]
            return self._passed.get(name, Passed())

    def _replace(self, classes: Sequence[Class]) -> None:
        wanted: dict[str, dict[int, tuple[str, ...]]] = {}
        for one in classes:
            if one.peer not in _devices:
                _devices[one.peer] = _device(one.peer)
            wanted.setdefault(_devices[one.peer], {})[one.minor] = one.faults
        for device in list(self._made):
            self._count(device)
            _tc("qdisc", "del", "dev", device, "root")
            del self._made[device]
        for device, leaves in wanted.items():
            _check(device)
            self._made[device] = leaves
            tree = {minor: together(self._shapes[name] for name in names) for minor, names in leaves.items()}
            try:
                _tc("-batch", "-", text=render(device, tree))
            except FaultError:
                del self._made[device]
                _remove(device)  # what there is of it
                raise

    def _count(self, device: str) -> None:
        leaves = self._made[device]
        for queue in _listed("-s", "qdisc", "show", "dev", device):
            handle = int(queue["handle"].rstrip(":") or "0", 16)
            for base, kind in ((_RATES, "tbf"), (_DELAYS, "netem")):
                if queue["kind"] == kind:
                    met = Passed(delayed=queue["packets"]) if base == _DELAYS else Passed(held=queue["overlimits"])
                    for name in leaves.get(handle - base, ()):
                        self._passed[name] = self._passed.get(name, Passed()) + met


_devices: dict[str, str] = {}  # of each peer, that its packets leave by


@functools.cache
def lacking() -> Mapping[str, str]:
    """What tc cannot do here, by the kernel's module, and why. Tried out on the loopback device, whose packets go on as
    they did meanwhile."""
    wanted = {
        "sch_htb": f"qdisc add dev lo root handle {HANDLE}: htb default 0",
        "": f"class add dev lo parent {HANDLE}: classid {HANDLE}:10 htb {_OPEN}",
        "sch_tbf": f"qdisc add dev lo {Shape(rate=1000).queue(f'{HANDLE}:10', 0x10)[0]}",
        "sch_netem": f"qdisc add dev lo {Shape(delay=1000).queue('6010:1', 0x10)[0]}",
    }
    missing = {}
    for module, command in wanted.items():
        try:
            if module == "sch_netem" and "sch_tbf" in missing:
                command = command.replace("6010:1", f"{HANDLE}:10")
            _tc(*command.split())
        except FaultError as error:
            unknown = any(words in str(error) for words in ("kind is unknown", "No such file or directory"))
            missing[module] = f"the kernel has no {module}" if module and unknown else str(error)
            if module in ("sch_htb", ""):
                missing.update(dict.fromkeys(wanted, missing[module]))
                break
    if "sch_htb" not in missing:
        _remove("lo")
    return missing


def sweep() -> None:
    """Remove our trees, whoever made them. Raises FaultError."""
    if shutil.which("tc") is not None:
        for queue in _listed("qdisc", "show"):
            if queue["kind"] == "htb" and queue["handle"] == f"{HANDLE}:" and queue.get("root"):
                _remove(queue["dev"])


def _check(device: str) -> None:
    """Raises FaultError for a device whose queues somebody else has set up: they would be gone afterwards."""
    for queue in _listed("qdisc", "show", "dev", device):
        if queue.get("root") and queue["handle"] not in ("0:", f"{HANDLE}:"):
            kind = queue["kind"]
            raise FaultError(f"{device} has queues of its own ({kind} {queue['handle']}), which ours would replace")
        if queue.get("root") and queue["handle"] == f"{HANDLE}:":
            _remove(device)  # left by an agent that was killed


def _device(peer: str) -> str:
    words = _run("ip", "-o", "route", "get", peer).split()
    if "dev" not in words:
        raise FaultError(f"there is no way to {peer}")
    return words[words.index("dev") + 1]


def _remove(device: str) -> None:
    if any(queue.get("root") and queue["handle"] == f"{HANDLE}:" for queue in _listed("qdisc", "show", "dev", device)):
        _tc("qdisc", "del", "dev", device, "root")


def _listed(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_tc("-j", *arguments) or "[]")
    return found


def _tc(*arguments: str, text: str | None = None) -> str:
    return _run("tc", *arguments, text=text)


def _run(*command: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        raise FaultError(f"there is no {command[0]} command on the node (Debian package iproute2)") from None
    except subprocess.TimeoutExpired:
        raise FaultError(f"{command[0]} did not end within 10 s") from None
    if done.returncode:
        problem = (done.stderr.strip() or "no message").splitlines()[0]
        raise FaultError(f"{command[0]} failed (does the node have NET_ADMIN?): {problem}")
    return done.stdout


def _us(ns: int) -> str:
    return f"{max(1, ns // 1000)}us"


def _percent(probability: float) -> str:
    return f"{100 * probability:.4f}%"
