"""What a fault of links becomes on each node: which packets, by the peer's address and the service's ports.

What is dropped is dropped at a link's target, where packets come in; what waits, or goes twice, does so at its source.
Clients are no node of ours: what they send can be dropped as it comes in, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.model.errors import SplitbrainError
from chaos.model.schedule import CUT, LOSS, SHAPE, SHAPES, Action
from clusters.base import services
from clusters.brokers.base import CLIENTS

LINKS = (CUT, LOSS, SHAPE)
_HEARD = ("corrupt", "reorder")  # of SHAPES, those of which a target's own TCP tells

Address = Callable[[str, str], str]  # of a node, or of clients, as another node sees it; raises SplitbrainError


def arguments(
    action: Action, ports: Mapping[str, Sequence[int]], address: Address, instead: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """What the agent of each node is told. `ports`: of each service. `instead`: those of SHAPES that are done by
    dropping packets, since some node's kernel can do no better.

    Raises SplitbrainError for an end, BadInput for a service, that there is not.
    """
    drop: dict[str, list[dict[str, Any]]] = {}
    send: dict[str, list[dict[str, Any]]] = {}
    said = action.args.get("service")
    named = services(said, tuple(ports))
    for source, target in action.args["links"]:
        # never all of the controller's traffic, which is spared unless clients are named: only the broker's ports
        chosen = named if said is not None else (CLIENTS,) if CLIENTS in (source, target) else ()
        there = [port for service in chosen for port in ports[service]]
        if target != CLIENTS:
            come = {"direction": "in", "peer": address(source, target), "ports": there}
            drop.setdefault(target, []).append(come)
        if source != CLIENTS:
            leave = {"direction": "out", "peer": address(target, source), "ports": there}
            send.setdefault(source, []).append(leave)
            if target == CLIENTS:
                drop.setdefault(source, []).append(leave)
        elif action.verb == SHAPE and (more := [one for one in SHAPES if action.args.get(one) and one != "loss"]):
            raise SplitbrainError(f"{' and '.join(more)}: not of what clients send, whose end is no node of ours")
    if action.verb != SHAPE:
        common = {name: action.args[name] for name in ("probability", "flap") if action.args.get(name) is not None}
        return {node: {"rules": rules, **common} for node, rules in drop.items()}
    common = {name: action.args[name] for name in SHAPES if action.args.get(name)}
    if not {"loss", *_HEARD, *instead} & set(common):
        drop = {}  # nothing is done there, nor to be heard
    if not set(common) - {"loss", *instead}:
        send = {}
    return {
        node: {"send": send.get(node, []), "drop": drop.get(node, []), **common, "instead": list(instead)}
        for node in dict.fromkeys((*send, *drop))
    }
