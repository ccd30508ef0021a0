"""Faults of disks: full, read-only, slow, or with files on them damaged while the broker is down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import DAMAGE, DISK_FULL, DISK_READ_ONLY, DISK_SLOW, Action, Fault
from chaos.model.settings import Setting, boolean, choices, integer, optional, size, text
from nemesis.base import View
from nemesis.process import Process
from nemesis.targets import FOLLOWER, LEADER, MINORITY, ONE, hurt, targets, usable
from nemesis.timing import Chosen, deck, series, timing

TRUNCATE, FLIP = "truncate", "flip"


def _rate(value: object) -> int:
    """Setting type: an amount of at least a kilobyte."""
    if (rate := size(value)) < 1000:
        raise ValueError(f"{value!r} is too little: at least 1kB")
    return rate


class DiskFull(Process):
    """No room left on the disk of the broker's data. What a broker does then, refuse or crash, is what is tested."""

    name = "disk-full"
    meaning = "leave no room on the disk of the broker's data"
    verb = DISK_FULL
    settings = (
        *timing(every="25s", for_="8s", start="7s"),
        targets(ONE, MINORITY, LEADER),
        Setting("restart", boolean, True, "start the broker anew once there is room again, as an operator would"),
    )

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        args = {"restart": options["restart"]}
        return series(self.name, options, span, random, lambda _: Chosen(self.name, next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(self.verb, nodes, {"restart": fault.args.get("restart", True)}),) if nodes else ()


class DiskReadOnly(Process):
    """A disk that met an error, and that the kernel lets nobody write to any more."""

    name = "disk-read-only"
    meaning = "let nothing be written to the disk of the broker's data, beneath open files too"
    verb = DISK_READ_ONLY
    settings = (*timing(every="25s", for_="8s", start="11s"), targets(ONE, MINORITY, LEADER))


class DiskSlow(Process):
    """A disk that takes little at a time, as a cloud volume that has run out of credit: every sync waits for it."""

    name = "disk-slow"
    meaning = "let the broker write only so much a second to the disk of its data"
    verb = DISK_SLOW
    settings = (
        *timing(every="25s", for_="10s", start="5s"),
        targets(ONE, MINORITY, LEADER, FOLLOWER),
        Setting("rate", _rate, "100kB", "bytes a second"),
    )

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        args = {"rate": int(options["rate"])}
        return series(self.name, options, span, random, lambda _: Chosen(self.name, next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        return (Action(self.verb, nodes, {"rate": fault.args["rate"]}),) if nodes else ()


class Damage(Process):
    """Files that are not what the broker wrote, when it starts again: cut short, or with bits flipped."""

    name = "damage"
    meaning = "kill the broker and damage its files, cut short or with bits flipped; it starts with what is left"
    verb = DAMAGE
    settings = (
        *timing(every="25s", for_="4s", start="13s"),
        targets(ONE, FOLLOWER, LEADER),
        Setting("kinds", choices(TRUNCATE, FLIP), (TRUNCATE, FLIP), "how; each once before any comes again"),
        Setting("what", optional(text), None, 'which of its files, such as "wal" (not set: any)'),
        Setting("files", integer(1, 1000), 1, "how many of them"),
    )

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        kinds = deck(options["kinds"], random)
        args = {"what": options["what"], "files": options["files"]}
        return series(self.name, options, span, random, lambda _: Chosen(next(kinds), next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        args = {"how": fault.kind, "what": fault.args.get("what"), "files": fault.args["files"], "draw": fault.draw}
        return (Action(self.verb, nodes, args),) if nodes else ()
