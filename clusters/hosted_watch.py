"""What the nodes of a hosted cluster say by themselves: who leads, what ended, what was noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from chaos.model.op import REMOVED
from clusters.base import LeaderView
from clusters.brokers.base import ALL, BROKER, REPORTER
from clusters.catching import Catching, Lag
from clusters.hosted_nodes import PROBE, Nodes

_BEHIND = ("unsynchronised", "receive_snapshot")  # roles of replicas that are
_STALE = 10**9  # ns after which a claim to lead, not made again, is over
# What an agent, or the way to it, tells of itself: as f and error of a row in the history.
NOTICED: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str]]] = {
    "session": lambda event: ("session", f"{event['why']}; found again after {event['seconds']:g} s"),
    "silence": lambda event: ("watchdog", f"nothing was heard of the controller for {event['seconds']:g} s"),
    "undone": lambda event: ("watchdog", f"{event['fault']} undone unasked: {_said(event)}"),
}


class Watch:
    """Takes what agents push, and tells the observer. `serving` is set once the cluster is up; `early`: nodes whose
    broker ended before that, and how. `broken`: why the cluster is of no use any more."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes, self._setup, self._broker = nodes, nodes.setup, nodes.broker
        self.serving = False
        self.early: dict[str, str] = {}
        self.broken: str | None = None
        self._claims: dict[str, LeaderView] = {}  # scope: who says that it leads, in the newest term
        self._noted: dict[tuple[str, int], None] = {}  # what was noticed, and at which revision
        self._lives: dict[str, int] = {}  # in which life a broker answered last,
        self._began: dict[str, int] = {}  # and since when
        self._lag, self._catching = Lag(), Catching()
        self._looking: dict[str, asyncio.Task[None]] = {}

    def leader(self, scope: str | None = None) -> str | None:
        if scope is None:
            scope = next((one for one in self._kept if one in self._claims), None)
        claim = self._claims.get(scope) if scope is not None else None
        return None if claim is None else claim.node

    def newest(self) -> str | None:
        return max(self._began, key=lambda node: (self._began[node], self._nodes.names.index(node)), default=None)

    def removed(self, node: str, at: int) -> None:
        """The node's replicas were taken away, of all queues: what it gets later begins anew."""
        for queue in self._nodes.queues:
            if queue != PROBE:
                gone = LeaderView(queue, node, REMOVED, None, at, at, self._lives.get(node, 0))
                self._setup.observer.leader(gone)

    def agent_ended(self, node: str, why: str) -> None:
        self._looking[node] = asyncio.ensure_future(self._look(node, why))

    async def _look(self, node: str, why: str) -> None:
        """An agent ended, and with it all that we know of its node and can do there: say why, while we are up."""
        trouble = await self._nodes.hosts[node].trouble() or why
        if self.broken is None and node in self._nodes.agents:
            self.broken = f"{node}: {trouble}"
            if self.serving:
                self._setup.observer.broken(self.broken)

    def pushed(self, node: str, event: Mapping[str, Any]) -> None:
        if node not in self._nodes.agents:
            return  # on the way down
        kind = event.get("event")
        if kind == "views" and event["incarnation"] is not None:
            self._answers(node, event["incarnation"])
            for view in event["views"]:
                for scope in self._nodes.queues if view["scope"] == ALL else (view["scope"],):
                    if scope in self._kept and scope != PROBE:
                        self._view(node, {**view, "scope": scope}, event)
                        self._syncs(node, {**view, "scope": scope}, event["incarnation"])
        elif kind == "noted":
            at, _ = self._nodes.agents[node].offset.to_run(event["at"])
            for one in event["noted"]:
                if (seen := (one["what"], one["revision"])) not in self._noted:  # by another node's, it may be
                    self._noted[seen] = None
                    self._setup.observer.noticed(node, at, one["what"], one["words"])
        elif kind == "exit" and event.get("process") != REPORTER:
            at, _ = self._nodes.agents[node].offset.to_run(event["at"])
            reason, asked = event["reason"], event["asked"]
            if not self.serving and not asked:
                self.early[node] = reason
            if (process := event.get("process", BROKER)) != BROKER:
                reason = f"{process}: {reason}"
            if reason in self._broker.retires:
                asked = True
            if reason in self._broker.exits:
                reason = f"{reason}: {self._broker.exits[reason]}"
            self._setup.observer.exited(node, event["incarnation"], at, reason, asked)
        elif kind is not None and kind in NOTICED:
            at = self._nodes.agents[node].offset.to_run(event["at"])[0] if "at" in event else self._setup.clock.now()
            self._setup.observer.noticed(node, at, *NOTICED[kind](event))
        elif kind == "line":
            self._setup.observer.logged(node, event["line"])

    def _answers(self, node: str, life: int) -> None:
        """A broker answers, in that life of its process."""
        if self._lives.get(node) != life:
            self._lives[node] = life
            self._began[node] = self._setup.clock.now()

    @property
    def _kept(self) -> list[str]:
        """The scopes of the views that are kept."""
        return [*self._nodes.queues, *self._broker.scopes]

    def _view(self, node: str, data: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        # By the broker's own stamps, which lie closer; by the agent's where those make no sense.
        asked, answered = data["asked"], data["answered"]
        if not event["asked"] <= asked <= answered <= event["at"]:
            asked, answered = event["asked"], event["at"]
        asked, uncertainty = self._nodes.agents[node].offset.to_run(asked)
        answered, _ = self._nodes.agents[node].offset.to_run(answered)
        view = LeaderView(
            data["scope"], node, data["role"], data.get("term"), asked - uncertainty, answered + uncertainty,
            event["incarnation"], reign=data.get("reign"),
        )  # fmt: skip
        if view.role == "leader" and self._succeeds(view):
            self._claims[view.scope] = view
        self._setup.observer.leader(view)

    def _syncs(self, node: str, data: Mapping[str, Any], life: int) -> None:
        """Whether a replica begins to catch up, or has, by what it says of itself and its leader of itself."""
        scope, role, now = data["scope"], data["role"], self._setup.clock.now()
        behind = role in _BEHIND
        if "commit" in data and role == "leader":
            self._lag.leads(scope, data["commit"], now)
        elif "applied" in data:
            behind = behind or self._lag.behind(scope, data["applied"], now)
        if (begins := self._catching.seen(scope, node, life, behind, now)) is not None:
            self._setup.observer.synchronising(scope, node, not begins)

    def _succeeds(self, view: LeaderView) -> bool:
        """Whether one that says that it leads is the one to go by. Of two without terms it is the first, for as long
        as that one says so."""
        before = self._claims.get(view.scope)
        if before is None or before.node == view.node:
            return True
        if view.term is None:
            return before.answered < view.asked - _STALE
        return view.term >= (before.term or 0)


def _said(event: Mapping[str, Any]) -> str:
    """What came of an undo."""
    return str(event.get("error") or "; ".join(probe["evidence"] for probe in event["probes"]) or "nothing to see")
