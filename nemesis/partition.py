"""Faults of the network: cuts between nodes, as Jepsen's partitions, each way of every link on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from chaos.model.schedule import CUT, Action, Fault
from chaos.model.settings import BadKey, Setting, boolean, choices, optional, text
from nemesis.base import Nemesis, View
from nemesis.targets import ALL, CLIENTS, FOLLOWER, LEADER, ONE, Link, between, hurt, in_order
from nemesis.timing import Chosen, deck, series, timing

HALVES, ONE_NODE, RING, BRIDGE, ISOLATE, ONE_WAY = "halves", "one", "majorities-ring", "bridge", "leader", "one-way"

# Each kind: whom it is about, and the fewest nodes that it makes sense for.
KINDS = {
    HALVES: (ALL, 2),
    ONE_NODE: (ONE, 2),
    RING: (ALL, 3),
    BRIDGE: (ALL, 3),
    ISOLATE: (LEADER, 2),
    ONE_WAY: (ONE, 2),
}


class Cut(NamedTuple):
    """Directed links that carry nothing, and the nodes that clients lose too if they are to be cut off."""

    links: list[Link]
    apart: Sequence[str]


def halves(nodes: Sequence[str]) -> Cut:
    """The first half, rounded down, against the rest."""
    first, second = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return Cut(between(first, second), first)


def isolate(node: str, nodes: Sequence[str]) -> Cut:
    """One node against all others."""
    return Cut(between([node], [other for other in nodes if other != node]), [node])


def majorities_ring(nodes: Sequence[str]) -> Cut:
    """Every node sees a majority, itself included, and no two see the same one.

    Jepsen's perfect ring, but with links that work both ways or not at all: one-way links carry no TCP. The nodes
    stand in a circle and see as many neighbours on both sides as a majority needs; where that is an odd number, also
    one across the circle. Where the number of nodes is odd too, the pairs across do not come out even, and one node
    sees one more than it needs: with three nodes, n1 - n2 - n3.
    """
    count = len(nodes)
    needed = count // 2  # others that make a majority together with the node itself
    seen = {
        frozenset((nodes[i], nodes[(i + step) % count])) for i in range(count) for step in range(1, needed // 2 + 1)
    }
    if needed % 2:
        seen |= {frozenset((nodes[i], nodes[i + needed])) for i in range(count - needed)}
    return Cut([[one, two] for one in nodes for two in nodes if one != two and frozenset((one, two)) not in seen], [])


def bridge(nodes: Sequence[str]) -> Cut:
    """Two halves that do not see each other, and between them one node that sees both."""
    middle = (len(nodes) - 1) // 2
    return Cut(between(nodes[:middle], nodes[middle + 1 :]), nodes[:middle])


def one_way(node: str, nodes: Sequence[str], *, outward: bool) -> Cut:
    """What one node sends is lost, or all that is sent to it; the other direction works."""
    links = [[node, other] if outward else [other, node] for other in nodes if other != node]
    return Cut(links, [node])


class Partition(Nemesis):
    """Cuts between nodes. Clients reach every node throughout, unless `clients` says otherwise."""

    name = "partition"
    meaning = "cut the network between nodes: halves, one node, a ring of majorities, a bridge, the leader, one way"
    settings = (
        *timing(every="20s", for_="8s", start="5s"),
        Setting("kinds", choices(*KINDS), tuple(KINDS), "which cuts; each once before any comes again"),
        Setting("service", optional(text), None, 'cut one service only, such as "replication" (not set: all)'),
        Setting("clients", boolean, False, "cut clients off too: from the smaller side, or the node that is apart"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (CUT,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        kinds = [kind for kind in options["kinds"] if len(nodes) >= KINDS[kind][1]]
        if options["service"] == CLIENTS:
            kinds = [kind for kind in kinds if kind != RING]  # nobody is apart from the others there
        if not kinds:
            raise BadKey("kinds", f"none of {', '.join(options['kinds'])} can be done with {len(nodes)} node(s)")
        args = {"service": options["service"], "clients": options["clients"] or options["service"] == CLIENTS}
        chosen = deck(kinds, random)

        def choose(_: Random) -> Chosen:
            kind = next(chosen)
            return Chosen(kind, KINDS[kind][0], args)

        return series(self.name, options, span, random, choose)

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        told = hurt(FOLLOWER, view, fault.draw) if fault.target == FOLLOWER else fault.target.split("+")
        named = [name for name in told if name in view.nodes]
        if fault.target == FOLLOWER and not named:
            return ()
        cut = self._cut(fault.kind, view, named, Random(fault.draw))
        service = fault.args.get("service")
        links = [] if service == CLIENTS else cut.links
        if fault.args.get("clients"):  # for whoever is apart, in the directions in which it is
            links = links + [[source, CLIENTS] for source, _ in cut.links if source in cut.apart]
            links = links + [[CLIENTS, target] for _, target in cut.links if target in cut.apart]
        ends = {end for link in links for end in link}
        nodes = tuple(node for node in view.nodes if node in ends)
        return (Action(CUT, nodes, {"links": in_order(links, view.nodes), "service": service}),) if links else ()

    def _cut(self, kind: str, view: View, named: list[str], random: Random) -> Cut:
        """Nodes that are named come first, in their order; halves, and who is apart, are exactly those."""
        nodes = random.sample(view.nodes, len(view.nodes))
        if named:
            nodes = [*named, *(node for node in nodes if node not in named)]
            if kind in (HALVES, ONE_NODE, ISOLATE):
                return Cut(between(named, nodes[len(named) :]), named)
        if kind == HALVES:
            return halves(nodes)
        if kind == RING:
            return majorities_ring(nodes)
        if kind == BRIDGE:
            return bridge(nodes)
        if kind == ONE_NODE:
            return isolate(nodes[0], nodes)
        if kind == ONE_WAY:
            return one_way(nodes[0], nodes, outward=random.random() < 0.5)
        return isolate(view.leader, nodes) if view.leader in view.nodes else Cut([], [])
