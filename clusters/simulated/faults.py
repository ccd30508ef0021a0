"""How a simulated cluster is hurt: each verb with its undo, and with what shows that it bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from chaos.kernel.clock import SECOND
from chaos.model.errors import BadInput, did_you_mean
from chaos.model.schedule import (
    CLOCK,
    CRASH_LOOP,
    CUT,
    DAMAGE,
    DISK_FULL,
    DISK_READ_ONLY,
    DISK_SLOW,
    KILL,
    LOSS,
    NODE_STOP,
    PAUSE,
    POWER_OFF,
    SHAPE,
    STARVE,
    STOP,
    WIPE,
    Action,
)
from clusters.base import services
from clusters.simulated.network import CLIENTS, Link
from clusters.simulated.node import DOWN, UP, Node
from clusters.simulated.shaping import Shape

if TYPE_CHECKING:
    from clusters.simulated.cluster import SimulatedCluster

Undo = Callable[[], tuple[bool, str]]  # whether it bit, and what shows it
RECORD = 1000  # bytes that a record takes on a slow disk
UNABLE = {
    DISK_FULL: "a simulated disk has no end; real nodes can",
    STARVE: "a simulated broker takes no time to think, and no memory; real nodes can",
    DISK_READ_ONLY: "what a simulated broker does when a write fails, nobody has said; real nodes can",
}
_LOOK = 10_000_000  # ns between looks at whether a node that is to crash again serves


def inject(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    """Carry out an action; what shows it, and how to undo it.

    Raises BadInput for a node, link, service or process that there is not.
    """
    for name in action.nodes:
        if name not in cluster.by_name and name != CLIENTS:
            raise BadInput(f"no node {name!r}; {did_you_mean(name, cluster.by_name)}")
        if name != CLIENTS:
            cluster.process(name, action.process)
    return _VERBS[action.verb](cluster, fault, action)


def _links(cluster: SimulatedCluster, args: Mapping[str, Any]) -> list[Link]:
    named = services(args.get("service"), cluster.services)
    links = []
    for source, target in args["links"]:
        for end in (source, target):
            if end not in cluster.by_name and end != CLIENTS:
                raise BadInput(f"no endpoint {end!r}; {did_you_mean(end, [*cluster.by_name, CLIENTS])}")
        links += [cluster.network.link(source, target, each) for each in named]
    return links


def _dropped(links: list[Link], before: list[int]) -> tuple[bool, str]:
    dropped = sum(link.dropped - was for link, was in zip(links, before, strict=True))
    return dropped > 0, f"{dropped} messages dropped"


def _cut(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    links = _links(cluster, action.args)
    before = [link.dropped for link in links]
    flap = [int(time) for time in action.args.get("flap") or ()]
    whole, in_force, turns = True, True, 0

    def turn() -> None:
        nonlocal whole, turns
        whole = not whole
        turns += 1
        for link in links:
            if whole:
                link.mend()
            else:
                link.cut(cluster.loop.now())

    def up_and_down() -> None:
        if in_force:
            turn()
            cluster.loop.at(cluster.loop.now() + flap[(turns - 1) % len(flap)], up_and_down)

    if flap:
        up_and_down()
    else:
        turn()

    def undo() -> tuple[bool, str]:
        nonlocal in_force
        in_force = False
        if not whole:
            turn()
        bit, shown = _dropped(links, before)
        return bit, f"{shown}, cut {turns // 2} times" if flap else shown

    return f"{len(action.args['links'])} links cut" + (", and whole again, by turns" if flap else ""), undo


def _loss(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    links = _links(cluster, action.args)
    before = [link.dropped for link in links]
    probability = float(action.args["probability"])
    for link in links:
        link.lossy(fault, probability)

    def undo() -> tuple[bool, str]:
        for link in links:
            link.lossy(fault, None)
        return _dropped(links, before)

    return f"{probability:g} of messages lost on {len(action.args['links'])} links", undo


def _shape(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    """A corrupt segment is one that its receiver's TCP throws away: it is lost."""
    links, args = _links(cluster, action.args), action.args
    before = [link.dropped for link in links]
    lost = 1 - (1 - float(args.get("loss", 0))) * (1 - float(args.get("corrupt", 0)))
    times = int(args.get("delay", 0)), int(args.get("jitter", 0))
    if times[1] > times[0] or (args.get("reorder") and not times[0]):
        raise BadInput("shape: jitter is at most the delay, and packets that overtake others need one")
    chances = float(args.get("duplicate", 0)), float(args.get("reorder", 0))
    shapings = [link.shape(fault, Shape(*times, *chances, int(args.get("rate", 0)))) for link in links]
    counts = [(one.delayed, one.doubled, one.early, one.held) for one in shapings]
    if lost:
        for link in links:
            link.lossy(fault, lost)

    def undo() -> tuple[bool, str]:
        for link in links:
            link.shape(fault, None)
            link.lossy(fault, None)
        now = [(one.delayed, one.doubled, one.early, one.held) for one in shapings]
        delayed, doubled, early, held = (
            sum(after[place] - was[place] for after, was in zip(now, counts, strict=True)) for place in range(4)
        )
        dropped, lost_some = _dropped(links, before)
        met = {
            f"{delayed} delayed": (delayed > 0) if times[0] else None,
            f"{doubled} sent twice": (doubled > 0) if chances[0] else None,
            f"{early} ahead of others": (early > 0) if chances[1] else None,
            f"{held} had to wait their turn": (held > 0) if args.get("rate") else None,
            lost_some: dropped if lost else None,
        }
        told = {what: bit for what, bit in met.items() if bit is not None}
        return bool(told) and all(told.values()), ", ".join(told)

    return f"packets shaped on {len(args['links'])} links", undo


