"""A client of etcd over the JSON gateway of its v3 API, whose outcomes are never guessed.

What is asked is answered by the member itself or not at all: nothing here is tried twice, neither by us nor by the
HTTP library, which repeats no POST.

What an error says of a change (after etcd's server/etcdserver/v3_server.go and api/v3rpc/util.go): those in `REFUSED`
are raised before anything was proposed, or by every member alike in place of applying it. With any other the proposal
may have been on its way: time-outs of every kind, a leader that changed, a server that stopped; and also "database
space exceeded", which is said of a put that exceeded it and was applied. A read changes nothing: one that failed did
not happen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from chaos.kernel.clock import SECOND
from clusters.base import Failed, Unknown

CONNECT = 5.0  # seconds for the first answer
_CLOSING = 1.0
RENEWALS = 3  # in the life of a lease

REFUSED = re.compile(
    r"etcdserver: (too many requests|request is too large|key is not provided|value is provided|lease is provided"
    r"|duplicate key given in txn request|too many operations in txn request|invalid \w+ option"
    r"|requested lease not found|lease already exists|too large lease TTL|mvcc: required revision .*"
    r"|permission denied|user name is empty|invalid auth token|rpc not supported for learner|not capable)"
    r"|raft proposal dropped|mutex: session is expired|Not Found|proto:.*|json: .*"
)
_LEASE_GONE = re.compile(r"requested lease not found|session is expired")


def refused(message: str) -> bool:
    """Whether an error of etcd says that the change certainly did not happen."""
    return REFUSED.match(message) is not None


@dataclass
class _Lease:
    """What a lock is held by. `until`: when it runs out, on the loop's clock, as far as its owner can tell."""

    id: str
    ttl: float
    until: float
    renewing: asyncio.Task[None] | None = None


async def open_client(address: str, port: int, node: str) -> EtcdClient:
    """A client of a member that answers. Raises Unknown."""
    client = EtcdClient(f"http://{address}:{port}", node)
    try:
        async with asyncio.timeout(CONNECT):
            await client.version()
    except TimeoutError:
        await client.close()
        raise Unknown(f"connect: no answer in {CONNECT:g} s") from None
    except BaseException:
        await client.close()
        raise
    return client


