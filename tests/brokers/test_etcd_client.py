"""What etcd's answers become: done, certainly not done, or nobody knows."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from chaos.kernel.clock import SECOND
from clusters.base import Failed, Unknown
from clusters.brokers.etcd_client import EtcdClient, open_client

Answer = Callable[[str, dict[str, Any]], Any]  # path and body -> body, (status, body), or None for no answer at all
HEADER = {"cluster_id": "1", "member_id": "2", "revision": "7", "raft_term": "3"}


class Etcd:
    """A server that answers as it is told to, and remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.first = asyncio.Event()
        self._answer = answer

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"etcdserver": "3.5.16"})
        body = await request.json()
        self.asked.append((request.path, body))
        self.first.set()
        said = self._answer(request.path, body)
        if said is None:
            await asyncio.sleep(60)
        if said == "hang up":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        status, text = said if isinstance(said, tuple) else (200, said)
        return web.Response(status=status, text=text if isinstance(text, str) else json.dumps(text))


def with_client(answer: Answer, use: Callable[[EtcdClient, Etcd], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        etcd = Etcd(answer)
        runner = web.ServerRunner(web.Server(etcd.handle), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            client = await open_client("127.0.0.1", port, "n1")
            try:
                return await asyncio.wait_for(use(client, etcd), 10)
            finally:
                await client.close()
        finally:
            await runner.cleanup()

    return asyncio.run(main())


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_what_is_asked_and_what_the_answers_are() -> None:
    answers = iter(
        [
            {"header": HEADER},
            {"header": HEADER, "kvs": [{"key": b64("k"), "value": b64("v"), "mod_revision": "7"}], "count": "1"},
            {"header": HEADER},
            {"header": HEADER, "kvs": [{"key": b64("k")}], "count": "1"},  # JSON leaves an empty value out
            {"header": HEADER, "succeeded": True, "responses": []},
            {"header": HEADER},  # and false too
            {"header": HEADER, "succeeded": True},
        ]
    )

    async def use(client: EtcdClient, etcd: Etcd) -> Any:
        done = [
            await client.write("k", b"v"),
            await client.read("k"),
            await client.read("k", serializable=True),
            await client.read("k"),
            await client.compare_and_set("k", b"v", b"w"),
            await client.compare_and_set("k", b"v", b"w"),
            await client.compare_and_set("k", None, b"w"),
        ]
        return done, etcd.asked

    done, asked = with_client(lambda path, body: next(answers), use)
    assert done == [7, b"v", None, b"", 7, None, 7]
    put = {"requestPut": {"key": b64("k"), "value": b64("w")}}
    equal = {"key": b64("k"), "result": "EQUAL", "target": "VALUE", "value": b64("v")}
    absent = {"key": b64("k"), "result": "EQUAL", "target": "CREATE"}
    assert asked == [
        ("/v3/kv/put", {"key": b64("k"), "value": b64("v")}),
        ("/v3/kv/range", {"key": b64("k"), "serializable": False}),
        ("/v3/kv/range", {"key": b64("k"), "serializable": True}),
        ("/v3/kv/range", {"key": b64("k"), "serializable": False}),
        ("/v3/kv/txn", {"compare": [equal], "success": [put]}),
        ("/v3/kv/txn", {"compare": [equal], "success": [put]}),
        ("/v3/kv/txn", {"compare": [absent], "success": [put]}),
    ]


@pytest.mark.parametrize(
    ("status", "message", "certain"),
    [
        (429, "etcdserver: too many requests", True),
        (400, "etcdserver: request is too large", True),
        (404, "etcdserver: requested lease not found", True),
        (500, "raft proposal dropped", True),
        (400, "etcdserver: key is not provided", True),
        (400, "etcdserver: duplicate key given in txn request", True),
        (503, "etcdserver: request timed out", False),
        (503, "etcdserver: request timed out, possibly due to previous leader failure", False),
        (503, "etcdserver: request timed out, possibly due to connection lost", False),
        (503, "etcdserver: leader changed", False),
        (503, "etcdserver: no leader", False),  # also said of what waits for an answer when the leader is lost
        (503, "etcdserver: server stopped", False),
        (429, "etcdserver: mvcc: database space exceeded", False),  # said after the put was applied
        (504, "context deadline exceeded", False),
        (503, "connection error: desc = transport is closing", False),
        (500, "etcdserver: corrupt cluster", False),
        (500, "", False),
        (500, "etcdserver: something that nobody has heard of", False),
        (500, "not etcdserver: too many requests", False),
    ],
)
def test_errors_of_a_change(status: int, message: str, certain: bool) -> None:
    async def use(client: EtcdClient, etcd: Etcd) -> None:
        for change in (client.write("k", b"v"), client.compare_and_set("k", b"a", b"b")):
            with pytest.raises(Failed if certain else Unknown, match=message or None):
                await change

    with_client(lambda path, body: (status, {"error": message, "code": 1, "message": message}), use)


def test_a_stream_says_its_error_in_another_shape() -> None:
    """As /v3/lease/keepalive does."""

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        with pytest.raises(Unknown, match="put: etcdserver: no leader"):
            await client.write("k", b"v")

    with_client(lambda path, body: {"error": {"grpc_code": 14, "message": "etcdserver: no leader"}}, use)


def test_a_read_that_failed_did_not_happen() -> None:
    async def use(client: EtcdClient, etcd: Etcd) -> None:
        with pytest.raises(Failed, match="request timed out"):
            await client.read("k")

    with_client(lambda path, body: (503, {"message": "etcdserver: request timed out"}), use)


def test_a_connection_that_is_lost_ends_the_client_and_all_that_was_under_way() -> None:
    lost: list[str] = []

    def answer(path: str, body: Mapping[str, Any]) -> Any:
        return "hang up" if body["key"] == b64("bad") else None

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        client.on_lost = lost.append
        waiting = asyncio.ensure_future(client.write("slow", b"v"))
        await etcd.first.wait()
        with pytest.raises(Unknown, match=r"put: ServerDisconnectedError"):
            await client.write("bad", b"v")
        with pytest.raises(Unknown, match="put: ServerDisconnectedError"):
            await waiting
        with pytest.raises(Unknown, match="ServerDisconnectedError"):
            await client.write("k", b"v")
        assert len(etcd.asked) == 2, "nothing is asked twice"

    with_client(answer, use)
    assert len(lost) == 1


def test_what_could_not_even_be_sent_did_not_happen() -> None:
    async def main() -> None:
        client = EtcdClient("http://127.0.0.1:1", "n1")
        with pytest.raises(Failed, match="put: cannot connect"):
            await client.write("k", b"v")
        with pytest.raises(Unknown, match="put: cannot connect"):  # over, and so as unknown as anything is then
            await client.write("k", b"v")
        await client.close()

    asyncio.run(main())


def test_whoever_has_no_more_patience_takes_only_its_own_with_it() -> None:
    async def use(client: EtcdClient, etcd: Etcd) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.write("slow", b"v"), 0.1)
        assert await client.write("k", b"v") == 7

    with_client(lambda path, body: None if body["key"] == b64("slow") else {"header": HEADER}, use)


def test_nobody_there() -> None:
    with pytest.raises(Unknown, match="connect: cannot connect"):
        asyncio.run(open_client("127.0.0.1", 1, "n1"))


# ---- locks


class Locks:
    """etcd's side of one lock: what is renewed, and what the lease has left."""

    def __init__(self, ttl: int = 2) -> None:
        self.ttl, self.left, self.renewed = ttl, ttl, 0
        self.present = True

    def __call__(self, path: str, body: Mapping[str, Any]) -> Any:
        said: dict[str, Any] = {
            "/v3/lease/grant": {"header": HEADER, "ID": "77", "TTL": str(self.ttl)},
            "/v3/lock/lock": {"header": HEADER, "key": b64("L/4d")},
            "/v3/kv/range": {"header": HEADER, "kvs": [{"key": b64("L/4d"), "create_revision": "5"}]},
            "/v3/lease/keepalive": {"result": {"header": HEADER, "ID": "77", "TTL": str(self.left)}},
            "/v3/lease/revoke": {"header": HEADER},
        }
        if path == "/v3/lease/keepalive":
            self.renewed += 1
            return said[path] if self.left else {"result": {"header": HEADER, "ID": "77"}}
        if path == "/v3/kv/range" and not self.present:
            return {"header": HEADER}
        return said[path]


def test_a_lock_is_held_renewed_and_let_go() -> None:
    locks = Locks(ttl=1)

    async def use(client: EtcdClient, etcd: Etcd) -> Any:
        token = await client.acquire("L", SECOND)
        with pytest.raises(Failed, match="this client holds L"):
            await client.acquire("L", SECOND)
        await asyncio.sleep(0.8)
        await client.release("L")
        renewed = locks.renewed
        with pytest.raises(Failed, match="L is not held"):
            await client.release("L")
        await asyncio.sleep(0.5)
        assert locks.renewed == renewed
        return token, etcd.asked[:3], etcd.asked[-1]

    token, first, last = with_client(locks, use)
    assert token == 5, "the revision that made its key, not that of the answer"
    assert first == [
        ("/v3/lease/grant", {"TTL": "1"}),
        ("/v3/lock/lock", {"name": b64("L"), "lease": "77"}),
        ("/v3/kv/range", {"key": b64("L/4d")}),
    ]
    assert last == ("/v3/lease/revoke", {"ID": "77"})
    assert locks.renewed == 2


def test_a_key_that_is_gone_when_it_was_locked_is_no_lock() -> None:
    locks = Locks()
    locks.present = False

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        with pytest.raises(Failed, match="ran out before"):
            await client.acquire("L", 2 * SECOND)

    with_client(locks, use)


def test_a_lease_that_etcd_says_is_gone_ends_the_client() -> None:
    locks = Locks(ttl=1)
    lost: list[str] = []

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        client.on_lost = lost.append
        await client.acquire("L", SECOND)
        locks.left = 0
        await asyncio.sleep(0.6)
        with pytest.raises(Unknown, match="the lease of L has run out"):
            await client.write("k", b"v")

    with_client(locks, use)
    assert lost == ["the lease of L has run out"]


def test_a_lease_that_nothing_renews_is_lost_by_the_clients_own_clock() -> None:
    lost: list[tuple[str, float]] = []

    def answer(path: str, body: Mapping[str, Any]) -> Any:
        return None if path == "/v3/lease/keepalive" else locks(path, body)

    locks = Locks(ttl=1)

    async def use(client: EtcdClient, etcd: Etcd) -> float:
        loop = asyncio.get_running_loop()
        client.on_lost = lambda why: lost.append((why, loop.time()))
        begun = loop.time()
        await client.acquire("L", SECOND)
        await asyncio.sleep(1.5)
        return begun

    begun = with_client(answer, use)
    ((why, when),) = lost
    assert why == "the lease of L was not renewed in time"
    assert when - begun >= 1.0


def test_who_does_not_renew_is_told_nothing_and_hears_it_when_it_lets_go() -> None:
    locks = Locks(ttl=1)
    lost: list[str] = []

    def answer(path: str, body: Mapping[str, Any]) -> Any:
        if path == "/v3/lease/revoke":
            return 404, {"code": 5, "message": "etcdserver: requested lease not found"}
        return locks(path, body)

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        client.on_lost = lost.append
        await client.acquire("L", SECOND, renew=False)
        await asyncio.sleep(0.6)
        with pytest.raises(Failed, match="requested lease not found"):
            await client.release("L")

    with_client(answer, use)
    assert (lost, locks.renewed) == ([], 0)


def test_closing_lets_locks_go() -> None:
    asked: list[str] = []

    def answer(path: str, body: Mapping[str, Any]) -> Any:
        asked.append(path)
        return locks(path, body)

    locks = Locks()

    async def use(client: EtcdClient, etcd: Etcd) -> None:
        await client.acquire("L", 2 * SECOND)

    with_client(answer, use)
    assert asked[-1] == "/v3/lease/revoke"
