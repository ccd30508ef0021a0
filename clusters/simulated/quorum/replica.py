"""A quorum queue's replica: a Raft member, and what its leader does for the channels that use the queue.

After `ra_server_proc` and `rabbit_fifo`: a leader answers a command once it is applied, monitors the channels that the
queue knows, suspects those on nodes that are out of reach, and tells them all when it has newly become leader.
"""

from __future__ import annotations

from collections.abc import Iterable

from clusters.simulated.channel import CHANGED, LEADS, RESUME, WHO
from clusters.simulated.fifo import APPLIED, DELIVER, DEQUEUE, DOWN, ENQUEUE, NODE_DOWN, NODE_UP, OK, RESUMED, Fifo
from clusters.simulated.raft.member import Raft
from clusters.simulated.raft.rules import LEADER, MISSED
from clusters.simulated.replica import MONITOR, REPLY, Message, Pid

EMPTY_WHEN_DEPOSED = "empty-when-deposed"  # mutation: a leader without its majority answers polls, and from no log


class QuorumReplica(Raft[Fifo]):
    """One member of a quorum queue."""

    __slots__ = ()

    def request(self, pid: Pid, request: Message) -> None:
        kind = request[0]
        if kind == WHO or self.role != LEADER:
            self.effects.append((REPLY, pid, (LEADS, self.leader, self.term)))
            return
        if kind == RESUME:
            held = self.machine.checked_out(pid, request[3], request[4]) if self.ready else None
            if held is not None:
                self.effects.append((REPLY, pid, (RESUMED, request[3], *held)))
            return
        if kind == DEQUEUE and self.rules.mutation == EMPTY_WHEN_DEPOSED and self._cut_off():
            self.effects.append((REPLY, pid, (APPLIED, [(request[2], None)])))
            return
        self.propose(request)
        if kind == ENQUEUE and self.rules.mutation == "confirm-before-commit":
            self.effects.append((REPLY, pid, (APPLIED, [(request[2], OK)])))

    def ended(self, pid: Pid) -> None:
        if self.role == LEADER:
            self.propose((DOWN, pid, 0, None, None))

    def up(self, node: str) -> None:
        super().up(node)
        if self.ready:
            self._trust(node)
            self._announce(pid for pid in self.machine.pids() if pid[0] == node)

    def down(self, node: str, draw: float) -> None:
        super().down(node, draw)
        if self.ready:
            self._suspect(node)

    def tell(self, new: bool) -> None:
        machine, effects = self.machine, self.effects
        if machine.replies:
            effects.extend([(REPLY, pid, (APPLIED, answers)) for pid, answers in machine.replies.items()])
            machine.replies = {}
        if machine.deliveries:
            effects.extend([(REPLY, key[0], (DELIVER, key[1], items)) for key, items in machine.deliveries.items()])
            machine.deliveries = {}
        if machine.monitors:
            effects.extend([(MONITOR, pid) for pid in machine.monitors])
            machine.monitors = []
        if new:
            pids = machine.pids()
            self._announce(pids)
            for node in dict.fromkeys(pid[0] for pid in pids):
                if node == self.me or node in self.connected:
                    self._trust(node)
                else:
                    self._suspect(node)

    def _announce(self, pids: Iterable[Pid]) -> None:
        for pid in pids:
            self.effects.append((REPLY, pid, (CHANGED, self.me, self.term)))
            self.effects.append((MONITOR, pid))

    def _cut_off(self) -> bool:
        """Whether a majority has not answered this leader for a while; others may lead by now."""
        heard = 1 + sum(peer.missed <= MISSED for peer in self._peers.values())
        return heard < self.majority

    def _suspect(self, node: str) -> None:
        if any(key[0][0] == node and consumer.up for key, consumer in self.machine.consumers.items()):
            self.propose((NODE_DOWN, None, 0, node, None))

    def _trust(self, node: str) -> None:
        if any(key[0][0] == node and not consumer.up for key, consumer in self.machine.consumers.items()):
            self.propose((NODE_UP, None, 0, node, None))
