"""What a RabbitMQ node is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.kernel.streams import Streams
from chaos.model.errors import BadInput
from chaos.model.settings import resolve
from clusters.base import Setup
from clusters.brokers.base import QueueState
from clusters.brokers.rabbitmq_mirrored import RabbitmqMirrored
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from tests.docker.cluster import RealClock, Seen


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
    one, other = broker(), broker()
    cookies = [
        next(file for file in cluster.files(node, ("n1", "n2")) if file.path.endswith(".erlang.cookie"))
        for cluster, node in ((one, "n1"), (one, "n2"), (other, "n1"))
    ]
    assert cookies[0] == cookies[1]
    assert cookies[0].data != cookies[2].data, "nobody can guess it, and so run what he likes on the nodes"
    assert (cookies[0].mode, cookies[0].user, len(cookies[0].data)) == (0o400, "rabbitmq", 32)


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
    state = broker().queue_state("n1", quorum_view(role, leader))
    assert state == QueueState(3, 1, ("n1", "n2"), "n1" if leader else None, serves)


@pytest.mark.parametrize(("role", "unacked"), [("leader", 21), ("follower", 1)])
def test_what_a_leader_has_not_applied_may_be_messages(role: str, unacked: int) -> None:
    state = broker().queue_state("n1", quorum_view(role, "rabbit@n1", applied=40, last=60))
    assert (state.ready, state.unacked) == (3, unacked)


def quorum_view(role: str, leader: str, applied: int = 7, last: int = 7) -> dict[str, Any]:
    counts = {"ready": 3, "unacked": 1, "applied": applied, "last": last}
    return {"role": role, "leader": leader, "members": ["rabbit@n1", "rabbit@n2"], **counts}


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ("2026-01-01 00:00:00 [error] <0.1.0>   crasher:", True),
        ("2026-01-01 00:00:00 [error] <0.1.0>   exception error: no match of right hand side value {badmatch,x}", True),
        ("2026-01-01 00:00:00 [error] <0.1.0> ** Generic server <0.2.0> terminating", True),
        ("2026-01-01 00:00:00 [info] <0.1.0> rabbit on node rabbit@n2 down", False),
        ("2026-01-01 00:00:00 [warning] <0.1.0> closing AMQP connection <0.9.0> (client unexpectedly closed)", False),
        ("2026-01-01 00:00:00 [info] <0.1.0> queue 'jobs' in vhost '/': leader call - leader not known", False),
        # what mirrored queues say of a partition, and of its end
        ("[error] <0.1.0> Mnesia(rabbit@n2): ** ERROR ** mnesia_event got {inconsistent_database, x, y}", False),
        ("[error] <0.1.0> ** Node rabbit@n2 not responding **", False),
        ("[error] <0.1.0>     errorContext: shutdown_error", False),
        ("[error] <0.1.0> Partial partition detected:", False),
        ("[warning] <0.1.0> Cluster minority/secondary status detected - awaiting recovery", False),
        ("[warning] <0.1.0> Autoheal: we were selected to restart; winner is rabbit@n1", False),
        ("[warning] <0.1.0> Mirrored queue 'q' in vhost '/': Stopping all nodes on master shutdown since no", False),
        ("[info] <0.1.0> Global hang workaround: global state on rabbit@n1 seems broken", True),  # it hangs
    ],
)
def test_lines_that_are_never_normal(line: str, odd: bool) -> None:
    assert bool(RabbitmqQuorum.never_normal.search(line)) is odd


def mirrored(**given: Any) -> RabbitmqMirrored:
    return RabbitmqMirrored("3.10", resolve(RabbitmqMirrored.settings, given, "cluster.settings"))


def test_mirrors_come_of_a_policy_in_what_each_node_takes_over_at_its_first_start() -> None:
    made = mirrored(ha_sync_mode="manual", ha_promote_on_failure="when-synced")
    assert made.configuration(("n1",)).splitlines()[-3:] == [
        "definitions.import_backend = local_filesystem",
        "definitions.local.path = /etc/rabbitmq/definitions.json",
        "definitions.skip_if_unchanged = true",
    ]
    (file,) = (file for file in made.files("n1", ("n1",)) if file.path == "/etc/rabbitmq/definitions.json")
    (policy,) = json.loads(file.data)["policies"]
    assert (policy["pattern"], policy["apply-to"]) == (".*", "queues")
    assert policy["definition"] == {
        "ha-mode": "all",
        "ha-sync-mode": "manual",
        "ha-promote-on-failure": "when-synced",
        "ha-promote-on-shutdown": "when-synced",
    }


@pytest.mark.parametrize(
    ("mode", "given", "params"),
    [("exactly", 2, 2), ("exactly", "2", 2), ("nodes", "n1, n3", ["rabbit@n1", "rabbit@n3"]),
     ("nodes", ["n2"], ["rabbit@n2"])],
)  # fmt: skip
def test_on_which_nodes_a_queue_is(mode: str, given: Any, params: Any) -> None:
    policy = mirrored(ha_mode=mode, ha_params=given).policy()
    assert (policy["ha-mode"], policy["ha-params"]) == (mode, params)


@pytest.mark.parametrize(
    ("mode", "given", "problem"),
    [
        ("all", 2, 'ha_mode "all" takes none'),
        ("exactly", None, '"exactly" a number of nodes'),
        ("exactly", "n1,n2", '"exactly" a number of nodes'),
        ("nodes", 2, '"nodes" their names'),
        ("exactly", 0, "0 is neither a number of replicas nor nodes"),
        ("nodes", "n1,,n2", "'n1,,n2' is neither a number of replicas nor nodes"),
        ("nodes", "n1,n9", "there is no node 'n9'; the nodes are n1, n2, n3"),
    ],
)
def test_params_that_do_not_go_with_the_mode(mode: str, given: Any, problem: str) -> None:
    told = {"ha_mode": mode, **({} if given is None else {"ha_params": given})}

    def made() -> None:
        options = resolve(RabbitmqMirrored.settings, told, "cluster.settings")
        setup = Setup("run", "rabbitmq-mirrored", None, 3, options, RealClock(), Streams(1), Seen())
        RabbitmqMirrored.cluster(setup, "docker")

    with pytest.raises(BadInput, match=problem):
        made()


def test_mirrored_queues_are_of_the_last_line_that_had_them() -> None:
    assert RabbitmqMirrored.versions == ("3.10",)
    assert mirrored().image().base == "debian:bookworm-slim"


@pytest.mark.parametrize(
    ("role", "leader", "ready", "serves", "serves_where_not_all_have_it"),
    [
        ("leader", "rabbit@n1", 3, True, True),
        ("mirror", "rabbit@n2", 0, True, True),
        ("unsynchronised", "rabbit@n2", 0, True, True),  # for as long as it takes, or for ever: manual
        ("none", "rabbit@n2", 0, False, True),  # its mirror is gone and not back yet, or was never to be here
        ("none", "rabbit@n1", 0, False, False),  # the master is gone, and the table does not know yet
        ("leader", "rabbit@n1", -1, False, False),  # it synchronises mirrors
        ("none", "", 0, False, False),
    ],
)
def test_what_serves(role: str, leader: str, ready: int, serves: bool, serves_where_not_all_have_it: bool) -> None:
    view = {"role": role, "leader": leader, "members": ["rabbit@n1", "rabbit@n2"], "ready": ready, "unacked": 0}
    known = leader.partition("@")[2] or None
    assert mirrored().queue_state("n1", view) == QueueState(ready, 0, ("n1", "n2"), known, serves)
    some = mirrored(ha_mode="exactly", ha_params=2).queue_state("n1", view)
    assert some == QueueState(ready, 0, ("n1", "n2"), known, serves_where_not_all_have_it)
