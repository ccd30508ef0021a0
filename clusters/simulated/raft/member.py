"""Raft as RabbitMQ's quorum queues run it (the `ra` library), as a pure state machine.

After Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), with what ra does on top:
pre-vote without regard to a living leader (a leader answers a pre-vote by asserting itself), elections soon after a
leader's connection is lost, pipelined AppendEntries, and one write-ahead log whose sync covers many entries. Term and
vote are durable before anyone hears of them; an entry counts for the commit only where it has been synced.

Entries are (term, command); what a command is, the machine knows. One kind is Raft's own: who belongs to the group, one
node more or fewer than before, from the moment on when the entry is in the log, committed or not (the dissertation,
"Consensus: Bridging Theory and Practice", sections 4.1 and 4.2.2). A leader takes the next change only when the one
before is committed, and an entry of its own term.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from clusters.simulated.raft.elections import Elections
from clusters.simulated.raft.log import ENTRIES, META, SNAPSHOT, Entry, Outlives, RaftLog
from clusters.simulated.raft.machine import MEMBERS, NOOP, Command, Machine
from clusters.simulated.raft.rules import (
    APPEND,
    APPENDED,
    ASK,
    BATCH,
    ELECTION_TIMER,
    GIVES_WAY,
    HEARTBEAT_TIMER,
    INSTALL,
    LEADER,
    MISSED,
    STAND,
    VOTE,
    WINDOW,
    Peer,
    Rules,
)  # fmt: skip
from clusters.simulated.replica import (
    COMPACT,
    LOG,
    SEND,
    TIMER,
    WRITE,
    Message,
    Record,
)

M = TypeVar("M", bound=Machine)


class Raft(Elections, Generic[M]):
    """One member of a group, on node `me`; `members` are all nodes of the group, as far as it is told before its log
    says more: nobody, where it is yet to be taken in."""

    __slots__ = (
        "_changes", "_noop", "_patient", "_peers", "_syncing", "_unflushed", "_verified", "applied", "commit",
        "machine", "ready",
    )  # fmt: skip

    def __init__(self, me: str, members: Sequence[str], machine: M, rules: Rules) -> None:
        super().__init__(me, members, RaftLog((tuple(members), machine.snapshot())), rules)
        self.machine = machine
        self.ready = False  # as leader: the no-op that it began with is applied
        self.commit = 0
        self.applied = 0
        self._peers = {node: Peer(1) for node in self.others}
        self._changes: list[tuple[int, tuple[str, ...]]] = []  # after the snapshot: who belongs, from which entry on
        self._patient = 0  # as a leader that gives way: for so many heartbeats more
        self._verified = 0  # known to be as the leader has it, up to here
        self._noop = 0
        self._syncing = False
        self._unflushed = False

    # --- events

    def start(self, records: Iterable[Record], draw: float) -> None:
        for record in records:
            if record[0] == META:
                if self.rules.mutation != "forget-term":
                    _, self.term, self.voted = record
            else:
                self.log.replay(record)
        self.commit = self.applied = self.log.base
        self.machine.restore(self.log.saved[1])
        self._regroup()
        self.log.durable = self.log.base
        if self.log.last or self.term:  # what a killed process wrote is there, but perhaps only in the kernel's memory
            self._meta += 1
            self._sync()
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
        elif tag == STAND:
            if message[1] == self.term and self.role != LEADER and self._may_stand():
                self._ask_for_votes()
        else:
            self._on_answer(source, message)

    def timer(self, name: int, draw: float) -> None:
        if name == HEARTBEAT_TIMER:
            if self.role == LEADER:
                self._heartbeat()
        elif self.role != LEADER:
            self._draw(draw)
            if self._may_stand():
                self._ask_for_votes()
            else:
                self.effects.append(self._again)

    def synced(self, token: Any) -> None:
        index, epoch, meta = token
        self._syncing = False
        if epoch == self.log.epoch and index > self.log.durable:
            self.log.durable = index
        self._meta_synced(meta)
        if self.role == LEADER:
            self._advance()
        elif self.leader is not None:
            self._acknowledge()

    def up(self, node: str) -> None:
        super().up(node)
        if self.role != LEADER:
            return
        peer = self._peers.get(node)
        if peer is not None:
            peer.next = peer.match + 1
            peer.probing = True
            self._send_entries(node, peer)

    def flush(self) -> None:
        """A leader writes, syncs and sends what it was asked for, all of it together; while a sync is under way, what
        comes waits for the next one."""
        if not self._unflushed or self._syncing or self.gives_way_to is not None:
            return
        self._unflushed = False
        log = self.log
        self.effects.append((WRITE, (ENTRIES, log.written + 1, log.between(log.written, log.last))))
        log.written = log.last
        for node, peer in self._peers.items():
            if not peer.probing:
                self._send_entries(node, peer)
        self._syncing = True
        self._sync()

    # --- leading, and no longer

    def _follow(self, term: int, leader: str | None) -> None:
        if self.role == LEADER:
            self.effects.append((LOG, "notice", f"steps down as leader of term {self.term}"))
            self.machine.leading = False
            self.ready = False
            if self.log.written < self.log.last:  # never written, never sent: forgotten
                self._discard(self.log.written + 1)
            self._unflushed = False
            self.gives_way_to = None
        self._verified = 0
        super()._follow(term, leader)

    def _lead(self) -> None:
        self.role = LEADER
        self.leader = self.me
        self.machine.leading = True
        self.ready = False
        self._believe()
        self.effects.append((LOG, "notice", f"leads term {self.term} from index {self.log.last}"))
        for peer in self._peers.values():
            peer.next = self.log.last + 1
            peer.match = 0
            peer.probing = True
            peer.missed = 0
        self.propose(NOOP)
        self._noop = self.log.last
        self._syncing = False
        self.flush()
        self._heartbeat()

    def _assert(self, node: str) -> None:
        if (peer := self._peers.get(node)) is not None:  # who does not belong to the group any more may ask for ever
            self._send_entries(node, peer, assert_=True)

    def _heartbeat(self) -> None:
        if self.gives_way_to is not None:
            self._patient -= 1
            if not self._patient:
                self.gives_way_to = None
        for node, peer in self._peers.items():
            peer.missed += 1
            if not peer.sent or peer.probing:
                self._send_entries(node, peer, assert_=True)
            peer.sent = False
        self.effects.append((TIMER, HEARTBEAT_TIMER, self.rules.heartbeat))
        if self.rules.mutation == "serve-after-losing-majority":
            self._advance()

    def give_way(self, node: str) -> bool:
        """As leader: tell another member to stand for election, and say nothing until it leads, or some heartbeats have
        gone by. Whether it was told: not one that has not been sent all."""
        peer = self._peers.get(node)
        if peer is None or peer.probing or peer.next <= self.log.written:
            return False
        self.gives_way_to, self._patient = node, GIVES_WAY
        self.effects.append((LOG, "notice", f"gives way to {node}"))
        self.effects.append((SEND, node, (STAND, self.term)))
        return True

    # --- who belongs to the group

    @property
    def settled(self) -> bool:
        """Whether who belongs to the group is committed."""
        return not self._changes or self._changes[-1][0] <= self.commit

    def _may_stand(self) -> bool:
        """Not one that is yet to be taken in, or to learn that it was; nor one that has left for good."""
        return (self.log.last_term, self.log.last) >= self.since and (self.me in self.members or not self.settled)

    def change(self, members: Sequence[str]) -> bool:
        """As leader: this is to be the group, one node more or fewer. Whether it was put into the log: not while the
        change before is under way, nor before an entry of our own term is committed."""
        if self.rules.mutation != "many-changes-at-once" and not (self.ready and self.settled):
            return False
        assert members, "somebody has to stay"
        self.effects.append((LOG, "notice", f"the group is to be {', '.join(members)}"))
        self.propose((MEMBERS, None, 0, tuple(members), None))
        self._learn(self.log.last, self.log.entries[-1:])
        return True

    def _learn(self, first: int, entries: Sequence[Entry]) -> None:
        """Entries have come into the log, numbered from `first` on."""
        changes = [(first + place, entry[1][3]) for place, entry in enumerate(entries) if entry[1][0] == MEMBERS]
        if changes:
            self._changes += changes
            self._adopt()

    def _discard(self, index: int) -> None:
        """The entries from an index on are no more."""
        self.log.cut_back(index)
        if self._changes and self._changes[-1][0] >= index:
            self._changes = [change for change in self._changes if change[0] < index]
            self._adopt()

    def _regroup(self) -> None:
        """The log is another."""
        self._changes = []
        self._learn(self.log.base + 1, self.log.entries)
        self._adopt()

    def _adopt(self) -> None:
        members = self._changes[-1][1] if self._changes else self.log.saved[0]
        if members != self.members:
            self._belong(members)
            known = self._peers
            self._peers = {node: known.get(node) or Peer(self.log.last + 1) for node in self.others}

    # --- the leader's log

    def propose(self, command: Command) -> None:
        """As leader: a command for the log."""
        self.log.entries.append((self.term, command))
        self.log.last += 1
        self._unflushed = True

    def _send_entries(self, node: str, peer: Peer, assert_: bool = False) -> None:
        """Send what the follower lacks, as far as the window goes; with `assert_` even if that is nothing."""
        if self.gives_way_to is not None:
            return
        log = self.log
        base = log.base
        if peer.next <= base:
            peer.sent = peer.probing = True
            self.effects.append((SEND, node, (INSTALL, self.term, base, log.base_term, log.saved)))
            return
        previous = peer.next - 1
        entries: list[Entry] = []
        if previous < log.written and previous - peer.match < WINDOW:
            entries = log.entries[previous - base : min(previous + BATCH, log.written) - base]
        elif not assert_:
            return
        previous_term = log.base_term if previous == base else log.entries[previous - base - 1][0]
        self.effects.append((SEND, node, (APPEND, self.term, previous, previous_term, entries, self.commit)))
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
        if success and index > self.log.last:
            self.effects.append((LOG, "error", f"{source} has committed what its leader of term {term} lacks"))
            return
        peer = self._peers.get(source)
        if peer is None:
            return
        peer.missed = 0
        if success:
            if index > peer.match:
                peer.match = index
            if peer.probing:
                peer.probing = False
                peer.next = peer.match + 1
            elif peer.next <= peer.match:
                peer.next = peer.match + 1
            if index > self.commit:
                self._advance()
            if peer.next <= self.log.written:
                self._send_entries(source, peer)
        else:
            peer.next = min(index, peer.next)
            peer.match = min(peer.match, peer.next - 1)
            peer.probing = True
            self._send_entries(source, peer)

    def _advance(self) -> None:
        """Commit what a majority has synced; entries of earlier terms only along with one of ours."""
        own = [self.log.durable] if self.me in self.members else []  # one that is to leave does not count itself
        indices = own + [peer.match for peer in self._peers.values()]
        majority = self.majority
        if self.rules.mutation == "serve-after-losing-majority":
            indices = own + [peer.match for peer in self._peers.values() if peer.missed <= MISSED]
            majority = min(majority, len(indices))
        indices.sort(reverse=True)
        index = indices[majority - 1]
        if index > self.commit and self.log.term_at(index) == self.term:
            self.commit = index
            self._apply()

    # --- the follower's log

    def _on_append(self, source: str, message: Message) -> None:
        _, term, previous, previous_term, entries, commit = message
        if term < self.term:
            self._send(source, (APPENDED, self.term, False, self.log.last + 1))
            return
        if term > self.term or self.leader != source:
            if self.role == LEADER and term == self.term:
                self.effects.append((LOG, "error", f"{source} leads term {term} as well"))
                return
            self._follow(term, source)
        else:
            self.effects.append(self._again)
        log = self.log
        last, base = log.last, log.base
        if previous > last:
            self._send(source, (APPENDED, term, False, last + 1))
            return
        if previous < base:  # what the snapshot covers is as every leader has it
            entries = entries[base - previous :]
            previous = base
        elif previous > base and log.entries[previous - base - 1][0] != previous_term:
            self._send(source, (APPENDED, term, False, log.first_of_term(previous, self.commit)))
            return
        if entries and previous < last:
            had = log.between(previous, last)
            same = 0  # skip what is there already; cut back what conflicts
            while same < min(len(had), len(entries)) and had[same][0] == entries[same][0]:
                same += 1
            entries = entries[same:]
            previous += same
            if entries and previous < last:
                self._cut_back(previous + 1)
        if entries:
            log.entries.extend(entries)
            log.last = log.written = previous + len(entries)
            self._learn(previous + 1, entries)
            self.effects.append((WRITE, (ENTRIES, previous + 1, entries)))
        upto = previous + len(entries)
        if upto > self._verified:
            self._verified = upto
        if commit > self._verified:
            commit = self._verified
        if commit > self.commit:
            self.commit = commit
            self._apply()
        if entries:
            self._sync()
        else:
            self._acknowledge()

    def _acknowledge(self) -> None:
        leader = self.leader
        if leader is not None and self._verified:
            self._send(leader, (APPENDED, self.term, True, min(self.log.durable, self._verified)))

    def _cut_back(self, index: int) -> None:
        """Forget entries that the leader does not have."""
        log = self.log
        self._discard(index)
        self._verified = min(self._verified, log.last)
        if index <= self.commit:
            what = f"entries from index {index} on are overwritten, committed ones ({self.commit}) among them"
            self.effects.append((LOG, "error", what))
            self.commit = self.applied = log.base
            self.machine.restore(log.saved[1])

    def _on_install(self, source: str, message: Message) -> None:
        _, term, index, index_term, state = message
        if term < self.term:
            self._send(source, (APPENDED, self.term, False, self.log.last + 1))
            return
        if term > self.term or self.leader != source:
            self._follow(term, source)
        else:
            self.effects.append(self._again)
        if index > self.commit:
            keep = Outlives(index if self.log.follows(index, index_term) else None)
            self.log.install(index, index_term, state)
            self.commit = self.applied = index
            self.machine.restore(state[1])
            self._regroup()
            self._compact(keep)
            self.effects.append((LOG, "notice", f"installs the snapshot of index {index} from {source}"))
        self._verified = max(self._verified, index)
        self._acknowledge()

    # --- the machine

    def _apply(self) -> None:
        machine = self.machine
        apply = machine.apply
        index = self.applied
        for _, command in self.log.between(index, self.commit):
            index += 1
            apply(index, command)
        self.applied = index
        if machine.leading:
            ready = self.ready
            self.ready = index >= self._noop
            self.tell(self.ready and not ready)
        if index - self.log.base >= self.rules.snapshot:
            members = [self.log.saved[0], *(who for at, who in self._changes if at <= index)][-1]
            self.log.compact(index, (members, machine.snapshot()))
            self._changes = [change for change in self._changes if change[0] > index]
            self._compact(Outlives(index))
        if machine.leading and self._changes and self.settled and self.me not in self.members:
            self._follow(self.term, None)

    def _compact(self, keep: Outlives) -> None:
        log = self.log
        self.effects.append((COMPACT, [(SNAPSHOT, log.base, log.base_term, log.saved)], keep))

    @abstractmethod
    def tell(self, new: bool) -> None:
        """As leader: tell channels what the machine now has for them. `new`: we have just become ready to lead."""

    # --- the whole state

    def snapshot(self) -> tuple[Any, ...]:
        peers = tuple((node, p.next, p.match, p.probing, p.sent, p.missed) for node, p in self._peers.items())
        return (
            self.role, self.leader, self.term, self.voted, self.log.snapshot(), self._verified, self.commit,
            self.applied, self._noop, self.ready, self._meta, self._meta_durable, tuple(self._held), self._syncing,
            self._unflushed, self._patience, tuple(self._votes), tuple(self.connected), peers,
            self.machine.snapshot(), self.machine.leading, tuple(self._changes), self.gives_way_to, self._patient,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            self.role, self.leader, self.term, self.voted, log, self._verified, self.commit, self.applied,
            self._noop, self.ready, self._meta, self._meta_durable, held, self._syncing, self._unflushed,
            self._patience, votes, connected, peers, machine, leading, changes, self.gives_way_to, self._patient,
        ) = state  # fmt: skip
        self.log.restore(log)
        self._changes = list(changes)
        self._adopt()
        self._held = list(held)
        self._votes, self.connected = dict.fromkeys(votes), dict.fromkeys(connected)
        self._again = (TIMER, ELECTION_TIMER, self._patience)
        for node, next_, match, probing, sent, missed in peers:
            peer = self._peers[node]
            peer.next, peer.match, peer.probing, peer.sent, peer.missed = next_, match, probing, sent, missed
        self.machine.restore(machine)
        self.machine.leading = leading
        self.effects.clear()
