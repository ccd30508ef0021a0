"""The machine of etcd: committed commands in, keys, revisions, leases and events out. Deterministic.

After etcd's documentation ("Data model", "etcd3 API"): each change of the keys is a revision of the whole store; a key
remembers the revision that created it, and is gone with the lease it is attached to. Every member applies every
command; the one that a client asked answers it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Commands: (kind, pid, corr, a, b), `corr` being the client's own number for the request. Kind 0 changes nothing: a
# new leader of the Raft group begins with it.
PUT = 1  # a = key, b = (value, lease or 0); answer: the revision
DELETE = 2  # a = key; answer: whether it was there
TXN = 3  # a = (key, create revision; 0: there is no such key), b = (key, value, lease): put if that is so; answer:
#          the revision, or None
RANGE = 4  # a = prefix; answer: {key: Item}
GRANT = 5  # a = time to live, ns; answer: the lease
RENEW = 6  # a = lease; answer: its time to live, or 0 if it is gone
REVOKE = 7  # a = lease; answer: whether it was there
WATCH = 8  # a = prefix; answer: {key: Item}, and from then on events
SWAP = 9  # a = (key, value; None: there is no such key), b = (value, lease): put if that is so; answer: as TXN

REFUSED = "requested lease not found"


class Item(NamedTuple):
    """A key's value, the revision that created it, the newest one that changed it, and its lease (0: none)."""

    value: Any
    create: int
    mod: int
    lease: int


Event = tuple[int, str, Item | None]  # revision, key, what it is now (None: deleted)


class KeyValue:
    """The store. `outbox`: (command, answer, events) of each command applied, until somebody takes them. `leading`:
    its Raft member leads."""

    def __init__(self) -> None:
        self.leading = False
        self.clear()

    def clear(self) -> None:
        """An empty store, at revision 1 as in etcd."""
        self.revision = 1
        self.keys: dict[str, Item] = {}
        self.leases: dict[int, int] = {}  # id -> time to live, ns
        self.outbox: list[tuple[tuple[Any, ...], Any, list[Event]]] = []

    def apply(self, index: int, command: tuple[Any, ...]) -> None:
        """Apply the committed command at this index of the log."""
        kind, _, _, a, b = command
        events: list[Event] = []
        answer: Any = None
        if kind == RENEW:
            answer = self.leases.get(a, 0)
        elif kind in (RANGE, WATCH):
            answer = self.under(a)
        elif kind == TXN:
            held = self.keys.get(a[0])
            if (0 if held is None else held.create) == a[1]:
                key, value, lease = b
                answer = self._put(key, value, lease, events)
        elif kind == SWAP:
            held = self.keys.get(a[0])
            if (None if held is None else held.value) == a[1]:
                value, lease = b
                answer = self._put(a[0], value, lease, events)
        elif kind == PUT:
            value, lease = b
            answer = self._put(a, value, lease, events)
        elif kind == DELETE:
            answer = a in self.keys
            self._delete([a] if answer else [], events)
        elif kind == GRANT:
            answer = index
            self.leases[index] = a
        elif kind == REVOKE:
            answer = self.leases.pop(a, None) is not None
            self._delete([key for key, item in self.keys.items() if answer and item.lease == a], events)
        self.outbox.append((command, answer, events))

    def under(self, prefix: str) -> dict[str, Item]:
        """Every key that begins so."""
        return {key: item for key, item in self.keys.items() if key.startswith(prefix)}

    def snapshot(self) -> tuple[Any, ...]:
        """The state, flat."""
        return self.revision, tuple(self.keys.items()), tuple(self.leases.items())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Become the store that `snapshot` was asked of."""
        self.clear()
        self.revision, keys, leases = state
        self.keys = dict(keys)
        self.leases = dict(leases)

    def _put(self, key: str, value: Any, lease: int, events: list[Event]) -> int | str:
        if lease and lease not in self.leases:
            return REFUSED
        held = self.keys.get(key)
        self.revision = revision = self.revision + 1
        self.keys[key] = item = Item(value, revision if held is None else held.create, revision, lease)
        events.append((revision, key, item))
        return revision

    def _delete(self, keys: list[str], events: list[Event]) -> None:
        if keys:
            self.revision += 1
            for key in keys:
                del self.keys[key]
                events.append((self.revision, key, None))
