"""Whom a fault hurts: roles that are resolved when it falls due, or nodes by name; and the links around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random

from chaos.model.errors import did_you_mean
from chaos.model.schedule import Action, Fault
from chaos.model.settings import BadKey, Setting
from nemesis.base import View

ONE, MINORITY, MAJORITY, LEADER, ALL = "one", "minority", "majority", "leader", "all"
FOLLOWER, FOLLOWERS, NEWEST = "follower", "followers", "newest"
ROLES = (ONE, MINORITY, MAJORITY, LEADER, FOLLOWER, FOLLOWERS, NEWEST, ALL)
CLIENTS = "clients"
PINNED = "pinned"  # in a fault's args: the actions that it is, as JSON data, whoever has the role of its target by then

Link = list[str]

_NODES = re.compile(r"n[1-9]\d*(\+n[1-9]\d*)*")


def targets(*default: str) -> Setting:
    """The setting that lists whom the faults of a nemesis hurt."""
    meaning = f'whom: any of {", ".join(ROLES)}, or nodes such as "n1+n3"; each once before any comes again'
    return Setting("targets", _convert, default, meaning)


def usable(chosen: Sequence[str], nodes: Sequence[str]) -> tuple[str, ...]:
    """Those of the targets that are somebody among `nodes`.

    Raises BadKey when a named node does not exist, or none is left: a minority of fewer than three nodes is nobody.
    """
    for target in chosen:
        for name in () if target in ROLES else target.split("+"):
            if name not in nodes:
                raise BadKey("targets", f"there is no node {name!r} in {target!r}; the nodes are {', '.join(nodes)}")
    left = tuple(target for target in chosen if target != MINORITY or len(nodes) >= 3)
    if not left:
        raise BadKey("targets", f"a minority of {len(nodes)} is nobody; use 3 nodes or more, or another target")
    return left


def hurt(target: str, view: View, draw: int) -> tuple[str, ...]:
    """The nodes that a target means now, in the order of the view; what it leaves open is drawn from `draw`.

    A minority is the most nodes without which the others are still a majority of all. Named nodes that are not in the
    view (another fault holds them) are left out. Nobody: no leader is known.
    """
    nodes = view.nodes
    if target == LEADER:
        return (view.leader,) if view.leader in nodes else ()
    if target == NEWEST:
        return (view.newest,) if view.newest in nodes else ()
    if target == FOLLOWERS:
        return tuple(node for node in nodes if node != view.leader) if view.leader is not None else ()
    if target == FOLLOWER:
        others = [node for node in nodes if node != view.leader]
        return (Random(draw).choice(others),) if view.leader is not None and others else ()
    if target in ROLES:
        count = {ONE: min(1, len(nodes)), MINORITY: max(0, len(nodes) - 1) // 2, ALL: len(nodes)}
        chosen = Random(draw).sample(nodes, count.get(target, min(len(nodes) // 2 + 1, len(nodes))))
    else:
        chosen = target.split("+")
    return tuple(node for node in nodes if node in chosen)


def pinned(fault: Fault) -> tuple[Action, ...] | None:
    """The actions that a fault is bound to (none: it is to hurt nobody); None where its target is to be resolved.

    Raises KeyError, TypeError or ValueError for what are no actions.
    """
    if PINNED not in fault.args:
        return None
    return tuple(Action.from_json(action) for action in fault.args[PINNED])


def strangers(fault: Fault, nodes: Sequence[str]) -> tuple[str, ...]:
    """The nodes that a fault names and that are not among `nodes`."""
    named = [] if fault.target in ROLES or not _NODES.fullmatch(fault.target) else fault.target.split("+")
    for action in pinned(fault) or ():
        named += [*action.nodes, *(end for link in action.args.get("links", ()) for end in link)]
    return tuple(dict.fromkeys(name for name in named if name not in (*nodes, CLIENTS)))


def between(some: Iterable[str], others: Sequence[str]) -> list[Link]:
    """The links from each of `some` to each of `others`, and back."""
    return [link for one in some for other in others for link in ([one, other], [other, one])]


def in_order(links: Iterable[Link], nodes: Sequence[str]) -> list[Link]:
    """Each link once, ordered by source and target as the nodes are, clients last."""
    rank = {name: number for number, name in enumerate((*nodes, CLIENTS))}
    unique = {(source, target): [source, target] for source, target in links}
    return [unique[ends] for ends in sorted(unique, key=lambda ends: (rank[ends[0]], rank[ends[1]]))]


def _convert(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words:
        raise ValueError(f"{value!r} is not a list of targets")
    for word in words:
        if word not in ROLES and not (isinstance(word, str) and _NODES.fullmatch(word)):
            raise ValueError(f'{word!r} is neither a role nor nodes such as "n1+n3"; {did_you_mean(str(word), ROLES)}')
    if len(set(words)) != len(words):
        raise ValueError(f"{value!r} names one of them twice")
    return tuple(words)
