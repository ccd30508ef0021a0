"""Raft as RabbitMQ's quorum queues run it (the `ra` library), as a pure state machine.

After Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), with what ra does on top:
pre-vote without regard to a living leader (a leader answers a pre-vote by asserting itself), elections soon after a
leader's connection is lost, pipelined AppendEntries, and one write-ahead log whose sync covers many entries. Term and
vote are durable before anyone hears of them; an entry counts for the commit only where it has been synced.

Entries are (term, command), commands as `fifo` has them. Journal records: (META, term, voted for), (ENTRIES, index of
the first, entries), (SNAPSHOT, index, term, machine state); later entries replace earlier ones from their index on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.simulated.fifo import APPLIED, DELIVER, DOWN, ENQUEUE, NODE_DOWN, NODE_UP, NOOP, OK, RESUMED, Fifo
from clusters.simulated.replica import (
    BELIEF,
    COMPACT,
    LOG,
    MONITOR,
    REPLY,
    SEND,
    SYNC,
    TIMER,
    WRITE,
    Message,
    Pid,
    Record,
    Replica,
)

FOLLOWER = "follower"
PRE_VOTE = "pre-vote"
CANDIDATE = "candidate"
LEADER = "leader"

# Messages between replicas
APPEND = 0  # term, previous index, previous term, entries, commit index
APPENDED = 1  # term, success, index: matches up to here; or else: send from here
VOTE = 2  # term, last index, last term
VOTED = 3  # term, granted
ASK = 4  # pre-vote: term, last index, last term
ASKED = 5  # pre-vote: term, granted
INSTALL = 6  # term, index, term of index, machine state

# Requests that are not commands, as no log entry is made of them: (kind, pid, 0, a, b)
RESUME = 100  # a = consumer tag, b = delivery number: send again what it holds from there on
WHO = 101  # who leads?

# What a channel gets, beside what `fifo` sends it
LEADS = 3  # (LEADS, leader or None, term): the answer to WHO, and to a command that another must be asked
CHANGED = 4  # (CHANGED, leader, term): a new leader is ready: send it what is pending, and resume

# Journal records
META = 0
ENTRIES = 1
SNAPSHOT = 2

ELECTION_TIMER = 0
HEARTBEAT_TIMER = 1

BATCH = 512  # entries in one message
WINDOW = 8192  # entries sent to a follower and not yet known to be there
MISSED = 3  # heartbeats without an answer after which the mutation below takes a follower for lost

MUTATIONS = (
    "none",
    "confirm-before-commit",
    "no-fsync",
    "vote-twice",
    "ignore-log-up-to-date",
    "serve-after-losing-majority",
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in ns. `election`: a follower waits once to twice as long; `hurry`: at most so long after the connection
    to its leader is lost. `snapshot`: entries applied between snapshots. `mutation`: the rule that is broken."""

    election: int
    hurry: int
    heartbeat: int
    snapshot: int
    mutation: str = "none"


class Peer:
    """What a leader knows of a follower."""

    __slots__ = ("match", "missed", "next", "probing", "sent")

    def __init__(self, next_: int) -> None:
        self.next = next_
        self.match = 0
        self.probing = True  # it is not known yet where its log meets ours: one message at a time
        self.sent = False  # something was, since the last heartbeat
        self.missed = 0  # heartbeats since it was heard


