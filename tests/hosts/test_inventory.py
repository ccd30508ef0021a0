"""Hosts over SSH as they are written: in flags, in a scenario, in a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import scenario
from chaos.model.errors import BadInput
from chaos.scenario_flags import from_flags
from clusters.hosts.inventory import Inventory, Machine, inventory, parse_node, understand

SCENARIO = """
schema = 1
name = "s"
[cluster]
broker = "rabbitmq-quorum@4.0"
[workload]
name = "queue"
[[nemesis]]
name = "partition"
"""
HOSTS = """
user = "admin"
silence = "30s"
[[host]]
address = "10.0.0.1"
[[host]]
address = "10.0.0.2"
port = 2222
user = "root"
inside = "192.168.0.2"
"""


@pytest.mark.parametrize(
    ("word", "table"),
    [
        ("10.0.0.1", {"address": "10.0.0.1"}),
        ("root@host.example:2222", {"address": "host.example", "user": "root", "port": 2222}),
        ("me@[fd00::1]:22", {"address": "fd00::1", "user": "me", "port": 22}),
        ("[fd00::1]", {"address": "fd00::1"}),
    ],
)
def test_nodes_as_flags(word: str, table: dict[str, Any]) -> None:
    assert parse_node(word) == table


@pytest.mark.parametrize("word", ["", "root@", "@host", "a b", "host:", "host:port", "fd00::1", "a@b@c", "[fd00::1"])
def test_words_that_are_no_nodes(word: str) -> None:
    with pytest.raises(ValueError, match="is not a host: write user@address"):
        parse_node(word)


@given(
    st.none() | st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True),
    st.from_regex(r"[a-z0-9][a-z0-9.-]{0,9}", fullmatch=True) | st.ip_addresses().map(str),
    st.integers(1, 65535),
)
def test_a_machine_reads_back_as_it_is_written(user: str | None, address: str, port: int) -> None:
    told = parse_node(str(Machine(address, port, user, None, None)))
    assert (told["address"], told.get("user"), told.get("port", 22)) == (address, user, port)


def test_an_inventory_beneath_what_the_scenario_says(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(HOSTS)
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO + '[cluster.ssh]\ninventory = "hosts.toml"\naside = true\nsilence = "5s"\n')
    made = scenario.load(file)
    assert (made.cluster.on, made.cluster.nodes, made.cluster.names()) == ("ssh", 2, ("n1", "n2"))
    assert inventory(made.cluster.hosts) == Inventory(
        (Machine("10.0.0.1", 22, "admin", None, None), Machine("10.0.0.2", 2222, "root", None, "192.168.0.2")),
        known_hosts=None, check_host_key=True, silence=5 * 10**9, install=False, aside=True,
    )  # fmt: skip
    stored = made.dumps()
    assert "inventory" not in stored
    assert scenario.loads(stored) == made, "whole by itself"


def test_flags_alone_and_on_top_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    for made in (
        from_flags(file, node=("root@a", "b:2222")),
        from_flags(broker="rabbitmq-quorum@4.0", on="ssh", node=("root@a", "b:2222"), nemesis="partition"),
    ):
        assert (made.cluster.on, made.cluster.nodes) == ("ssh", 2)
        assert [str(one) for one in inventory(made.cluster.hosts).machines] == ["root@a", "b:2222"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("hosts.toml").write_text(HOSTS)
    assert from_flags(file, inventory="hosts.toml").cluster.nodes == 2, "a flag's file is from where we are"


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ('user = "x"\n', "hosts.toml:1: host: no hosts: write for each a table [[host]]"),
        ("[[host]]\nport = 1\n", "hosts.toml:1: host[0].address: missing: the host's name or address"),
        ('[[host]]\naddress = "a@b"\n', "hosts.toml:2: host[0].address: 'a@b' is not a host's name or address"),
        ('[[host]]\naddress = "a"\nport = 0\n', "hosts.toml:3: host[0].port: 0 is out of range"),
        ('[[host]]\naddress = "a"\n[[host]]\naddress = "a"\n', "hosts.toml:4: host[1].address: a is there twice"),
        ('keys = "a"\n[[host]]\naddress = "a"\n', "hosts.toml:1: keys: unknown key 'keys'; did you mean 'key'?"),
        (
            '[[host]]\naddress = "a"\npassword = "sesame"\n',
            "hosts.toml:3: host[0].password: no password belongs in a file: put it into SPLITBRAIN_SSH_PASSWORD",
        ),
        ('silence = "1s"\n[[host]]\naddress = "a"\n', "hosts.toml:1: silence: '1s' is too short"),
        ("[[host]\n", "hosts.toml:1: not TOML: "),
    ],
)
def test_files_of_hosts_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(hosts)
    with pytest.raises(BadInput) as raised:
        scenario.loads(SCENARIO + '[cluster.ssh]\ninventory = "hosts.toml"\n')
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('[cluster.ssh]\nuser = "x"\n', "s:10: cluster.ssh.host: no hosts: "),
        ("[cluster.ssh]\ninventory = 7\n", "s:11: cluster.ssh.inventory: 7 is not the name of a file"),
        ('[cluster.ssh]\ninventory = "none.toml"\n', "none.toml: cannot be read: No such file or directory"),
    ],
)
def test_scenarios_without_usable_hosts(more: str, problem: str) -> None:
    with pytest.raises(BadInput) as raised:
        scenario.loads(SCENARIO + more, "s")
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"on": "ssh"}, "--on: cluster.ssh.host: no hosts: "),
        ({"node": ("a:b",)}, "--node: 'a:b' is not a host: write user@address, or user@address:port"),
        ({"node": ("a", "b"), "nodes": 3}, "--node and --nodes: cluster.nodes: 3, and there are 2 hosts"),
        ({"node": ("a",), "on": "docker"}, "--on and --node: cluster.ssh: hosts of another kind: this"),
        ({"inventory": "none.toml"}, "none.toml: cannot be read"),
    ],
)
def test_flags_that_cannot_be_used(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput) as raised:
        from_flags(broker="rabbitmq-quorum", **flags)
    assert problem.partition(": ")[2] in str(raised.value)


def test_a_broker_that_does_not_say_how_it_runs_there() -> None:
    with pytest.raises(BadInput, match="'null' cannot be on ssh; write 'simulated'"):
        from_flags(broker="null", on="ssh", node=("a",))


def test_understanding_twice_changes_nothing() -> None:
    once = understand({"host": [{"address": "a"}]})
    assert understand(once) == once


def test_containers_that_are_there_by_name_or_label() -> None:
    named = from_flags(broker="rabbitmq-quorum@4.0", container=("a,b", "c"), nemesis="partition")
    assert (named.cluster.on, named.cluster.nodes) == ("docker", 3)
    assert named.cluster.hosts == {"containers": ["a", "b", "c"], "label": None, "install": False, "aside": False}
    assert scenario.loads(named.dumps()) == named
    labelled = from_flags(broker="rabbitmq-quorum", nodes=5, sets=["cluster.docker.label=role=mq"])
    assert (labelled.cluster.on, labelled.cluster.nodes, labelled.cluster.hosts["label"]) == ("docker", 5, "role=mq")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"container": ("a,a",)}, "cluster.docker.containers: one is there twice"),
        ({"container": ("a",), "nodes": 2}, "cluster.nodes: 2, and there are 1 hosts: each is a node, so take it out"),
        ({"container": ("a",), "image": "mine"}, "cluster.image: these containers are there already: take the image"),
        ({"container": ("a",), "on": "simulated"}, "cluster.docker: hosts of another kind: this cluster is simulated"),
        ({"sets": ["cluster.docker.aside=true"]}, "cluster.docker.containers: which containers? name them, or say"),
        ({"sets": ["cluster.docker.labels=x"]}, "cluster.docker.labels: unknown key 'labels'; did you mean 'label'?"),
        ({"sets": ["cluster.docker=7"]}, "cluster.docker: 7 is not a table; write [cluster.docker]"),
    ],
)
def test_containers_that_cannot_be_meant(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput) as raised:
        from_flags(broker="rabbitmq-quorum", **flags)
    assert problem in str(raised.value)
