"""A broker of the user's own: where it is, who we are there, and what is refused before anything is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos import scenario
from chaos.controller import refuse
from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.settings import BadKey
from clusters.brokers.amqp import Login
from clusters.external import login


def told(*addresses: str, **cluster: Any) -> dict[str, Any]:
    own = {"broker": "rabbitmq-quorum", "external": list(addresses), **cluster}
    return {"schema": 1, "name": "own", "cluster": own, "workload": {"name": "queue", "time": "5s"}}


def test_each_address_is_a_node_and_the_scenario_reads_back() -> None:
    own = scenario.from_data(told("amqp://10.0.0.1", "amqps://mq.example.com:5700/orders%2Feu"))
    assert (own.cluster.on, own.cluster.names()) == ("external", ("n1", "n2"))
    assert scenario.loads(own.dumps()) == own


def test_the_hosts_that_it_is_on_are_named_with_it_and_read_back() -> None:
    hosts = {"user": "admin", "host": [{"address": "10.0.0.1"}, {"address": "10.0.0.2", "port": 2222}]}
    own = scenario.from_data(told("amqp://10.0.0.1", "amqp://10.0.0.2", ssh=hosts))
    assert (own.cluster.on, own.cluster.names()) == ("external", ("n1", "n2"))
    assert [host["user"] for host in own.cluster.hosts["ssh"]["host"]] == ["admin", "admin"]
    assert scenario.loads(own.dumps()) == own


def test_what_can_be_done_to_it_hangs_on_whether_they_are() -> None:
    hurt = [{"name": "kill", "process": "epmd"}, {"name": "partition", "service": "replication"}]
    places = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    own = [f"amqp://{place}" for place in places]
    alone, hosts = told(*own), told(*own, ssh={"host": [{"address": place} for place in places]})
    with pytest.raises(BadKey, match="nothing of it is touched but through its clients; name the hosts"):
        refuse(scenario.from_data({**alone, "nemesis": hurt}))
    refuse(scenario.from_data({**hosts, "nemesis": hurt}))
    for name, why in (
        ("disk-full", "its data are its owner's, and stay where they are"),
        ("starve", "only a process that we start ourselves can be held so"),
        ("members", "who belongs to it is its owner's to say"),
        ("wipe", "nobody would bring a broker back into a cluster that it has forgotten"),
    ):
        with pytest.raises(BadKey, match=f"which this cluster cannot do: {why}"):
            refuse(scenario.from_data({**hosts, "nemesis": [{"name": name}]}))


def test_who_we_are_comes_from_the_environment() -> None:
    environment = {"SPLITBRAIN_USER": "qa", "SPLITBRAIN_PASSWORD": "secret"}
    assert login("amqp://10.0.0.1/orders%2Feu", environment) == Login("10.0.0.1", 5672, "orders/eu", "qa", "secret")
    assert login("amqp://10.0.0.1", {}) == Login("10.0.0.1", 5672, "/", "guest", "guest")
    encrypted = login("amqps://mq.example.com", environment)
    assert (encrypted.port, encrypted.tls is not None) == (5671, True)
    assert "secret" not in repr(encrypted)


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing of the kind")
    with pytest.raises(SplitbrainError, match=r"SPLITBRAIN_CA_FILE=.*ca\.pem: no certificates can be read from it"):
        login("amqps://mq.example.com", {"SPLITBRAIN_CA_FILE": str(path)})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            told("amqp://qa:secret@10.0.0.1"),
            "cluster.external: take the login out of the address, where others read it: "
            "set SPLITBRAIN_USER and SPLITBRAIN_PASSWORD",
        ),
        (
            told("10.0.0.1:5672"),
            "cluster.external: '10.0.0.1:5672' is not an address such as amqp://HOST:PORT/VHOST, or amqps:// for TLS",
        ),
        (told("amqp://h/v?x=1"), "cluster.external: 'amqp://h/v?x=1': nothing may follow the virtual host"),
        (
            told(on="external"),
            'cluster.external: where is it? an address a node: external = ["amqp://10.0.0.1", "amqp://10.0.0.2"]',
        ),
        (
            told("amqp://h", on="docker"),
            "cluster.external: the addresses of a broker of your own, and this cluster is docker; "
            'write on = "external"',
        ),
        (
            told("amqp://h", ssh={"host": [{"address": "h"}, {"address": "i"}]}),
            "cluster.ssh.host: 2 hosts, and 1 addresses: each node has one of both",
        ),
        (told("amqp://h", ssh="h"), "cluster.ssh: 'h' is not a table; write [cluster.ssh] and its keys below it"),
        (told("amqp://h", nodes=3), "cluster.nodes: 3, and there are 1 addresses: each is a node, so take it out"),
        (
            told("amqp://h", settings={"net_ticktime": "5s"}),
            "cluster.settings.net_ticktime: 'net_ticktime' is for whoever starts the broker, and this one is your own; "
            "take it out",
        ),
        (
            told("amqp://h", broker="blazingmq", on="external"),
            "cluster.on: 'blazingmq' cannot be on external; write 'simulated'",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput) as refused:
        scenario.from_data(data)
    assert str(refused.value) == problem
