"""What a LavinMQ node is given, and what is read out of its views."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.model.schedule import CLOCK, KILL
from chaos.model.settings import resolve
from clusters.base import LeaderView
from clusters.brokers.base import Command, QueueState
from clusters.brokers.lavinmq import Lavinmq
from clusters.hosted import HostedCluster
from clusters.hosted_nodes import PROBE
from clusters.hosts.docker import DockerHosts
from tests.docker.cluster import Seen, setup
from tests.hosts.test_hosted import FakeAgent, as_link

NODES = ("n1", "n2", "n3")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def broker(**given: Any) -> Lavinmq:
    return Lavinmq("2.1", resolve(Lavinmq.settings, given, "cluster.settings"))


@pytest.mark.parametrize(("where", "endpoints"), [("local", "127.0.0.1:2379"), ("all", "n1:2379,n2:2379,n3:2379")])
def test_the_command_lines(where: str, endpoints: str) -> None:
    commands = broker(etcd_endpoints=where, restart_delay="1500ms", etcd_election_timeout="2s").commands("n2", NODES)
    assert list(commands) == ["etcd", "reporter", "broker"], "in the order of starting"
    assert commands["etcd"].argv == (
        "etcd",
        "--name=n2",
        "--data-dir=/var/lib/etcd/data",
        "--listen-client-urls=http://0.0.0.0:2379",
        "--advertise-client-urls=http://n2:2379",
        "--listen-peer-urls=http://0.0.0.0:2380",
        "--initial-advertise-peer-urls=http://n2:2380",
        "--initial-cluster=n1=http://n1:2380,n2=http://n2:2380,n3=http://n3:2380",
        "--initial-cluster-state=new",
        "--logger=zap",
        "--election-timeout=2000",
    )
    assert commands["broker"] == Command(
        (
            "lavinmq",
            "--data-dir=/var/lib/lavinmq",
            "--bind=0.0.0.0",
            "--guest-only-loopback=false",
            "--clustering",
            "--clustering-bind=0.0.0.0",
            "--clustering-port=5679",
            "--clustering-advertised-uri=tcp://n2:5679",
            f"--clustering-etcd-endpoints={endpoints}",
        ),
        {"PATH": PATH, "HOME": "/var/lib/lavinmq"},
        None,
        "/var/log/splitbrain/lavinmq.log",
        restart=1.5,
        after="founded",
    )
    assert commands["reporter"].argv == (
        "python3", "-B", "-m", "clusters.reporters.lavinmq", "/var/log/splitbrain/reporter.sock", "n2",
        *(f"{node}={node}" for node in NODES),
    )  # fmt: skip


def test_on_machines_that_have_no_names_for_one_another_addresses_do() -> None:
    there = broker()
    there.reach = {"n1": "10.0.0.1", "n2": "fd00::2", "n3": "10.0.0.3"}
    commands = there.commands("n2", NODES)
    assert "--clustering-advertised-uri=tcp://[fd00::2]:5679" in commands["broker"].argv
    assert commands["reporter"].argv[5:] == ("n2", "n1=10.0.0.1", "n2=[fd00::2]", "n3=10.0.0.3")


def test_its_id_is_its_name_so_that_the_in_sync_set_reads_as_names() -> None:
    (identity, *_) = broker().files("n12", NODES)
    assert (identity.path, identity.data) == ("/var/lib/lavinmq/.clustering_id", b"n12")
    assert int("n12", 36) < 2**31


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("LavinMQ 2.1.0", None),
        ("LavinMQ 2.9.1", None),
        ("LavinMQ 3.0.0", "only LavinMQ 2.x is known here; name an image of that"),
        ("RabbitMQ 4.0.5", "only LavinMQ 2.x is known here; name an image of that"),
    ],
)
def test_versions(said: str, refused: str | None) -> None:
    assert broker().refuses(said) == refused


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ("2026-11-21 ERROR lmq.vhost Unhandled exception in spawn: Index out of bounds", True),
        ("Invalid memory access (signal 11) at address 0x0", True),
        ("lmq.message_store Segment is corrupted", True),
        ('{"level":"fatal","msg":"x"}', True),
        ("clustering.controller Lost cluster leadership", False),
        ('{"level":"info","initial-corrupt-check":false}', False),
    ],
)
def test_lines_that_are_never_normal(line: str, odd: bool) -> None:
    assert (Lavinmq.never_normal.search(line) is not None) is odd


# ---- as a cluster


def cluster(answers: dict[str, Any]) -> tuple[HostedCluster, Seen]:
    seen = Seen()
    made = broker()
    one = HostedCluster(setup("run", seen), DockerHosts("run", made.image()), made)
    for node in one.nodes:
        one._nodes.agents[node] = as_link(FakeAgent(node, {"ask": {"answer": {"views": answers.get(node, [])}}}))
    one._nodes.queues += [PROBE, "a", "b"]
    return one, seen


def view(role: str, term: int | None = None, scope: str = "*", **more: Any) -> dict[str, Any]:
    return {"scope": scope, "role": role, "term": term, "asked": 10, "answered": 20, **more}


def test_one_view_holds_for_every_queue() -> None:
    one, seen = cluster({})
    event = {"event": "views", "asked": 5, "at": 25, "incarnation": 2}
    one._watch.pushed("n1", {**event, "views": [view("leader", 7)]})
    assert seen.views == [LeaderView(queue, "n1", "leader", 7, 10, 20, 2) for queue in ("a", "b")]
    assert (one.leader(), one.leader("b")) == ("n1", "n1")


async def counted(one: HostedCluster) -> Any:
    return await one.counts("a")


IN_SYNC: dict[str, Any] = {"members": list(NODES), "in_sync": ["n1", "n2"]}


def test_counts_are_the_leaders_and_who_is_not_in_sync_does_not_serve() -> None:
    follows = view("follower", leader="n1", ready=0, unacked=0, **IN_SYNC)
    leads = view("leader", 7, "a", leader="n1", ready=4, unacked=1, **IN_SYNC)
    one, _ = cluster({"n1": [leads], "n2": [follows], "n3": [follows]})
    counts = asyncio.run(counted(one))
    assert (counts.ready, counts.unacked, counts.serving, counts.replicas) == (4, 1, 2, 3)


@pytest.mark.parametrize(
    ("leader", "in_sync", "serves"), [("n1", ["n1", "n3"], True), ("", ["n3"], False), ("n1", ["n1"], False)]
)
def test_a_follower_serves_when_it_is_in_sync_with_a_leader(leader: str, in_sync: list[str], serves: bool) -> None:
    state = broker().queue_state(
        "n3", {"leader": leader, "in_sync": in_sync, "members": NODES, "ready": 0, "unacked": 0}
    )
    assert state == QueueState(0, 0, NODES, leader or None, serves)


def test_what_etcd_showed_is_noted_once_whoever_tells() -> None:
    one, seen = cluster({})
    first = {"what": "elected", "revision": 3, "words": "n1, term 3"}
    then = {"what": "in-sync", "revision": 4, "words": "n1"}
    one._watch.pushed("n1", {"event": "noted", "at": 5, "noted": [first]})
    one._watch.pushed("n2", {"event": "noted", "at": 6, "noted": [first, then]})
    assert seen.noted == [("n1", "elected", "n1, term 3"), ("n2", "in-sync", "n1")]


@pytest.mark.parametrize(
    ("process", "said", "reason", "asked"),
    [
        ("broker", "exit code 3", "exit code 3: it lost the lead", True),
        ("broker", "exit code 1", "exit code 1: an exception that nobody caught, or no etcd that it could ask", False),
        ("etcd", "exit code 3", "etcd: exit code 3", False),
    ],
)
def test_how_a_process_may_end(process: str, said: str, reason: str, asked: bool) -> None:
    one, seen = cluster({})
    told = {"event": "exit", "at": 5, "process": process, "incarnation": 2, "reason": said, "asked": False}
    one._watch.pushed("n1", told)
    assert seen.exits == [("n1", 2, reason, asked)]


def test_what_cannot_be_done() -> None:
    abilities = cluster({})[0].abilities()
    assert abilities[KILL] is None
    assert abilities[CLOCK] is not None
