"""What a BlazingMQ broker is told, to the letter where it matters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.kernel.streams import Streams
from chaos.model.errors import BadInput
from chaos.model.settings import resolve
from clusters.base import Setup
from clusters.brokers.base import BROKER, REPORTER, Command, QueueState
from clusters.brokers.blazingmq import Blazingmq
from clusters.brokers.blazingmq_configuration import clusters, domain
from tests.docker.cluster import RealClock, Seen

NODES = ("n1", "n2", "n3")


def options(**given: Any) -> dict[str, Any]:
    return resolve(Blazingmq.settings, given, "cluster.settings")


def test_the_cluster_as_every_node_is_told_it() -> None:
    told = clusters(options(), "n2", NODES)
    assert told["proxyClusters"] == []
    (one,) = told["myClusters"]
    assert one["name"] == "splitbrain"
    assert one["clusterAttributes"] == {"isCSLModeEnabled": True, "isFSMWorkflow": True, "doesFSMwriteQLIST": True}
    assert one["nodes"] == [
        {"id": 1, "name": "n1", "dataCenter": "dc", "transport": {"tcp": {"endpoint": "tcp://n1:30114"}}},
        {"id": 2, "name": "n2", "dataCenter": "dc", "transport": {"tcp": {"endpoint": "tcp://n2:30114"}}},
        {"id": 3, "name": "n3", "dataCenter": "dc", "transport": {"tcp": {"endpoint": "tcp://n3:30114"}}},
    ]
    assert one["elector"] == {
        "initialWaitTimeoutMs": 2500,
        "maxRandomWaitTimeoutMs": 1000,
        "scoutingResultTimeoutMs": 1000,
        "electionResultTimeoutMs": 1000,
        "heartbeatBroadcastPeriodMs": 500,
        "heartbeatCheckPeriodMs": 250,
        "heartbeatMissCount": 5,
        "quorum": 0,
        "leaderSyncDelayMs": 10000,
    }
    assert one["masterAssignment"] == "E_LEADER_IS_MASTER_ALL"
    assert one["partitionConfig"]["numPartitions"] == 1
    assert told == clusters(options(), "n1", NODES), "the same on every node"


def test_the_legacy_workflow_and_more_nodes() -> None:
    (one,) = clusters(options(workflow="legacy", partitions=4), "n1", ("n1", "n2", "n3", "n4", "n5"))["myClusters"]
    assert one["clusterAttributes"] == {"isCSLModeEnabled": False, "isFSMWorkflow": False, "doesFSMwriteQLIST": False}
    assert [node["id"] for node in one["nodes"]] == [1, 2, 3, 4, 5]
    assert one["partitionConfig"]["numPartitions"] == 4


@pytest.mark.parametrize(
    ("given", "quorums"),
    [({}, [0, 0, 0]), ({"quorum": 3}, [3, 3, 3]), ({"leader": "n2"}, [100, 0, 100])],
)
def test_who_may_lead(given: dict[str, Any], quorums: list[int]) -> None:
    told = [clusters(options(**given), node, NODES)["myClusters"][0]["elector"]["quorum"] for node in NODES]
    assert told == quorums


def test_nobody_leads_who_is_not_there() -> None:
    setup = Setup("r", "blazingmq", None, 3, options(leader="n4"), RealClock(), Streams(1), Seen())
    with pytest.raises(BadInput, match="setting `leader`: there is no node 'n4'; known: n1, n2, n3"):
        Blazingmq.cluster(setup, "docker")


@pytest.mark.parametrize(
    ("given", "mode", "consistency"),
    [
        ({}, {"priority": {}}, {"strong": {}}),
        ({"consistency": "eventual", "apps": 5}, {"priority": {}}, {"eventual": {}}),
        ({"mode": "fanout"}, {"fanout": {"appIDs": ["app1", "app2"]}}, {"strong": {}}),
    ],
)
def test_the_domain_of_all_queues(given: dict[str, Any], mode: Any, consistency: Any) -> None:
    definition = domain(options(**given))["definition"]
    assert definition["location"] == "splitbrain"
    parameters = definition["parameters"]
    assert (parameters["mode"], parameters["consistency"]) == (mode, consistency)
    assert parameters["storage"]["config"] == {"fileBacked": {}}
    assert parameters["storage"]["queueLimits"]["messages"] >= 10**9, "the vendor's example stops at 1,000"


def test_what_is_put_on_a_node_and_started_there() -> None:
    broker = Blazingmq(options(peer_patience="6s", restart_delay="2s"))
    files = {file.path: file.data for file in broker.files("n2", NODES)}
    assert list(files) == [
        "/etc/splitbrain-bmq/bmqbrkrcfg.json",
        "/etc/splitbrain-bmq/clusters.json",
        "/etc/splitbrain-bmq/domains/splitbrain.json",
        "/var/local/bmq/logs/.splitbrain",
        "/var/local/bmq/storage/archive/.splitbrain",
    ]
    network = json.loads(files["/etc/splitbrain-bmq/bmqbrkrcfg.json"])["appConfig"]["networkInterfaces"]
    assert network["heartbeats"]["clusterPeer"] == 6
    assert network["tcpInterface"]["heartbeatIntervalMs"] == 1000
    assert network["tcpInterface"]["port"] == 30114
    commands = broker.commands("n2", NODES)
    assert list(commands) == [BROKER, REPORTER]
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert commands[BROKER] == Command(
        ("bmqbrkr", "-h", "n2", "-d", "dc", "/etc/splitbrain-bmq"),
        {"PATH": path, "BMQ_PREFIX": "/var/local/bmq"},
        None,
        "/var/local/bmq/output.log",
        "/dev/shm/splitbrain-clock",
        2.0,
    )


def view(**given: Any) -> dict[str, Any]:
    members = ["n1", "n2", "n3"]
    return {"role": "leader", "leader": "n1", "members": members, "available": True, "ready": 4, "unacked": 0} | given


@pytest.mark.parametrize(
    ("given", "leader", "serves"),
    [
        ({}, "n1", True),
        ({"role": "follower", "leader": "n2"}, "n2", True),
        ({"role": "passive", "leader": ""}, None, False),  # its primary has not synchronised yet
        ({"role": "follower", "leader": ""}, None, False),
        ({"available": False}, "n1", False),
    ],
)
def test_what_a_replica_serves(given: dict[str, Any], leader: str | None, serves: bool) -> None:
    state = Blazingmq(options()).queue_state("n1", view(**given))
    assert state == QueueState(4, 0, ("n1", "n2", "n3"), leader, serves)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("BlazingMQ 0.95.14", None),
        ("BlazingMQ, a build without a version", None),
        ("BlazingMQ 0.90.20", "it is set up here as 0.95 is; name an image of that line"),
        ("BlazingMQ 10.95.1", "it is set up here as 0.95 is; name an image of that line"),
    ],
)
def test_versions_that_it_does_not_know(said: str, refused: str | None) -> None:
    assert Blazingmq(options()).refuses(said) == refused


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ("21NOV2026_13:00:00.000 (123) FATAL bmqbrkr.m.cpp:12 Assertion failed: x, stack trace:", True),
        ("PANIC [STARTUP] (-1): Failed to start application", True),
        ("21NOV2026_13:00:00.000 (123) ERROR mqbs_x.cpp:1 Data file is corrupted", True),
        ("21NOV2026_13:00:00.000 (123) ERROR ALMN [CLUSTER] self node views self as active/available primary", False),
        ("21NOV2026_13:00:00.000 (123) INFO mqbnet_elector.cpp:1 Elector:FOLLOWER", False),
    ],
)
def test_lines_that_are_never_normal(line: str, odd: bool) -> None:
    assert bool(Blazingmq.never_normal.search(line)) == odd
