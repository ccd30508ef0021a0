"""Faults of the network: cuts between nodes, as Jepsen's partitions, each way of every link on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from chaos.model.schedule import CUT, Action, Fault
from chaos.model.settings import BadKey, Setting, boolean, choices, optional
from nemesis.base import Nemesis, View
from nemesis.targets import ALL, CLIENTS, FOLLOWER, FOLLOWERS, LEADER, NEWEST, ONE, Link, between, hurt, in_order
from nemesis.timing import Chosen, at_least, deck, series, timing

HALVES, ONE_NODE, RING, BRIDGE, ISOLATE, ONE_WAY = "halves", "one", "majorities-ring", "bridge", "leader", "one-way"
USUAL = (HALVES, ONE_NODE, RING, BRIDGE, ISOLATE, ONE_WAY)
FIXED, THIRD, APART, FLAPPING = "fixed-halves", "minority-third", "clients", "flapping"
APART_EXACTLY = (HALVES, FIXED, THIRD, ONE_NODE, ISOLATE, FLAPPING)  # kinds that part named nodes from all others

# Each kind: whom it is about, and the fewest nodes that it makes sense for.
KINDS = {
    HALVES: (ALL, 2),
    ONE_NODE: (ONE, 2),
    RING: (ALL, 3),
    BRIDGE: (ALL, 3),
    ISOLATE: (LEADER, 2),
    ONE_WAY: (ONE, 2),
    FIXED: (ALL, 2),
    THIRD: (ALL, 4),
    APART: (ONE, 1),
    FLAPPING: (ONE, 2),
}
_MS = 1_000_000
_TURNS = 16  # of flapping links, before they come again


class Cut(NamedTuple):
    """Directed links that carry nothing, and the nodes that clients lose too if they are to be cut off."""

    links: list[Link]
    apart: Sequence[str]


def halves(nodes: Sequence[str]) -> Cut:
    """The first half, rounded down, against the rest."""
    first, second = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return Cut(between(first, second), first)


def minority_third(nodes: Sequence[str]) -> Cut:
    """The most nodes that are fewer than a third of all, which a Byzantine quorum must do without: Jepsen's."""
    some = (len(nodes) - 1) // 3
    return Cut(between(nodes[:some], nodes[some:]), nodes[:some])


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


def flaps(period: int, random: Random) -> list[int]:
    """For how long, ns, links are cut, whole, cut, ...: each a quarter to three quarters of `period`, at random."""
    return [random.randint(period // 4, 3 * period // 4) for _ in range(_TURNS)]


def service_names(value: object) -> str:
    """As `clusters.base.services` reads it; what there is, only the cluster knows."""
    if isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value):
        value = ",".join(value)
    if not isinstance(value, str) or not all(value.removeprefix("!").split(",")):
        raise ValueError(f'{value!r} does not name services: write "replication", "replication,etcd" or "!clients"')
    return value


class Partition(Nemesis):
    """Cuts between nodes. Clients reach every node throughout, unless `clients` or the kind says otherwise."""

    name = "partition"
    meaning = (
        "cut the network: halves, one node, a ring of majorities, a bridge, the leader, one way, clients, up and down"
    )
    settings = (
        *timing(every="20s", for_="8s", start="5s"),
        Setting("kinds", choices(*KINDS), USUAL, "which cuts; each once before any comes again"),
        Setting(
            "service",
            optional(service_names),
            None,
            'cut these services only: "replication", "replication,etcd", or all but some, "!clients" (not set: all)',
        ),
        Setting("clients", boolean, False, "cut clients off too: from the smaller side, or the node that is apart"),
        Setting("period", at_least(40 * _MS), "2s", "flapping: how long links are cut and whole again, on average"),
    )

    def verbs(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (CUT,)

    def plan(self, options: Mapping[str, Any], nodes: Sequence[str], span: int, random: Random) -> list[Fault]:
        kinds = [kind for kind in options["kinds"] if len(nodes) >= KINDS[kind][1]]
        clients = CLIENTS in (options["service"] or "").split(",")  # and not "!clients"
        if options["service"] == CLIENTS:
            kinds = [kind for kind in kinds if kind != RING]  # nobody is apart from the others there
        if not kinds:
            raise BadKey("kinds", f"none of {', '.join(options['kinds'])} can be done with {len(nodes)} node(s)")
        args = {"service": options["service"], "clients": options["clients"] or clients}
        chosen = deck(kinds, random)

        def choose(_: Random) -> Chosen:
            kind = next(chosen)
            period = {"period": options["period"]} if kind == FLAPPING else {}
            return Chosen(kind, KINDS[kind][0], {**args, **period})

        return series(self.name, options, span, random, choose)

    def resolve(self, fault: Fault, view: View) -> tuple[Action, ...]:
        by_role = fault.target in (FOLLOWER, FOLLOWERS, NEWEST) or fault.kind in (APART, FLAPPING)
        told = hurt(fault.target, view, fault.draw) if by_role else fault.target.split("+")
        named = [name for name in told if name in view.nodes]
        if by_role and not named:
            return ()
        if fault.kind == APART:
            return (Action(CUT, tuple(named), {"links": in_order(between(named, [CLIENTS]), view.nodes)}),)
        cut = self._cut(fault.kind, view, named, Random(fault.draw))
        service = fault.args.get("service")
        links = [] if service == CLIENTS else cut.links
        if fault.args.get("clients"):  # for whoever is apart, in the directions in which it is
            links = links + [[source, CLIENTS] for source, _ in cut.links if source in cut.apart]
            links = links + [[CLIENTS, target] for _, target in cut.links if target in cut.apart]
        ends = {end for link in links for end in link}
        nodes = tuple(node for node in view.nodes if node in ends)
        args = {"links": in_order(links, view.nodes), "service": service}
        if fault.kind == FLAPPING:
            args["flap"] = flaps(fault.args["period"], Random(fault.draw))
        return (Action(CUT, nodes, args),) if links else ()

    def _cut(self, kind: str, view: View, named: list[str], random: Random) -> Cut:
        """Nodes that are named come first, in their order; a half, and who is apart, are exactly those."""
        nodes = random.sample(view.nodes, len(view.nodes))
        if named:
            nodes = [*named, *(node for node in nodes if node not in named)]
            if kind in APART_EXACTLY:
                return Cut(between(named, nodes[len(named) :]), named)
        if kind == HALVES:
            return halves(nodes)
        if kind == FIXED:
            return halves(view.nodes)
        if kind == THIRD:
            return minority_third(nodes)
        if kind == RING:
            return majorities_ring(nodes)
        if kind == BRIDGE:
            return bridge(nodes)
        if kind == ONE_NODE:
            return isolate(nodes[0], nodes)
        if kind == ONE_WAY:
            return one_way(nodes[0], nodes, outward=random.random() < 0.5)
        return isolate(view.leader, nodes) if view.leader in view.nodes else Cut([], [])
