"""Who is in the ring, who is the master, and what becomes of a node that was away.

After RabbitMQ's `rabbit_mirror_queue_misc`, `rabbit_node_monitor` and `rabbit_autoheal`, and what its documents say of
partitions. Each node goes by its own connections. The master drops a member that it has lost; when the master is lost,
the eldest of the others takes over. A node that starts looks for a master, discards all it has, and comes in as the
youngest. Where nobody serves, those that were the last ones together wait until all of them are there, and the one that
was master among them then still is.

Two nodes that lost each other while both went on are in a partition. What is done about it is one of three things:
nothing (`ignore`); the nodes that see no majority stop until they do (`pause_minority`); or, once all nodes see each
other again, those outside the largest part restart (`autoheal`). A partition that only some see is made one that all
do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from clusters.simulated.mirrored.ring import Ring
from clusters.simulated.mirrored.rules import (
    ALIVE,
    ALWAYS,
    AUTOHEAL,
    CHECK,
    CUT_OFF,
    HELLO,
    JOIN,
    LEADER,
    MIRROR,
    OUT,
    PARTIAL,
    PAUSE_MINORITY,
    PAUSED,
    PROBE,
    RESUME_TIMER,
    RING,
    ROUND,
    SERVING,
    START_TIMER,
    STARTING,
    STOPPING,
    VIEW,
    Rules,
)
from clusters.simulated.mirrored.view import NOBODY, View
from clusters.simulated.replica import LOG, SEND, TIMER, Message


class Membership(Ring):
    """`peers`: the role and view of each node that there is a connection to, as it last said."""

    __slots__ = ("_asked", "_needed", "_stopping", "connected", "peers", "rules")

    def __init__(self, me: str, nodes: Sequence[str], rules: Rules) -> None:
        super().__init__(me, nodes)
        self.rules = rules
        self.connected: dict[str, None] = {}
        self.peers: dict[str, tuple[str, View]] = {}
        self._asked: View | None = None  # whose master was asked to let us in
        self._needed = 0  # as paused: how many nodes must see each other before this one starts again
        self._stopping: dict[str, None] = {}  # nodes that said that they are being shut down

    # --- what a member adds to it

    @abstractmethod
    def discard(self) -> None:
        """All that was here is gone."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there are no messages."""

    @abstractmethod
    def changed(self) -> None:
        """Another view, or another role."""

    @abstractmethod
    def promoted(self) -> None:
        """We are the master from now on."""

    # --- events

    def message(self, source: str, message: Message) -> None:
        tag = message[0]
        if tag == RING:
            self.on_ring(source, message)
        elif tag == ROUND:
            self.on_round(source, message)
        elif tag == VIEW:
            self._on_view(source, message[1])
        elif tag == HELLO:
            self._on_hello(source, message[1], message[2])
        elif tag == JOIN:
            self._on_join(source, message[1])
        elif tag == STOPPING:
            self._stopping[source] = None
        else:
            self._on_check(source, tag, message[1])

    def timer(self, name: int, draw: float) -> None:
        if name == START_TIMER and not self.view.members:  # a new queue, on all nodes that are there
            members = (self.me, *[node for node in self.nodes if node in self.connected])
            self._lead(View(1, members, (0,) * len(members)))
        elif name == RESUME_TIMER and self.role == PAUSED and len(self.connected) + 1 >= self._needed:
            self.effects.append((LOG, "notice", "the broker starts again"))
            self._start()

    def up(self, node: str) -> None:
        self.connected[node] = None
        self._stopping.pop(node, None)
        self._say(node)
        if self.role == PAUSED:
            self._may_resume()

    def down(self, node: str, draw: float) -> None:
        self._lose(node)
        if not self.rules.by_hand:
            for other in self.connected:
                self.effects.append((SEND, other, (CHECK, node)))

    def stop(self) -> None:
        for node in self.connected:
            self.effects.append((SEND, node, (STOPPING,)))

    # --- members that are lost

    def _lose(self, node: str) -> None:
        """There is no connection to a node any more."""
        self.connected.pop(node, None)
        self.peers.pop(node, None)
        if self._asked is not None and self._asked.master == node:
            self._asked = None
        if self.role in (PAUSED, OUT):
            return
        if self.rules.partition == PAUSE_MINORITY and 2 * (len(self.connected) + 1) <= len(self.nodes):
            self._pause("it sees no majority of the nodes", len(self.nodes) // 2 + 1)
        elif self.role == STARTING:
            self._look_for_master()
        else:
            self.deaf[node] = None
            self._review()

    def _review(self) -> None:
        """Drop members that were lost, or take over from a master that was."""
        lost = [node for node in self.view.members if node in self.deaf]
        if self.role == LEADER and lost:
            self.effects.append((LOG, "warning", f"drops {', '.join(lost)} from the ring"))
            self._lead(self.view.keeping([node for node in self.view.members if node not in self.deaf]))
        elif self.role == MIRROR and self.view.master in lost:
            self._succeed()

    def _succeed(self) -> None:
        """The master is lost: the eldest that may is promoted. If none may, the queue is not there until it returns."""
        view = self.view
        rule = self.rules.on_shutdown if view.master in self._stopping else self.rules.on_failure
        alive = [node for node in view.members if node not in self.deaf]
        heirs = alive if rule == ALWAYS else [node for node in alive if node not in view.behind]
        if not heirs:
            self.effects.append((LOG, "warning", "no synchronised mirror is left to promote"))
            self._start()
        elif heirs[0] == self.me:
            self.effects.append((LOG, "notice", f"is promoted in place of {view.master}"))
            younger = alive[alive.index(self.me) :]  # an older one, passed over, may have what is not here
            self._lead(view.keeping(younger).synchronised(self.me))
        else:
            self.changed()  # until the heir says so, there is no master
            self._meet(heirs[0])

    # --- views

    def _lead(self, view: View) -> None:
        """As master: a new view."""
        new = self.role != LEADER
        self.role = LEADER
        self._begin(view, None)
        for node in self.connected:
            self.effects.append((SEND, node, (VIEW, view)))
        self._now(view)
        if new:
            self.promoted()
        self.believe()
        self.changed()

    def _install(self, view: View) -> None:
        """As mirror, or to become one: a master's view."""
        afresh = None
        if self.role != MIRROR:
            self.discard()
            afresh = view.since_of(self.me)
            self.role = MIRROR
            self._asked = None
        self._begin(view, afresh)
        self._say_to_all()
        self._review()

    def _begin(self, view: View, afresh: int | None) -> None:
        self.deaf = {node: None for node in view.members if node != self.me and node not in self.connected}
        self.view_begins(view, afresh)

    def takes(self, source: str, view: View) -> bool:
        if view.number > self.view.number or self.role == STARTING:
            self._on_view(source, view)
        return self.role == MIRROR and view.same(self.view)

    def _on_view(self, source: str, view: View) -> None:
        theirs = self.peers.get(source, (PAUSED, NOBODY))[0]
        self._now(view)
        if self.role in SERVING:
            if source in self.view.members and source not in self.deaf:
                if view.number > self.view.number:
                    if self.me in view.members:
                        self._install(view)
                    else:
                        self._pause("the ring has gone on without it", 1)
            else:
                self._meet(source)
        elif self.role == STARTING:
            recovered = theirs == STARTING and self.view.number < view.number and self.me in view.members
            if recovered or self._is_let_in(view):
                self._install(view)
            else:
                self._look_for_master()

    def _now(self, view: View) -> None:
        for node in view.members:
            if node in self.connected:
                self.peers[node] = (LEADER if node == view.master else MIRROR, view)

    # --- nodes that come

    def _say(self, node: str) -> None:
        self.effects.append((SEND, node, (HELLO, self.role, self.view)))

    def _say_to_all(self) -> None:
        self.believe()
        for node in self.connected:
            self._say(node)
        self.changed()

    def _on_hello(self, source: str, role: str, view: View) -> None:
        self.peers[source] = (role, view)
        if self.role == STARTING:
            self._look_for_master()
        elif self.role in SERVING:
            if role in SERVING:
                if source in self.deaf and view.same(self.view):  # of the same view, and only now within reach
                    del self.deaf[source]
                    self.pass_on_again()
                self._meet(source)
            elif source in self.view.members and (role == PAUSED or view.same(self.view)):
                # it has begun again without leaving us; of an older view, it may have said so before it heard of ours
                self.deaf[source] = None
                self._review()

    def _on_join(self, source: str, number: int) -> None:
        if self.role == LEADER and number == self.view.number:  # else it hears of a newer view, and asks again
            self.effects.append((LOG, "notice", f"{source} comes into the ring"))
            if source in self.view.members:  # it has begun again without our noticing
                self._lead(self.view.keeping([node for node in self.view.members if node != source]))
            self._lead(self.view.joined(source, self.last, self.is_empty()))

    def _look_for_master(self) -> None:
        """As one that starts: come to a master, or be it if all that were there last have started too."""
        views = [view for role, view in self.peers.values() if role in SERVING]
        if views and self.rules.by_hand and self.view.members:
            self.role = OUT
            self.effects.append((LOG, "warning", "was dropped from the cluster, and has to be brought back by hand"))
            self._say_to_all()
        elif views:
            view = max(views, key=lambda view: (len(view.members), view.number))
            by_itself = self.me in view.members and self.peers.get(view.master, (STARTING, view))[0] == STARTING
            if by_itself or self._is_let_in(view):
                return  # the view is on its way from the master too
            if view.master in self.connected and (self._asked is None or not self._asked.same(view)):
                self._asked = view
                self.effects.append((SEND, view.master, (JOIN, view.number)))
        elif self.view.members:
            self._recover()

    def _is_let_in(self, view: View) -> bool:
        """Whether the view is what a master answered to our asking."""
        asked = self._asked
        if asked is None or asked.master != view.master or asked.number >= view.number:
            return False
        return self.me in view.members and self.me not in asked.members

    def _recover(self) -> None:
        """Nobody serves. A node that has gone down before others does not know what they did then, so it waits."""
        known = {node: view for node, (role, view) in self.peers.items() if role == STARTING}
        known[self.me] = self.view
        together = list(self.view.members)
        for node in together:
            if node not in known:
                return
            together += [other for other in known[node].members if other not in together]
        held = [known[node] for node in together]

        def weight(view: View) -> tuple[int, int, int]:  # the same for whoever weighs
            return view.number, sum(view.same(other) for other in held), -self._place(view.master)

        newest = max(held, key=weight)
        if newest.master == self.me:
            self.effects.append((LOG, "notice", "all are there that were the last: it is the master again"))
            others = [node for node in self.nodes if node in together and node != self.me]
            members = (self.me, *others)
            behind = () if self.is_empty() else tuple(others)
            self._lead(View(newest.number + 1, members, (self.last,) * len(members), behind))

    # --- partitions

    def _meet(self, source: str) -> None:
        """A node that went on while we did, or news of it: once all are there, and for autoheal, losers restart."""
        theirs = self.peers.get(source, (STARTING, NOBODY))[1]
        if self._left_behind():
            self._pause("the ring has gone on without it", 1)
            return
        ours = source in self.view.members and source not in self.deaf
        if ours or not theirs.members:
            return
        self.effects.append((LOG, "warning", f"partitioned from {source}"))
        if self.rules.partition != AUTOHEAL or len(self.peers) < len(self.nodes) - 1:
            return
        if any(role not in SERVING for role, _ in self.peers.values()):
            return
        views = [self.view, *[view for _, view in self.peers.values()]]
        winner = max(views, key=lambda view: (len(view.members), [-self._place(node) for node in sorted(view.members)]))
        if self.me not in winner.members:
            self._pause(f"autoheal: the winner is the partition of {', '.join(winner.members)}", 1)

    def _left_behind(self) -> bool:
        """Whether we wait for another to take over from the master, and that one has not lost it, but us."""
        if self.role != MIRROR or self.view.master not in self.deaf:
            return False
        others = [self.peers[node][1] for node in self.view.members if node in self.peers and node not in self.deaf]
        return any(view.number > self.view.number and self.me not in view.members for view in others)

    def _place(self, node: str) -> int:
        return sorted(self.nodes).index(node)

    def _on_check(self, source: str, tag: int, node: str) -> None:
        """Where one node has lost another and a third has neither, all of it is made one partition."""
        if tag == CHECK:
            if node in self.connected:
                self.effects.append((SEND, node, (PROBE, source)))
        elif tag == PROBE:
            self.effects.append((SEND, source, (ALIVE, node)))
        elif tag == ALIVE:
            if node in self.connected:
                self.effects.append((SEND, node, (PARTIAL, source)))
        elif self.role in (PAUSED, OUT) or (tag == PARTIAL and node in self.connected):
            return
        elif tag == PARTIAL and self.rules.partition == PAUSE_MINORITY:
            self._pause(f"{source} still sees {node}", len(self.nodes))
        else:
            self.effects.append((LOG, "warning", f"partial partition: disconnects from {source}"))
            if tag == PARTIAL:
                self.effects.append((SEND, source, (CUT_OFF, self.me)))
            self._lose(source)
            self.up(source)

    def _pause(self, why: str, needed: int) -> None:
        """Stop the broker until so many nodes see each other."""
        self.effects.append((LOG, "warning", f"the broker stops: {why}"))
        self.role = PAUSED
        self._needed = needed
        self._say_to_all()
        self._may_resume()

    def _may_resume(self) -> None:
        if len(self.connected) + 1 >= self._needed:
            self.effects.append((TIMER, RESUME_TIMER, self.rules.restart))

    def _start(self) -> None:
        self.role = STARTING
        self._asked = None
        self._say_to_all()
        self._look_for_master()

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        mine = (tuple(self.connected), tuple(self.peers.items()), self._asked, self._needed, tuple(self._stopping))
        return super().snapshot(), mine

    def restore(self, state: tuple[Any, ...]) -> None:
        ring, (connected, peers, self._asked, self._needed, stopping) = state
        super().restore(ring)
        self.connected, self.peers, self._stopping = dict.fromkeys(connected), dict(peers), dict.fromkeys(stopping)
