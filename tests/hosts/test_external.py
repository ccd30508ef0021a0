"""A broker of the user's own: where it is, who we are there, and what is refused before anything is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos import scenario
from chaos.model.errors import BadInput, SplitbrainError
from clusters.brokers.amqp import Login
from clusters.external import login


def told(*addresses: str, **cluster: Any) -> dict[str, Any]:
    own = {"broker": "rabbitmq-quorum", "external": list(addresses), **cluster}
    return {"schema": 1, "name": "own", "cluster": own, "workload": {"name": "queue", "time": "5s"}}


def test_each_address_is_a_node_and_the_scenario_reads_back() -> None:
    own = scenario.from_data(told("amqp://10.0.0.1", "amqps://mq.example.com:5700/orders%2Feu"))
    assert (own.cluster.on, own.cluster.names()) == ("external", ("n1", "n2"))
    assert scenario.loads(own.dumps()) == own


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