class EtcdClient:
    """As `clusters.base.KeyValueClient` and `LockClient` describe. A connection that fails is the end of the client."""

    def __init__(self, address: str, node: str) -> None:
        self.node = node
        self.on_lost: Callable[[str], None] = lambda why: None
        self._session = aiohttp.ClientSession(
            address, timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
        )
        self._over: str | None = None
        self._leases: dict[str, _Lease] = {}  # of each lock that is held, or waited for
        self._under_way: dict[asyncio.Task[Any], None] = {}
        self._closing: asyncio.Task[None] | None = None

    async def version(self) -> str:
        """What answers, as a number. Raises Unknown."""
        try:
            async with self._session.get("/version") as answer:
                return str((await answer.json())["etcdserver"])
        except (aiohttp.ClientError, OSError, ValueError, LookupError) as error:
            raise Unknown(f"connect: {_words(error)}") from None

    # ---- keys

    async def read(self, key: str, *, serializable: bool = False) -> bytes | None:
        try:
            found = (await self._ask("range", "/v3/kv/range", {"key": _text(key), "serializable": serializable})).get(
                "kvs"
            )
        except Unknown as error:
            raise Failed(str(error)) from None
        return base64.b64decode(found[0].get("value", "")) if found else None

    async def write(self, key: str, value: bytes) -> int:
        return _revision(await self._ask("put", "/v3/kv/put", {"key": _text(key), "value": _text(value)}))

    async def compare_and_set(self, key: str, expected: bytes | None, value: bytes) -> int | None:
        holds: dict[str, Any] = {"key": _text(key), "result": "EQUAL"}
        holds |= {"target": "CREATE"} if expected is None else {"target": "VALUE", "value": _text(expected)}
        put = {"requestPut": {"key": _text(key), "value": _text(value)}}
        answer = await self._ask("txn", "/v3/kv/txn", {"compare": [holds], "success": [put]})
        return _revision(answer) if answer.get("succeeded") else None

    # ---- locks

    async def acquire(self, lock: str, ttl: int, *, renew: bool = True) -> int:
        if lock in self._leases:
            raise Failed(f"this client holds {lock}, or waits for it")
        loop = asyncio.get_running_loop()
        lease = self._leases[lock] = _Lease("", 0, 0)
        asked = loop.time()
        try:
            granted = await self._ask("grant", "/v3/lease/grant", {"TTL": str(-(-ttl // SECOND))})
            lease.id, lease.ttl = granted["ID"], float(granted["TTL"])
            lease.until = asked + lease.ttl
            lease.renewing = asyncio.ensure_future(self._keep(lock, lease))
            locked = await self._ask("lock", "/v3/lock/lock", {"name": _text(lock), "lease": lease.id})
            # Not the revision of the answer, which is any since: that by which those who wait stand in line.
            mine = await self._ask("range", "/v3/kv/range", {"key": locked["key"]})
        except Failed:
            self._stop(self._leases.pop(lock, None))
            raise
        if not mine.get("kvs"):
            self._stop(self._leases.pop(lock, None))
            raise Failed("its lease ran out before it was seen to be locked")
        if not renew:
            self._stop(lease)
        return int(mine["kvs"][0]["create_revision"])

    async def release(self, lock: str) -> None:
        lease = self._leases.pop(lock, None)
        if lease is None:
            raise Failed(f"{lock} is not held")
        self._stop(lease)
        await self._ask("revoke", "/v3/lease/revoke", {"ID": lease.id})  # refused if it had run out before

    async def _keep(self, lock: str, lease: _Lease) -> None:
        """Renew a lease until it is lost, as etcd says or as the time that passed does."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, min(lease.ttl / RENEWALS, lease.until - loop.time())))
            asked = loop.time()
            try:
                async with asyncio.timeout_at(lease.until):
                    answer = await self._ask("renew", "/v3/lease/keepalive", {"ID": lease.id})
            except TimeoutError:
                self._lose(f"the lease of {lock} was not renewed in time")
                return
            except (Failed, Unknown):
                continue  # what is not known to be renewed is not; the time will come
            if not int(answer.get("result", {}).get("TTL", 0)):
                self._lose(f"the lease of {lock} has run out")
                return
            lease.until = asked + lease.ttl

    @staticmethod
    def _stop(lease: _Lease | None) -> None:
        if lease is not None and lease.renewing is not None:
            lease.renewing.cancel()
            lease.renewing = None

    # ---- the connection

    async def close(self) -> None:
        leases, self._leases = self._leases, {}
        for lease in leases.values():
            self._stop(lease)
        if self._over is None:
            with contextlib.suppress(Failed, Unknown, TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    for lease in leases.values():
                        if lease.id:
                            await self._ask("revoke", "/v3/lease/revoke", {"ID": lease.id})
        self._over = self._over or "the client was closed"
        self._give_up()
        await self._session.close()

    async def _ask(self, what: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """One request and its answer. Raises Failed for what certainly did not happen, else Unknown."""
        if self._over is not None:
            raise Unknown(f"{what}: {self._over}")
        request = asyncio.ensure_future(self._post(path, body))
        self._under_way[request] = None
        request.add_done_callback(self._under_way.pop)
        try:
            status, text = await request
            answer = json.loads(text)
        except asyncio.CancelledError:
            request.cancel()
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise  # whoever asked has no more patience
            raise Unknown(f"{what}: {self._over}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._lose(_words(error))
            if isinstance(error, aiohttp.ClientConnectorError):
                raise Failed(f"{what}: {_words(error)}") from None  # it was never sent
            raise Unknown(f"{what}: {_words(error)}") from None
        problem = answer.get("error")
        if status == 200 and problem is None:
            return dict(answer)
        message = problem.get("message", "") if isinstance(problem, dict) else answer.get("message") or problem
        raise (Failed if refused(str(message)) else Unknown)(f"{what}: {message}")

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
        async with self._session.post(path, json=body) as answer:
            return answer.status, await answer.text()

    def _lose(self, why: str) -> None:
        """The client is over: whoever holds it is told once, and what is under way will never be known."""
        if self._over is None:
            self._over = why
            for lease in self._leases.values():
                self._stop(lease)
            self._closing = asyncio.ensure_future(self._session.close())
            self.on_lost(why)
            self._give_up()

    def _give_up(self) -> None:
        for request in list(self._under_way):
            request.cancel()


def _revision(answer: Mapping[str, Any]) -> int:
    return int(answer["header"]["revision"])


def _text(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or error.os_error}"
    return f"{type(error).__name__}: {error}".rstrip(": ")