def _take_down(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    nodes = [cluster.process(name, action.process) for name in action.nodes]
    hurt = [node.name for node in nodes if node.state != DOWN]
    lost = 0
    for node in nodes:
        cluster.held_down[node.name][fault] = None
        if node.state != DOWN:
            lost += cluster.take_down(node, action.verb)
    shown = f"down: {', '.join(hurt) or 'none, all were down already'}"
    if action.verb in (POWER_OFF, WIPE):
        shown += f"; {lost} writes lost"

    def undo() -> tuple[bool, str]:
        for node in nodes:
            holders = cluster.held_down[node.name]
            holders.pop(fault, None)
            if not holders and node.state == DOWN:
                cluster.start(node)
        return bool(hurt), shown

    return shown, undo


def _damage(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    """Cut short, or with a record whose checksum is wrong: what comes after is not read, so it is the same here."""
    random = Random(action.args["draw"])
    found, undo_kill = _take_down(cluster, fault, Action(KILL, action.nodes, process=action.process))
    shown, hurt = [], True
    for name in action.nodes:
        disk = cluster.by_name[name].disk
        files = disk.names()
        lost = 0
        for file in random.sample(files, min(int(action.args["files"]), len(files))):
            count = len(disk.file(file).records())
            gone = count - random.randrange(count)
            disk.cut_short(file, gone)
            lost += gone
            shown.append(f"{name}: the last {gone} of {count} records of {file} are lost")
        hurt = hurt and lost > 0
    said = "; ".join(shown) or "nothing was written yet"

    def undo() -> tuple[bool, str]:
        undo_kill()
        return hurt, said

    return f"{found}; {said}", undo


def _slow_disk(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    rate = int(action.args["rate"])
    disks = [cluster.by_name[name].disk for name in action.nodes]
    before = [disk.waited for disk in disks]
    for disk in disks:
        disk.slow[fault] = SECOND * RECORD // rate

    def undo() -> tuple[bool, str]:
        for disk in disks:
            disk.slow.pop(fault, None)
        waited = [disk.waited - was for disk, was in zip(disks, before, strict=True)]
        return min(waited) > 0, f"syncs waited {sum(waited) / SECOND:.3f} s more"

    return f"{rate} bytes a second, a record having {RECORD}", undo


def _crash_loop(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    nodes = [cluster.process(name, action.process) for name in action.nodes]
    times = int(action.args["times"])
    kills = {node.name: 0 for node in nodes}
    in_force = True

    def look(node: Node) -> None:
        """Killed as soon as it serves, as long as it may be."""
        if not in_force or kills[node.name] == times:
            return
        if node.state == UP and not node.paused:
            cluster.take_down(node, KILL)
            kills[node.name] += 1
            if not cluster.held_down[node.name]:
                cluster.start(node)
        cluster.loop.at(cluster.loop.now() + _LOOK, look, node)

    for node in nodes:
        look(node)

    def undo() -> tuple[bool, str]:
        nonlocal in_force
        in_force = False
        shown = ", ".join(f"{name} was killed {count} of {times} times" for name, count in kills.items())
        return min(kills.values()) > 1, shown

    return f"killed again as soon as they serve: {', '.join(kills)}", undo


def _pause(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    nodes = [cluster.process(name, action.process) for name in action.nodes]
    lives = {node.name: node.incarnation for node in nodes if node.state != DOWN}
    for node in nodes:
        if node.name in lives:
            cluster.held_still[node.name][fault] = None
            if not node.paused:
                node.pause()
    shown = f"standing still: {', '.join(lives) or 'none, all were down'}"

    def undo() -> tuple[bool, str]:
        for node in nodes:
            holders = cluster.held_still[node.name]
            holders.pop(fault, None)
            if not holders and node.paused and node.incarnation == lives.get(node.name):
                node.resume()
        return bool(lives), shown

    return shown, undo


def _clock(cluster: SimulatedCluster, fault: str, action: Action) -> tuple[str, Undo]:
    nodes = [cluster.by_name[name] for name in action.nodes]
    offset, rate, strobe = (
        int(action.args.get("offset", 0)),
        float(action.args.get("rate", 1.0)),
        int(action.args.get("strobe", 0)),
    )
    loop = cluster.loop
    in_force = True
    jumps = 0

    def jump(node: Node, by: int) -> None:
        nonlocal jumps
        if in_force:
            jumps += 1
            node.clock.jump(by)
            if strobe:
                loop.at(loop.now() + strobe, jump, node, -by)

    for node in nodes:
        node.clock.run(loop.now(), rate)
        node.clock_changed()
        if offset:
            jump(node, offset)

    def undo() -> tuple[bool, str]:
        nonlocal in_force
        in_force = False
        off = [node.clock.offset(loop.now()) for node in nodes]
        for node in nodes:
            node.clock.set_right(loop.now())
            node.clock_changed()
        shown = ", ".join(f"{node.name} was {by / 1e6:+.3f} ms off" for node, by in zip(nodes, off, strict=True))
        return any(off) or jumps > len(nodes), shown

    return f"offset {offset / 1e6:+.3f} ms, rate {rate:g}" + (
        f", to and fro every {strobe / 1e6:g} ms" if strobe else ""
    ), undo


_VERBS: Mapping[str, Callable[[SimulatedCluster, str, Action], tuple[str, Undo]]] = {
    CUT: _cut,
    KILL: _take_down,
    STOP: _take_down,
    CRASH_LOOP: _crash_loop,
    NODE_STOP: _take_down,
    DAMAGE: _damage,
    DISK_SLOW: _slow_disk,
    POWER_OFF: _take_down,
    WIPE: _take_down,
    PAUSE: _pause,
    CLOCK: _clock,
    LOSS: _loss,
    SHAPE: _shape,
}
