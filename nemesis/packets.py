"""Faults of packets: lost, late, corrupt, doubled, out of order or too many, while nodes still see each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import LOSS, SHAPE, SHAPES, Action, Fault
from chaos.model.settings import BadKey, Setting, boolean, choices, number, optional, size
from nemesis.base import Nemesis, View
from nemesis.partition import service_names
from nemesis.targets import ALL, CLIENTS, LEADER, ONE, between, hurt, in_order, targets, usable
from nemesis.timing import Chosen, at_least, deck, series, timing

DELAY, LOST, CORRUPT, DUPLICATE, REORDER, RATE = "delay", "loss", "corrupt", "duplicate", "reorder", "rate"
KINDS = (DELAY, LOST, CORRUPT, DUPLICATE, REORDER, RATE)
_MS = 1_000_000


class Loss(Nemesis):
    """Loses each packet with a probability, both ways, on every link of a target's nodes."""

    name = "loss"
    meaning = "lose packets at random on the links of a node, or on all"
    settings = (
        *timing(every="20s", for_="10s", start="5s"),
        targets(ONE, ALL),
        Setting("probability", number(0.001, 1.0), 0.2, "of each packet's loss"),
        Setting("clients", boolean, False, "lose packets between these nodes and clients too"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (LOSS,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        if len(nodes) == 1 and not options["clients"]:
            raise BadKey("clients", "the only links of a single node are those to clients; set clients = true")
        whom = deck(usable(options["targets"], nodes), random)
        args = {"probability": options["probability"], "clients": options["clients"]}
        return series(self.name, options, span, random, lambda _: Chosen("loss", next(whom), args))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        links = [link for node in nodes for link in between([node], [other for other in view.nodes if other != node])]
        if fault.args["clients"]:
            links += between(nodes, [CLIENTS])
        args = {"links": in_order(links, view.nodes), "probability": fault.args["probability"]}
        return (Action(LOSS, nodes, args),) if links else ()


class Packets(Nemesis):
    """Hurts each packet on every link of a target's nodes, both ways, in one way at a time."""

    name = "packets"
    meaning = "delay packets, lose, corrupt or double them, mix up their order, or let only so many bytes through"
    settings = (
        *timing(every="20s", for_="10s", start="5s"),
        targets(ONE, ALL, LEADER),
        Setting("kinds", choices(*KINDS), KINDS, "what becomes of packets; each once before any comes again"),
        Setting("latency", at_least(_MS), "100ms", "delay, reorder: how much later packets come"),
        Setting("spread", at_least(0), "30ms", "delay: give or take up to this, at random; no more than `latency`"),
        Setting("loss", number(0.001, 1), 0.1, "loss: of each packet, the probability"),
        Setting("corrupt", number(0.001, 1), 0.05, "corrupt: of each packet, the probability"),
        Setting("duplicate", number(0.001, 1), 0.2, "duplicate: of each packet, the probability"),
        Setting("reorder", number(0.001, 0.999), 0.25, "reorder: of each packet, the probability of not being late"),
        Setting("rate", size, "50kB", "rate: bytes a second that each link lets through, each way"),
        Setting("service", optional(service_names), None, "of these services only, as for `partition` (not set: all)"),
        Setting("clients", boolean, False, "hurt what these nodes send to clients too"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        told: Mapping[str, Any] = options
        if "kinds" in options:
            told = {part: value for kind in options["kinds"] for part, value in _shape(kind, options).items()}
        return (SHAPE, *(f"{SHAPE}.{part}" for part in SHAPES if told.get(part)))

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        if len(nodes) == 1 and not options["clients"]:
            raise BadKey("clients", "the only links of a single node are those to clients; set clients = true")
        if options["spread"] > options["latency"]:
            raise BadKey("spread", "packets cannot come before they are sent: it must not be more than `latency`")
        whom = deck(usable(options["targets"], nodes), random)
        kinds = deck(options["kinds"], random)

        def choose(_: Random) -> Chosen:
            kind = next(kinds)
            besides = {"service": options["service"], "clients": options["clients"]}
            return Chosen(kind, next(whom), {**_shape(kind, options), **besides})

        return series(self.name, options, span, random, choose)

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        links = [link for node in nodes for link in between([node], [other for other in view.nodes if other != node])]
        if fault.args.get("clients"):
            links += [[node, CLIENTS] for node in nodes]
        shape = {part: fault.args[part] for part in SHAPES if fault.args.get(part)}
        if not shape:
            raise ValueError(f"its args say nothing of what becomes of packets: {', '.join(SHAPES)}")
        args = {"links": in_order(links, view.nodes), "service": fault.args.get("service"), **shape}
        return (Action(SHAPE, nodes, args),) if links else ()


def _shape(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if kind == DELAY:
        return {"delay": int(options["latency"]), "jitter": int(options["spread"])}
    if kind == REORDER:
        return {"delay": int(options["latency"]), "reorder": options["reorder"]}
    return {kind: int(options[kind]) if kind == RATE else options[kind]}