class Raft(Replica):
    """One member of a group, on node `me`; `members` are all nodes of the group."""

    __slots__ = (
        "_again", "_base", "_base_term", "_commit", "_durable", "_epoch", "_held", "_log", "_meta", "_meta_durable",
        "_noop", "_patience", "_peers", "_rules", "_saved", "_syncing", "_unflushed", "_verified", "_votes", "_written", "applied",
        "connected", "last", "leader", "machine", "majority", "me", "members", "ready", "role", "term", "voted",
    )  # fmt: skip

    def __init__(self, me: str, members: Sequence[str], machine: Fifo, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.members = tuple(members)
        self.majority = len(members) // 2 + 1
        self.machine = machine
        self._rules = rules
        self.role = FOLLOWER
        self.leader: str | None = None
        self.connected: dict[str, None] = {}
        self.ready = False  # as leader: the no-op that it began with is applied
        self._peers = {node: Peer(1) for node in members if node != me}
        self._votes: dict[str, None] = {}
        # durable state, as the journal has it
        self.term = 0
        self.voted: str | None = None
        self._log: list[tuple[int, tuple[Any, ...]]] = []  # entries after the snapshot
        self._base = 0  # the snapshot covers entries up to here
        self._base_term = 0
        self._saved: tuple[Any, ...] = machine.snapshot()
        self.last = 0
        # where we are in it
        self._written = 0  # in the journal up to here (a leader gathers entries before it writes them)
        self._durable = 0  # synced up to here
        self._verified = 0  # known to be as the leader has it, up to here
        self._commit = 0
        self.applied = 0
        self._noop = 0
        self._epoch = 0  # how often the log was cut back; a sync from before says nothing of what came after
        self._meta = 0  # how often term or vote was written,
        self._meta_durable = 0  # and synced
        self._held: list[tuple[str, Message]] = []  # messages that wait until term and vote are durable
        self._syncing = False
        self._unflushed = False
        self._patience = rules.election
        self._again = (TIMER, ELECTION_TIMER, rules.election)

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        for record in records:
            self._replay(record)
        self._written = self._durable = self.last
        self._commit = self.applied = self._base
        self.machine.restore(self._saved)
        self._draw(draw)
        self.effects.append(self._again)
        self._believe()

    def message(self, source: str, message: Message) -> None:
        tag = message[0]
        if tag == APPEND:
            self._on_append(source, message)
        elif tag == APPENDED:
            self._on_appended(source, message)
        elif tag == ASK:
            self._on_ask(source, message)
        elif tag == VOTE:
            self._on_vote(source, message)
        elif tag == INSTALL:
            self._on_install(source, message)
        elif tag == ASKED or tag == VOTED:
            _, term, granted = message
            if term > self.term:
                self._follow(term, None)
            elif granted and term == self.term and self.role == (PRE_VOTE if tag == ASKED else CANDIDATE):
                self._votes[source] = None
                self._count_votes()

    def request(self, pid: Pid, request: Message) -> None:
        kind = request[0]
        if kind == WHO or self.role != LEADER:
            self.effects.append((REPLY, pid, (LEADS, self.leader, self.term)))
            return
        if kind == RESUME:
            if self.ready:
                held = self.machine.checked_out(pid, request[3], request[4])
                if held is not None:
                    self.effects.append((REPLY, pid, (RESUMED, request[3], *held)))
            return
        self._command(request)
        if kind == ENQUEUE and self._rules.mutation == "confirm-before-commit":
            self.effects.append((REPLY, pid, (APPLIED, [(request[2], OK)])))

    def timer(self, name: int, draw: float) -> None:
        if name == HEARTBEAT_TIMER:
            if self.role == LEADER:
                self._heartbeat()
        elif self.role != LEADER:
            self._draw(draw)
            self._ask_for_votes()

    def synced(self, token: Any) -> None:
        index, epoch, meta = token
        self._syncing = False
        if epoch == self._epoch and index > self._durable:
            self._durable = index
        if meta > self._meta_durable:
            self._meta_durable = meta
            if meta == self._meta:
                self.effects.extend((SEND, node, message) for node, message in self._held)
                self._held.clear()
                if self.role == CANDIDATE:
                    self._votes[self.me] = None
                    self._count_votes()
        if self.role == LEADER:
            self._advance()
        elif self.leader is not None:
            self._acknowledge()

    def up(self, node: str) -> None:
        self.connected[node] = None
        if self.role != LEADER:
            return
        peer = self._peers.get(node)
        if peer is not None:
            peer.next = peer.match + 1
            peer.probing = True
            self._send_entries(node, peer)
        if self.ready:
            if any(key[0][0] == node and not consumer.up for key, consumer in self.machine.consumers.items()):
                self._command((NODE_UP, None, 0, node, None))
            self._announce(pid for pid in self.machine.pids() if pid[0] == node)

    def down(self, node: str, draw: float) -> None:
        self.connected.pop(node, None)
        if self.role == LEADER:
            if self.ready:
                self._suspect(node)
        elif node == self.leader:
            self.effects.append((TIMER, ELECTION_TIMER, int(self._rules.hurry * draw)))

    def ended(self, pid: Pid) -> None:
        if self.role == LEADER:
            self._command((DOWN, pid, 0, None, None))

    def flush(self) -> None:
        """A leader writes, syncs and sends what it was asked for, all of it together; while a sync is under way, what
        comes waits for the next one."""
        if not self._unflushed or self._syncing:
            return
        self._unflushed = False
        first = self._written + 1
        self.effects.append((WRITE, (ENTRIES, first, self._log[first - self._base - 1 :])))
        self._written = self.last
        for node, peer in self._peers.items():
            if not peer.probing:
                self._send_entries(node, peer)
        self._syncing = True
        self._sync()

    # --- elections

    def _draw(self, draw: float) -> None:
        self._patience = int(self._rules.election * (1.0 + draw))
        self._again = (TIMER, ELECTION_TIMER, self._patience)

    def _believe(self) -> None:
        self.effects.append((BELIEF, self.role, self.term))

    def _save_meta(self) -> None:
        self._meta += 1
        self.effects.append((WRITE, (META, self.term, self.voted)))
        self._sync()

    def _sync(self) -> None:
        token = (self._written, self._epoch, self._meta)
        if self._rules.mutation == "no-fsync":
            self.synced(token)
        else:
            self.effects.append((SYNC, token))

    def _send(self, node: str, message: Message) -> None:
        """Send what promises something about term and vote: not before they are durable."""
        if self._meta_durable == self._meta:
            self.effects.append((SEND, node, message))
        else:
            self._held.append((node, message))

    def _follow(self, term: int, leader: str | None) -> None:
        """Step down, or on to a newer term; `leader` where it is known who leads it."""
        if self.role == LEADER:
            self.effects.append((LOG, "notice", f"steps down as leader of term {self.term}"))
            self.machine.leading = False
            self.ready = False
            if self._written < self.last:  # never written, never sent: forgotten
                self._cut_back(self._written + 1)
            self._unflushed = False
        self.role = FOLLOWER
        self.leader = leader
        self._verified = 0
        if term > self.term:
            self.term = term
            self.voted = None
            self._held.clear()
            self._save_meta()
        self.effects.append(self._again)
        self._believe()

    def _last_term(self) -> int:
        return self._log[-1][0] if self._log else self._base_term

    def _up_to_date(self, last: int, last_term: int) -> bool:
        """Whether a candidate's log is at least as new as ours: the rule that keeps committed entries."""
        if self._rules.mutation == "ignore-log-up-to-date":
            return True
        return (last_term, last) >= (self._last_term(), self.last)

    def _ask_for_votes(self) -> None:
        self.role = PRE_VOTE
        self.leader = None
        self._votes = {self.me: None}
        self.effects.append(self._again)
        self._believe()
        for node in self._peers:
            self._send(node, (ASK, self.term, self.last, self._last_term()))
        self._count_votes()

    def _on_ask(self, source: str, message: Message) -> None:
        _, term, last, last_term = message
        if self.role == LEADER and term <= self.term:
            self._send_entries(source, self._peers[source], assert_=True)
            return
        if term > self.term:
            self._follow(term, None)
        self._send(source, (ASKED, self.term, term == self.term and self._up_to_date(last, last_term)))

    def _stand(self) -> None:
        self.role = CANDIDATE
        self.term += 1
        self.voted = self.me
        self._votes = {}
        self._held.clear()
        self._believe()
        self.effects.append(self._again)
        self._meta += 1
        self.effects.append((WRITE, (META, self.term, self.voted)))
        for node in self._peers:
            self._send(node, (VOTE, self.term, self.last, self._last_term()))
        self._sync()

    def _on_vote(self, source: str, message: Message) -> None:
        _, term, last, last_term = message
        if term > self.term:
            self._follow(term, None)
        free = self.voted is None or self.voted == source or self._rules.mutation == "vote-twice"
        granted = term == self.term and free and self._up_to_date(last, last_term)
        if granted:
            if self.voted != source:
                self.voted = source
                self._save_meta()
            self.effects.append(self._again)
        self._send(source, (VOTED, self.term, granted))

    def _count_votes(self) -> None:
        if len(self._votes) >= self.majority:
            if self.role == PRE_VOTE:
                self._stand()
            elif self.role == CANDIDATE:
                self._lead()

    def _lead(self) -> None:
        self.role = LEADER
        self.leader = self.me
        self.machine.leading = True
        self.ready = False
        self._believe()
        self.effects.append((LOG, "notice", f"leads term {self.term} from index {self.last}"))
        for peer in self._peers.values():
            peer.next = self.last + 1
            peer.match = 0
            peer.probing = True
            peer.missed = 0
        self._command((NOOP, None, 0, None, None))
        self._noop = self.last
        self._syncing = False
        self.flush()
        self._heartbeat()

    def _heartbeat(self) -> None:
        for node, peer in self._peers.items():
            peer.missed += 1
            if not peer.sent or peer.probing:
                self._send_entries(node, peer, assert_=True)
            peer.sent = False
        self.effects.append((TIMER, HEARTBEAT_TIMER, self._rules.heartbeat))
        if self._rules.mutation == "serve-after-losing-majority":
            self._advance()

    # --- the leader's log

    def _command(self, command: tuple[Any, ...]) -> None:
        self._log.append((self.term, command))
        self.last += 1
        self._unflushed = True

    def _term_at(self, index: int) -> int:
        return self._base_term if index == self._base else self._log[index - self._base - 1][0]

    def _send_entries(self, node: str, peer: Peer, assert_: bool = False) -> None:
        """Send what the follower lacks, as far as the window goes; with `assert_` even if that is nothing."""
        base = self._base
        if peer.next <= base:
            peer.sent = peer.probing = True
            self.effects.append((SEND, node, (INSTALL, self.term, base, self._base_term, self._saved)))
            return
        previous = peer.next - 1
        entries: list[Any] = []
        if previous < self._written and previous - peer.match < WINDOW:
            start = previous - base
            entries = self._log[start : min(start + BATCH, self._written - base)]
        elif not assert_:
            return
        previous_term = self._base_term if previous == base else self._log[previous - base - 1][0]
        self.effects.append((SEND, node, (APPEND, self.term, previous, previous_term, entries, self._commit)))
        peer.sent = True
        if not peer.probing:
            peer.next += len(entries)

    def _on_appended(self, source: str, message: Message) -> None:
        _, term, success, index = message
        if term > self.term:
            self._follow(term, None)
            return
        if self.role != LEADER or term < self.term:
            return
        peer = self._peers[source]
        peer.missed = 0
        if success:
            if index > peer.match:
                peer.match = index
            if peer.probing:
                peer.probing = False
                peer.next = peer.match + 1
            elif peer.next <= peer.match:
                peer.next = peer.match + 1
            if index > self._commit:
                self._advance()
            if peer.next <= self._written:
                self._send_entries(source, peer)
        else:
            peer.next = min(index, peer.next)
            peer.match = min(peer.match, peer.next - 1)
            peer.probing = True
            self._send_entries(source, peer)

    def _advance(self) -> None:
        """Commit what a majority has synced; entries of earlier terms only along with one of ours."""
        indices = [self._durable, *[peer.match for peer in self._peers.values()]]
        majority = self.majority
        if self._rules.mutation == "serve-after-losing-majority":
            indices = indices[:1] + [peer.match for peer in self._peers.values() if peer.missed <= MISSED]
            majority = min(majority, len(indices))
        indices.sort(reverse=True)
        index = indices[majority - 1]
        if index > self._commit and self._term_at(index) == self.term:
            self._commit = index
            self._apply()

    # --- the follower's log

    def _on_append(self, source: str, message: Message) -> None:
        _, term, previous, previous_term, entries, commit = message
        if term < self.term:
            self._send(source, (APPENDED, self.term, False, self.last + 1))
            return
        if term > self.term or self.leader != source:
            if self.role == LEADER and term == self.term:
                self.effects.append((LOG, "error", f"{source} leads term {term} as well"))
                return
            self._follow(term, source)
        else:
            self.effects.append(self._again)
        last = self.last
        if previous > last:
            self._send(source, (APPENDED, term, False, last + 1))
            return
        base = self._base
        if previous < base:  # what the snapshot covers is as every leader has it
            entries = entries[base - previous :]
            previous = base
        elif previous > base and self._log[previous - base - 1][0] != previous_term:
            self._send(source, (APPENDED, term, False, self._first_of_term(previous)))
            return
        if entries and previous < last:
            place = previous - base
            for entry in entries:  # skip what is there already; cut back what conflicts
                if place < len(self._log) and self._log[place][0] == entry[0]:
                    place += 1
                else:
                    break
            entries = entries[place - (previous - base) :]
            previous = base + place
            if entries and previous < last:
                self._cut_back(previous + 1)
        if entries:
            self._log.extend(entries)
            self.last = self._written = previous + len(entries)
            self.effects.append((WRITE, (ENTRIES, previous + 1, entries)))
        upto = previous + len(entries)
        if upto > self._verified:
            self._verified = upto
        if commit > self._verified:
            commit = self._verified
        if commit > self._commit:
            self._commit = commit
            self._apply()
        if entries:
            self._sync()
        else:
            self._acknowledge()

    def _acknowledge(self) -> None:
        leader = self.leader
        if leader is not None and self._verified:
            self._send(leader, (APPENDED, self.term, True, min(self._durable, self._verified)))

    def _first_of_term(self, index: int) -> int:
        """The first index of the term that the entry at `index` has: a leader need not step back one by one."""
        term = self._term_at(index)
        while index - 1 > max(self._base, self._commit) and self._term_at(index - 1) == term:
            index -= 1
        return index

    def _cut_back(self, index: int) -> None:
        """Forget the entries from `index` on."""
        del self._log[index - self._base - 1 :]
        self.last = index - 1
        if index <= self._written:
            self._epoch += 1
            self._written = self.last
        self._durable = min(self._durable, self.last)
        self._verified = min(self._verified, self.last)
        if index <= self._commit:
            self.effects.append((LOG, "error", f"entries from index {index} on are overwritten, committed ones ({self._commit}) among them"))
            self._commit = self.applied = self._base
            self.machine.restore(self._saved)

    def _on_install(self, source: str, message: Message) -> None:
        _, term, index, index_term, state = message
        if term < self.term:
            self._send(source, (APPENDED, self.term, False, self.last + 1))
            return
        if term > self.term or self.leader != source:
            self._follow(term, source)
        else:
            self.effects.append(self._again)
        if index > self._commit:
            if index < self.last and index > self._base and self._term_at(index) == index_term:
                del self._log[: index - self._base]
            else:
                self._log = []
                self.last = index
                self._epoch += 1
            self._base, self._base_term, self._saved = index, index_term, state
            self._written = self.last
            self._durable = max(min(self._durable, self.last), index)
            self._commit = self.applied = index
            self.machine.restore(state)
            self._compact_journal()
            self.effects.append((LOG, "notice", f"installs the snapshot of index {index} from {source}"))
        self._verified = max(self._verified, index)
        self._acknowledge()

    # --- the machine

    def _apply(self) -> None:
        machine = self.machine
        apply = machine.apply
        start = self.applied - self._base
        index = self.applied
        for _, command in self._log[start : self._commit - self._base]:
            index += 1
            apply(index, command)
        self.applied = index
        if machine.leading:
            self._emit()
            if not self.ready and index >= self._noop:
                self.ready = True
                self._announce(machine.pids())
                for node in dict.fromkeys(pid[0] for pid in machine.pids()):
                    if node != self.me and node not in self.connected:
                        self._suspect(node)
        if index - self._base >= self._rules.snapshot:
            self._compact()

    def _emit(self) -> None:
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

    def _announce(self, pids: Iterable[Pid]) -> None:
        for pid in pids:
            self.effects.append((REPLY, pid, (CHANGED, self.me, self.term)))
            self.effects.append((MONITOR, pid))

    def _suspect(self, node: str) -> None:
        if any(key[0][0] == node and consumer.up for key, consumer in self.machine.consumers.items()):
            self._command((NODE_DOWN, None, 0, node, None))

    def _compact(self) -> None:
        """Keep the machine's state in place of the entries that led to it."""
        index = self.applied
        self._base_term = self._term_at(index)
        del self._log[: index - self._base]
        self._base = index
        self._saved = self.machine.snapshot()
        self._durable = max(self._durable, index)
        self._compact_journal()

    def _compact_journal(self) -> None:
        records: list[Record] = [(SNAPSHOT, self._base, self._base_term, self._saved), (META, self.term, self.voted)]
        kept = self._log[: self._durable - self._base]
        if kept:
            records.append((ENTRIES, self._base + 1, kept))
        self.effects.append((COMPACT, records))

    def _replay(self, record: Record) -> None:
        kind = record[0]
        if kind == META:
            _, self.term, self.voted = record
        elif kind == SNAPSHOT:
            _, self._base, self._base_term, self._saved = record
            self._log = []
            self.last = self._base
        else:
            _, first, entries = record
            if first <= self._base:
                entries = entries[self._base + 1 - first :]
                first = self._base + 1
            if entries and first <= self.last + 1:
                del self._log[first - self._base - 1 :]
                self._log.extend(entries)
                self.last = self._base + len(self._log)

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        return (
            self.role, self.leader, self.term, self.voted, tuple(self._log), self._base, self._base_term, self._saved, self.last,
            self._written, self._durable, self._verified, self._commit, self.applied, self._noop, self.ready, self._epoch,
            self._meta, self._meta_durable, tuple(self._held), self._syncing, self._unflushed, self._patience, tuple(self._votes),
            tuple(self.connected),
            tuple((node, p.next, p.match, p.probing, p.sent, p.missed) for node, p in self._peers.items()),
            self.machine.snapshot(), self.machine.leading,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            self.role, self.leader, self.term, self.voted, log, self._base, self._base_term, self._saved, self.last,
            self._written, self._durable, self._verified, self._commit, self.applied, self._noop, self.ready, self._epoch,
            self._meta, self._meta_durable, held, self._syncing, self._unflushed, self._patience, votes, connected,
            peers, machine, leading,
        ) = state  # fmt: skip
        self._log, self._held = list(log), list(held)
        self._votes, self.connected = dict.fromkeys(votes), dict.fromkeys(connected)
        self._again = (TIMER, ELECTION_TIMER, self._patience)
        for node, next_, match, probing, sent, missed in peers:
            peer = self._peers[node]
            peer.next, peer.match, peer.probing, peer.sent, peer.missed = next_, match, probing, sent, missed
        self.machine.restore(machine)
        self.machine.leading = leading
        self.effects.clear()
