"""One node of an explored world: an event happens to it, and its replica's effects are carried out.

What is abstract here, and why nothing is missed by it:

- A timer that is set may fire at any time; its delay is ignored. Each order in which timers can fire in time is one of
  these. Random draws, which only make delays, are fixed.
- A crash and the start after it are one event. What a node that is down does not receive, it may as well receive never
  or later.
- Connections are always there. Losing one makes a replica's timer run out sooner (it may at any time), and the messages
  on it are messages that never arrive; being connected again is an event of its own where a protocol reacts to it.
- Logs, beliefs and replies to clients leave the node and are dropped.
"""

from __future__ import annotations

from typing import Any

from chaos.search.prove.model import Core, Disk, Model, View
from clusters.simulated.replica import COMPACT, SEND, SYNC, TIMER, WRITE, Message, Replica

Event = tuple[Any, ...]

# Events at one node: (kind, ...)
DELIVER = "deliver"  # source, message
FIRE = "timer"  # name
SYNCED = "synced"  # the sync that is under way is complete
KILL = "kill"  # the process dies, and starts with all that was written
POWER = "power-off"  # the machine does, and starts with what was synced
CONNECT = "connect"  # node: the connection to it is made anew
DISCONNECT = "disconnect"  # node: it is taken for dead or out of reach
PUBLISH = "publish"  # number

Sent = tuple[tuple[str, Message], ...]  # target, message


def frozen(value: Any) -> Any:
    """The same, with every list a tuple."""
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


class Node:
    """The node named `me`, whatever state it is in."""

    def __init__(self, model: Model, me: str) -> None:
        self.me = me
        self._model = model
        self._others = tuple(node for node in model.nodes if node != me)
        self._slow = bool(model.limits["slow-disk"])

    def first(self) -> tuple[Core, View, Sent]:
        """When it has started for the first time."""
        return self._start(())

    def after(self, core: Core, event: Event) -> tuple[Core, View, Sent]:
        """What an event makes of it, and what it sends."""
        kind = event[0]
        if kind == KILL:
            return self._start(core.disk.written, core.disk.durable)
        if kind == POWER:
            return self._start(core.disk.durable, core.disk.durable)
        replica = self._model.replica(self.me)
        replica.restore(core.state)
        run = _Run(self._model, replica, core, self._slow)
        if kind == DELIVER:
            replica.message(event[1], event[2])
        elif kind == FIRE:
            del run.timers[event[1]]
            replica.timer(event[1], 0.0)
        elif kind == SYNCED:
            run.synced()
        elif kind == CONNECT:
            replica.up(event[1])
        elif kind == DISCONNECT:
            replica.down(event[1], 0.0)
        else:
            request = self._model.publish(event[1])
            assert request is not None
            replica.request(("client", 0, event[1]), request)
        return run.finish()

    def _start(self, written: tuple[Any, ...], durable: tuple[Any, ...] = ()) -> tuple[Core, View, Sent]:
        replica = self._model.replica(self.me)
        run = _Run(self._model, replica, Core((), (), Disk(durable, (), written)), self._slow)
        for node in self._others:
            replica.up(node)
        replica.start(written, 0.0)
        return run.finish()


class _Run:
    """One event while it is carried out."""

    def __init__(self, model: Model, replica: Replica, core: Core, slow: bool) -> None:
        self.timers = dict.fromkeys(core.timers)
        self._model = model
        self._replica = replica
        self._slow = slow
        self._durable, self._moving, self._written, self._token, self._wanted = core.disk
        self._sent: list[tuple[str, Message]] = []

    def synced(self) -> None:
        """The sync that is under way is complete."""
        token, self._durable = self._token, self._moving
        self._moving, self._token = (), None
        if self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            self._sync(wanted)
        self._replica.synced(token)

    def finish(self) -> tuple[Core, View, Sent]:
        """Carry out what the event led to, and what that leads to."""
        replica = self._replica
        replica.flush()
        while replica.effects or (self._token is not None and not self._slow):
            effects, replica.effects = replica.effects, []
            for effect in effects:
                self._carry_out(effect)
            if self._token is not None and not self._slow:
                self.synced()
            replica.flush()
        disk = Disk(self._durable, self._moving, self._written, self._token, self._wanted)
        core = Core(frozen(replica.snapshot()), tuple(sorted(self.timers)), disk)
        return self._model.normal(core), self._model.view(replica), tuple(self._sent)

    def _carry_out(self, effect: tuple[Any, ...]) -> None:
        tag = effect[0]
        if tag == SEND:
            self._sent.append((effect[1], frozen(effect[2])))
        elif tag == TIMER:
            self.timers[effect[1]] = None
        elif tag == WRITE:
            self._written = self._model.journal((*self._written, frozen(effect[1])))
        elif tag == SYNC:
            if self._token is None:
                self._sync(effect[1])
            else:
                self._wanted = effect[1]
        elif tag == COMPACT:
            records, keep = frozen(effect[1]), effect[2]
            self._durable, self._moving, self._written = (
                self._model.journal((*records, *filter(keep, journal)))
                for journal in (self._durable, self._moving, self._written)
            )

    def _sync(self, token: Any) -> None:
        self._moving, self._token = self._written, token
