"""Who belongs to a cluster: nodes that leave and join, replicas taken away and added, and leaders that hand over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from chaos.model.schedule import GROW, LEAVE, REPLACE, SHRINK, TRANSFER, Action, Fault
from chaos.model.settings import Setting, choices
from nemesis.base import Nemesis, View
from nemesis.targets import FOLLOWER, LEADER, ONE, hurt, targets, usable
from nemesis.timing import Chosen, deck, series, timing

KINDS = (LEAVE, REPLACE, SHRINK, GROW, TRANSFER)
USUAL = (LEAVE, REPLACE, SHRINK, TRANSFER)  # nobody can be added where everybody is there
TO = "to"


class Members(Nemesis):
    """What operators do: a node is taken out of service, or replaced, queues are moved, and leaders with them."""

    name = "members"
    meaning = "take nodes out of the cluster, replace them, take replicas away or add some, make leaders hand over"
    settings = (
        *timing(every="25s", for_="8s", start="6s"),
        targets(ONE, FOLLOWER, LEADER),
        Setting("kinds", choices(*KINDS), USUAL, "what is done; each once before any comes again"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        kinds = tuple(options.get("kinds", ()))
        named = TRANSFER in kinds and any(target != LEADER for target in options["targets"])
        return (*kinds, f"{TRANSFER}.{TO}") if named else kinds

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        whom = deck(usable(options["targets"], nodes), random)
        kinds = deck(options["kinds"], random)
        return series(self.name, options, span, random, lambda _: Chosen(next(kinds), next(whom), {}))

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        nodes = hurt(fault.target, view, fault.draw)
        if not nodes or fault.kind != TRANSFER:
            return (Action(fault.kind, nodes),) if nodes else ()
        if view.leader is None:
            return ()
        # whoever is not the leader is to lead now; the leader hands over to somebody else
        others = [node for node in nodes if node != view.leader]
        to = Random(fault.draw).choice(others) if others else None
        return (Action(TRANSFER, (view.leader,), {TO: to}),)
