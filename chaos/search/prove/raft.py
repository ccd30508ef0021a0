"""Raft, explored: the member of a quorum queue's group (`clusters.simulated.raft`), with a machine that only remembers.

Snapshots are off, so that a log is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chaos.model.settings import Setting, integer
from chaos.search.prove.model import MANY, RESTARTS, Core, Model, View, common_bounds
from clusters.simulated.raft.log import ENTRIES, META, RaftLog
from clusters.simulated.raft.machine import Command
from clusters.simulated.raft.member import Raft
from clusters.simulated.raft.rules import (
    APPEND,
    APPENDED,
    ASK,
    ASKED,
    CANDIDATE,
    ELECTION_TIMER,
    INSTALL,
    LEADER,
    MISSED,
    PRE_VOTE,
    VOTE,
    VOTED,
    Rules,
)
from clusters.simulated.replica import Message, Pid, Record, Replica

NEVER = 10**9
FORGETFUL = ("forget-term", "no-fsync")  # mutations with which a node's term may go back
PUT = 1  # a command that is none of Raft's own


class Applied:
    """A machine that remembers nothing but that it leads: the log has the commands."""

    def __init__(self) -> None:
        self.leading = False

    def apply(self, index: int, command: Command) -> None:
        pass

    def snapshot(self) -> tuple[Any, ...]:
        return ()

    def restore(self, state: tuple[Any, ...]) -> None:
        pass


class Member(Raft[Applied]):
    """A member that puts into the log whatever it is asked to."""

    __slots__ = ()

    def request(self, pid: Pid, request: Message) -> None:
        if self.role == LEADER:
            self.propose(request)

    def ended(self, pid: Pid) -> None:
        pass

    def tell(self, new: bool) -> None:
        pass


class RaftModel(Model):
    """A Raft group."""

    name = "rabbitmq-quorum"
    bounds = (
        Setting("terms", integer(1), 2, "no node goes beyond this term"),
        Setting("timeouts", integer(0), 1, "each node: how often its election timer fires"),
        Setting("heartbeats", integer(0), 0, "each node: how often it sends heartbeats as leader, beside its first"),
        Setting("reconnects", integer(0), 0, "each node: how often its connection to another is made anew"),
        Setting("publishes", integer(0, MANY), 0, "messages published; a leader's first entry is there without"),
        *common_bounds(in_flight=2),
    )
    each = ("timeouts", "heartbeats", "reconnects", RESTARTS)
    mutations = ("vote-twice", "forget-term", "no-fsync", "ignore-log-up-to-date", "serve-after-losing-majority")
    invariants = ("one leader a term", "log matching", "leader completeness", "state machine safety")

    def replica(self, me: str) -> Replica:
        rules = Rules(election=1, hurry=1, heartbeat=1, snapshot=NEVER, mutation=self.mutation)
        return Member(me, self.nodes, Applied(), rules)

    def view(self, replica: Replica) -> View:
        raft = cast(Member, replica)
        return View(raft.term, raft.role, raft.role == LEADER, tuple(raft.log.entries), raft.commit)

    def journal(self, records: Iterable[Record]) -> tuple[Record, ...]:
        meta: tuple[Record, ...] = ()
        log = RaftLog(())
        for record in records:
            if record[0] == META:
                meta = (record,)
            else:
                log.replay(record)
        return (*meta, (ENTRIES, 1, tuple(log.entries))) if log.entries else meta

    def normal(self, core: Core) -> Core:
        """Dropped: what only a leader, or only a candidate, looks at, in all others; how often things were written and
        cut back, but for the difference to what a sync that is under way will report; whether the last heartbeat was
        one of silence, which only skips the next. Sorted: votes, peers and messages that wait."""
        (
            role, leader, term, voted, log, verified, commit, applied, noop, ready, meta, meta_durable, held, syncing,
            unflushed, patience, votes, _, peers, machine, leading, changes, *gives_way,
        ) = core.state  # fmt: skip
        (members, saved), *rest, epoch = log
        leads = role == LEADER
        if leads:
            cap = MISSED + 1 if self.mutation == "serve-after-losing-majority" else 0
            peers = sorted((peer[0], *peer[1:4], False, min(peer[5], cap)) for peer in peers)
        else:
            peers = sorted((peer[0], 1, 0, True, False, 0) for peer in peers)
        state = (
            role, leader, term, voted, ((tuple(sorted(members)), saved), *rest, 0),
            0 if leads or leader is None else verified, commit, applied,
            noop if leads else 0, ready, meta - meta_durable, 0, tuple(sorted(held, key=repr)), syncing, unflushed,
            patience, tuple(sorted(votes)) if role in (PRE_VOTE, CANDIDATE) else (),
            tuple(peer[0] for peer in peers), tuple(peers), machine, leading, changes, *gives_way,
        )  # fmt: skip

        def since(token: Any) -> Any:
            return token and (token[0], max(token[1] - epoch, -1), token[2] - meta_durable)

        disk = core.disk._replace(token=since(core.disk.token), wanted=since(core.disk.wanted))
        return Core(state, core.timers, disk)

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        """Answers that are for an earlier term than the node's, which its disk has: terms never go back. Those of this
        term that refuse. Votes, where it is no candidate any more; pre-votes, where it asks for none and never will."""
        if self.mutation in FORGETFUL or message[0] not in (VOTED, ASKED, APPENDED):
            return False
        role, _, term = core.state[:3]
        if message[1] != term or core.disk.durable != core.disk.written:
            return bool(message[1] < min(term, _term(core.disk.durable)))
        if message[0] == APPENDED:
            return False
        if not message[2]:
            return True
        return bool(role != CANDIDATE if message[0] == VOTED else role != PRE_VOTE and not left["timeouts"])

    def charged(self, core: Core, timer: int) -> str | None:
        return "timeouts" if timer == ELECTION_TIMER else "heartbeats"

    def publish(self, number: int) -> Message | None:
        return (PUT, None, number, None, None)

    # --- in words

    def timer(self, core: Core, name: int) -> str:
        return "election time-out" if name == ELECTION_TIMER else "heartbeat"

    def message(self, message: Message) -> str:
        tag, term = message[0], message[1]
        if tag == APPEND:
            _, _, previous, _, entries, commit = message
            what = f"entries {previous + 1} to {previous + len(entries)}" if entries else f"nothing after {previous}"
            return f"append of term {term}: {what}, committed {commit}"
        if tag == APPENDED:
            return f"appended, term {term}: {'up to' if message[2] else 'no, send from'} {message[3]}"
        if tag in (VOTE, ASK):
            name = "vote?" if tag == VOTE else "pre-vote?"
            return f"{name} term {term}, last entry {message[2]} of term {message[3]}"
        if tag == INSTALL:
            return f"snapshot of term {term} up to {message[2]}"
        return f"{self.label(message)}, term {term}"

    def label(self, message: Message) -> str:
        tag = message[0]
        if tag in _LABELS:
            return _LABELS[tag]
        name = "vote" if tag == VOTED else "pre-vote"
        return name if message[2] else f"no {name}"

    def term_of(self, message: Message) -> int | None:
        return int(message[1])


def _term(journal: tuple[Record, ...]) -> int:
    return int(journal[0][1]) if journal and journal[0][0] == META else 0


_LABELS = {APPEND: "append", APPENDED: "appended", VOTE: "vote?", ASK: "pre-vote?", INSTALL: "snapshot"}
