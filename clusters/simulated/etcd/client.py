"""A client of a simulated etcd: keys, and locks by etcd's own recipe.

After etcd's concurrency recipes (client/v3/concurrency, `Session` and `Mutex`): whoever wants a lock takes a lease, and
puts a key of its own under it. Whose key has the lowest create-revision holds the lock; that revision is the fencing
token. Having waited, it looks whether its own key is still there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from chaos.kernel.clock import SECOND
from clusters.base import Failed, Unknown
from clusters.simulated.client import Caller
from clusters.simulated.etcd.keyvalue import GRANT, PUT, RANGE, RENEW, REVOKE, SWAP, TXN, WATCH, Item
from clusters.simulated.etcd.member import AGAIN, ANSWER, EVENTS, LOCAL
from clusters.simulated.network import Connection, Message

WORDS = {
    PUT: "put", SWAP: "compare and set", RANGE: "range", LOCAL: "serializable range", GRANT: "grant", RENEW: "renew",
    REVOKE: "revoke", TXN: "put if new", WATCH: "watch",
}  # fmt: skip
RENEWALS = 3  # in the life of a lease
LEAST = 0.001  # seconds between looks whether it has run out


@dataclass
class _Lease:
    """`until`: when it runs out, as far as its owner can tell: by its own clock, from when it was last asked for."""

    id: int
    ttl: int
    until: float
    timer: asyncio.TimerHandle | None = None


@dataclass
class _Lock:
    """A lock's keys, as the watch on them has shown; `changed` is set whenever it shows more."""

    keys: dict[str, Item]
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class EtcdClient(Caller):
    """As `clusters.base.KeyValueClient` and `LockClient` describe."""

    def __init__(self, node: str, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(node, connection, loop)
        self._locks: dict[str, _Lock] = {}
        self._watches: dict[int, str] = {}  # number of the request -> lock
        self._leases: dict[str, _Lease] = {}  # of each lock that is held, or waited for

    # --- keys

    async def read(self, key: str, *, serializable: bool = False) -> bytes | None:
        found: dict[str, Item] = await self._request(LOCAL if serializable else RANGE, key)
        return found[key].value if key in found else None

    async def write(self, key: str, value: bytes) -> int:
        revision: int = await self._request(PUT, key, (value, 0))
        return revision

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes) -> int | None:
        revision: int | None = await self._request(SWAP, (key, expected), (value, 0))
        return revision

    # --- locks

    async def acquire(self, lock: str, ttl: int, *, renew: bool = True) -> int:
        if lock in self._leases:
            raise Failed(f"this client holds {lock}, or waits for it")
        asked = self._loop.time()
        lease = self._leases[lock] = _Lease(0, ttl, asked + ttl / SECOND)
        lease.id = await self._request(GRANT, ttl)
        self._renew_later(lock, lease)
        under = f"{lock}/"
        key = f"{under}{lease.id}"
        token = await self._request(TXN, (key, 0), (key, b"", lease.id))
        if not isinstance(token, int):
            raise self._without(lock, f"not entered: {token}")
        state = self._locks.get(lock)
        if state is None:
            state = self._locks[lock] = _Lock({})
            self._watches[self._number + 1] = lock
            await self._request(WATCH, under)
        while True:
            if key not in state.keys:
                raise self._without(lock, "the lease ran out while it waited")
            if min(item.create for item in state.keys.values()) == token:
                break
            state.changed.clear()
            await state.changed.wait()
            if self._gone is not None:
                raise Unknown(self._gone)
        if not renew:
            self._stop(lease)
        return token

    async def release(self, lock: str) -> None:
        lease = self._leases.pop(lock, None)
        if lease is None:
            raise Failed(f"{lock} is not held")
        self._stop(lease)
        if not await self._request(REVOKE, lease.id):
            raise Failed("its lease had run out before")

    async def close(self) -> None:
        if self._gone is None:
            for lease in self._leases.values():
                self._stop(lease)
                if lease.id:
                    self._number += 1
                    self._connection.send(0, (WORDS[REVOKE], self._number, REVOKE, lease.id, None))
        await super().close()

    def _without(self, lock: str, why: str) -> Failed:
        self._stop(self._leases.pop(lock))
        return Failed(why)

    # --- leases

    def _renew_later(self, lock: str, lease: _Lease) -> None:
        """Renew it soon, or give it up once it has run out."""
        wait = min(lease.ttl / RENEWALS / SECOND, lease.until - self._loop.time())
        lease.timer = self._loop.call_later(max(wait, LEAST), self._renew, lock, lease)

    def _renew(self, lock: str, lease: _Lease) -> None:
        now = self._loop.time()
        if now >= lease.until:
            self._lose(f"the lease of {lock} was not renewed in time")
            return
        answer = self._request(RENEW, lease.id)
        answer.add_done_callback(lambda answer: self._renewed(lock, lease, now, answer))
        self._renew_later(lock, lease)

    def _renewed(self, lock: str, lease: _Lease, asked: float, answer: asyncio.Future[int]) -> None:
        if answer.cancelled() or answer.exception() is not None or lease.timer is None:
            return  # what is not known to be renewed is not; the time will come
        if answer.result():
            lease.until = asked + lease.ttl / SECOND
        else:
            self._lose(f"the lease of {lock} has run out")

    @staticmethod
    def _stop(lease: _Lease) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
            lease.timer = None

    def _lose(self, why: str) -> None:
        self._connection.close(0)
        self._lost(why)

    # --- the connection

    def _request(self, kind: int, a: Any, b: Any = None) -> asyncio.Future[Any]:
        return self._ask(WORDS[kind], kind, a, b)

    def _receive(self, batch: list[Message]) -> None:
        for _, tag, number, said in batch:
            if tag == ANSWER:
                if number in self._watches:  # now: what comes next may be in the same batch
                    self._watched(self._watches[number], AGAIN, said)
                self._answered(number, said)
            elif tag in (EVENTS, AGAIN):
                self._watched(self._watches[number], tag, said)
            else:
                self._answered(number, Unknown(said))

    def _watched(self, lock: str, tag: int, news: Any) -> None:
        state = self._locks[lock]
        if tag == AGAIN:
            state.keys = dict(news)
        else:
            for _, key, item in news:
                if item is None:
                    state.keys.pop(key, None)
                else:
                    state.keys[key] = item
        state.changed.set()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        for lease in self._leases.values():
            self._stop(lease)
        for state in self._locks.values():
            state.changed.set()
