"""Faults of packets: some are lost on the way, between nodes that still see each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import LOSS, Action, Fault
from chaos.model.settings import BadKey, Setting, boolean, number
from nemesis.base import Nemesis, View
from nemesis.targets import ALL, CLIENTS, ONE, between, hurt, in_order, targets, usable
from nemesis.timing import Chosen, deck, series, timing


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
