"""A LavinMQ node and etcd: its lease, its candidacy, whom it takes for the leader, and when it gives up and exits.

After LavinMQ's source (clustering/controller.cr, etcd.cr; 2.1 and 2.9): a node that is in the in-sync set, or finds
none, takes a lease and puts a candidate's key under it; the key with the lowest create-revision leads, and that
revision is the term. Whoever cannot renew its lease ends its process. What is simpler than there: 2.1 also keeps a
candidate waiting whose lease is gone, and 2.9 takes the lease before it waits to be in sync.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from chaos.kernel.clock import MILLISECOND
from clusters.simulated.etcd import keyvalue, member
from clusters.simulated.etcd.keyvalue import Item
from clusters.simulated.lavinmq.rules import (
    AGAIN,
    CANDIDATES,
    FOLLOWER,
    ISR,
    KEEPALIVE,
    LEADER,
    LEASE,
    NO_ENDPOINT,
    PREFIX,
    REQUESTS,
    WATCH_AGAIN,
    WATCHING,
    Rules,
)
from clusters.simulated.replica import BELIEF, CONNECT, EXIT, LOG, SEND, TIMER, Message, Replica

SOON = 100 * MILLISECOND  # pause before a request to etcd is sent again

# What a request is for
_WATCH, _GRANT, _CAMPAIGN, _RENEW, _INSYNC, _RELEASE = "watch", "grant", "campaign", "renew", "in-sync set", "release"

LOST, UNREACHABLE = 3, 1  # exit codes: leadership lost, etcd cannot be reached


class Candidate(Replica):
    """Node `me` of `members`. `target`: who leads, as far as it knows; `term`: that one's create-revision."""

    __slots__ = (
        "_asked", "_granting", "_key", "_late", "_lease", "_links", "_number", "_seen", "leading", "me", "members",
        "rules", "target", "term",
    )  # fmt: skip

    def __init__(self, me: str, members: Sequence[str], rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.members = tuple(members)
        self.rules = rules
        self.leading = False
        self.target: str | None = None
        self.term = 0
        self._seen: dict[str, Item] | None = None  # the keys, as the watch tells them
        self._lease = 0
        self._granting = False
        self._key = ""
        self._links: dict[str, None] = {}
        self._asked: dict[int, tuple[str, Message, str]] = {}  # number -> connection, request, what it is for
        self._late: dict[int, None] = {}  # of those, what must be sent again
        self._number = 0

    @abstractmethod
    def _lead(self) -> None:
        """We lead from now on, in `term`."""

    @abstractmethod
    def _follow(self) -> None:
        """`target` leads from now on, in `term`."""

    @abstractmethod
    def in_sync_set_written(self, written: bool) -> None:
        """The in-sync set is in etcd; or it was not written, because another leads."""

    # --- what happens

    def _begin(self) -> None:
        self.effects.append((BELIEF, FOLLOWER, self.term))
        self._watch()

    def _from_etcd(self, link: str, message: Message) -> None:
        tag = message[0]
        if tag == NO_ENDPOINT:
            if not self.leading or any(asked[0] == link for asked in self._asked.values()):
                self.exit(LOST if self.leading else UNREACHABLE, "no etcd endpoint responded")
        elif tag in (member.EVENTS, member.AGAIN):
            self._watched(tag, message[2])
        elif message[1] in self._asked:
            if tag == member.UNAVAILABLE:
                self._unavailable(message[1], message[2])
            else:
                _, _, purpose = self._asked.pop(message[1])
                self._late.pop(message[1], None)
                self._answered(purpose, message[2])

    def _linked(self, link: str) -> None:
        self._links[link] = None
        for asked, request, _ in self._asked.values():
            if asked == link:
                self.effects.append((SEND, link, request))

    def _unlinked(self, link: str) -> None:
        self._links.pop(link, None)
        if link == WATCHING:
            if not self.leading:
                self.effects.append((TIMER, WATCH_AGAIN, SOON))
        elif any(asked[0] == link for asked in self._asked.values()):
            self.effects.append((TIMER, AGAIN, SOON))

    def _etcd_timer(self, name: int) -> None:
        if name == KEEPALIVE:
            self._ask(keyvalue.RENEW, self._lease, None, _RENEW, LEASE)
        elif name == WATCH_AGAIN:
            self._watch()
        else:
            for number, (link, request, _) in self._asked.items():
                if link not in self._links:
                    self.effects.append((CONNECT, link))
                elif number in self._late:
                    self.effects.append((SEND, link, request))
            self._late.clear()

    def _release(self) -> None:
        """Give the lease back: another may lead at once."""
        if self._lease:
            self._ask(keyvalue.REVOKE, self._lease, None, _RELEASE)

    def write_in_sync_set(self, nodes: tuple[str, ...]) -> None:
        """As leader: write the in-sync set; `in_sync_set_written` follows, sooner or later."""
        if self.rules.fenced:
            self._ask(keyvalue.TXN, (self._key, self.term), (ISR, nodes, 0), _INSYNC)
        else:
            self._ask(keyvalue.PUT, ISR, (nodes, 0), _INSYNC)

    def exit(self, code: int, why: str) -> None:
        self.effects.append((LOG, "warning", why))
        self.effects.append((EXIT, code, why))

    # --- the whole state

    def _candidacy(self) -> tuple[Any, ...]:
        seen = None if self._seen is None else tuple(self._seen.items())
        return (
            self.leading, self.target, self.term, seen, self._lease, self._granting, self._key, tuple(self._links),
            tuple(self._asked.items()), tuple(self._late), self._number,
        )  # fmt: skip

    def _restore_candidacy(self, state: tuple[Any, ...]) -> None:
        (
            self.leading, self.target, self.term, seen, self._lease, self._granting, self._key, links, asked, late,
            self._number,
        ) = state  # fmt: skip
        self._seen = None if seen is None else dict(seen)
        self._links, self._asked, self._late = dict.fromkeys(links), dict(asked), dict.fromkeys(late)
        self.effects.clear()

    # --- requests

    def _ask(self, kind: int, a: Any, b: Any, purpose: str, link: str = REQUESTS) -> None:
        self._number = number = self._number + 1
        request = (kind, number, a, b)
        self._asked[number] = (link, request, purpose)
        self.effects.append((SEND, link, request) if link in self._links else (CONNECT, link))

    def _watch(self) -> None:
        self._asked = {number: asked for number, asked in self._asked.items() if asked[2] != _WATCH}
        self._ask(keyvalue.WATCH, PREFIX, None, _WATCH, WATCHING)

    def _unavailable(self, number: int, why: str) -> None:
        link, _, purpose = self._asked[number]
        if why == member.NO_LEADER and purpose != _INSYNC:
            self.exit(LOST if self._lease else UNREACHABLE, f"{purpose}: {why}")
        elif link == WATCHING:
            self.effects.append((TIMER, WATCH_AGAIN, SOON))
        else:
            self._late[number] = None
            self.effects.append((TIMER, AGAIN, SOON))

    def _answered(self, purpose: str, answer: Any) -> None:
        if purpose == _WATCH:
            self._watched(member.AGAIN, answer)
        elif purpose == _GRANT:
            self._granting = False
            self._lease = answer
            self._key = f"{CANDIDATES}{answer}"
            self.effects.append((TIMER, KEEPALIVE, self.rules.keepalive))
            self._ask(keyvalue.TXN, (self._key, 0), (self._key, self.me, answer), _CAMPAIGN)
        elif purpose == _RENEW:
            if answer:
                self.effects.append((TIMER, KEEPALIVE, self.rules.keepalive))
            else:
                self.exit(LOST, "lease expired, lost cluster leadership")
        elif purpose == _INSYNC:
            self.in_sync_set_written(answer is not None)

    def _watched(self, tag: int, news: Any) -> None:
        if tag == member.AGAIN:
            self._seen = dict(news)
        elif self._seen is not None:
            for _, key, item in news:
                if item is None:
                    self._seen.pop(key, None)
                else:
                    self._seen[key] = item
        if self._seen is not None and not self.leading:
            self._look(self._seen)

    def _look(self, keys: dict[str, Item]) -> None:
        """Stand, lead or follow, by what is in etcd."""
        in_sync = keys.get(ISR)
        known_in_sync = in_sync is None or self.me in in_sync.value
        if not self._lease and not self._granting and known_in_sync:
            self._granting = True
            self._ask(keyvalue.GRANT, self.rules.ttl, None, _GRANT, LEASE)
        candidates = [(item.create, key, item.value) for key, item in keys.items() if key.startswith(CANDIDATES)]
        if not candidates:
            return
        term, key, node = min(candidates)
        if key != self._key:
            if term > self.term and node != self.me:  # a key of our own is one of an earlier life
                self.target, self.term = node, term
                self.effects.append((BELIEF, FOLLOWER, term))
                self._follow()
        elif known_in_sync or self.rules.unsynced:
            self.leading, self.target, self.term = True, self.me, term
            self.effects.append((LOG, "notice", f"leads, create-revision {term}"))
            self.effects.append((BELIEF, LEADER, term))
            self._lead()
        else:
            self._release()
            self.exit(LOST, "won the election but is not in the in-sync set, stepping down")
