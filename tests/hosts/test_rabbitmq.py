"""What a RabbitMQ node is given."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.settings import resolve
from clusters.brokers.base import QueueState
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum


def broker(version: str = "4.0", **given: Any) -> RabbitmqQuorum:
    return RabbitmqQuorum(version, resolve(RabbitmqQuorum.settings, given, "cluster.settings"))


def test_the_configuration() -> None:
    made = broker(net_ticktime="15s", cluster_partition_handling="pause_minority")
    assert made.configuration(("n1", "n2", "n3")) == (
        """loopback_users.guest = false
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = rabbit@n1
cluster_formation.classic_config.nodes.2 = rabbit@n2
cluster_formation.classic_config.nodes.3 = rabbit@n3
cluster_partition_handling = pause_minority
net_ticktime = 15
vm_memory_high_watermark.absolute = 512MB
log.file.level = info
"""
    )


def test_every_node_has_the_same_cookie_which_only_the_broker_may_read() -> None:
    cookies = [
        next(file for file in broker().files(node, ("n1", "n2")) if file.path.endswith(".erlang.cookie"))
        for node in ("n1", "n2")
    ]
    assert cookies[0] == cookies[1]
    assert (cookies[0].mode, cookies[0].user) == (0o400, "rabbitmq")


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({}, {"x-quorum-initial-group-size": 5, "x-delivery-limit": 2147483647}),
        (
            {"initial_group_size": 3, "delivery_limit": 7},
            {"x-quorum-initial-group-size": 3, "x-delivery-limit": 7},
        ),
    ],
)
def test_the_arguments_of_a_queue(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert broker(**given).arguments(nodes=5) == {"x-queue-type": "quorum", **arguments}


def test_versions_are_debians() -> None:
    assert {version: broker(version).image().base for version in RabbitmqQuorum.versions} == {
        "4.0": "debian:trixie-slim",
        "3.10": "debian:bookworm-slim",
    }


@pytest.mark.parametrize(
    ("role", "leader", "serves"),
    [("leader", "rabbit@n1", True), ("follower", "rabbit@n1", True), ("follower", "", False), ("pre_vote", "", False)],
)
def test_a_replica_serves_that_leads_or_follows_somebody(role: str, leader: str, serves: bool) -> None:
    view = {"role": role, "leader": leader, "members": ["rabbit@n1", "rabbit@n2"], "ready": 3, "unacked": 1}
    state = broker().queue_state("n1", view)
    assert state == QueueState(3, 1, ("n1", "n2"), "n1" if leader else None, serves)


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ("2026-01-01 00:00:00 [error] <0.1.0>   crasher:", True),
        ("2026-01-01 00:00:00 [error] <0.1.0>   exception error: no match of right hand side value {badmatch,x}", True),
        ("2026-01-01 00:00:00 [error] <0.1.0> ** Generic server <0.2.0> terminating", True),
        ("2026-01-01 00:00:00 [info] <0.1.0> rabbit on node rabbit@n2 down", False),
        ("2026-01-01 00:00:00 [warning] <0.1.0> closing AMQP connection <0.9.0> (client unexpectedly closed)", False),
        ("2026-01-01 00:00:00 [info] <0.1.0> queue 'jobs' in vhost '/': leader call - leader not known", False),
    ],
)
def test_lines_that_are_never_normal(line: str, odd: bool) -> None:
    assert bool(RabbitmqQuorum.never_normal.search(line)) is odd
