"""What an etcd node is given."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.schedule import CLOCK, KILL
from chaos.model.settings import resolve
from clusters.brokers.base import Command
from clusters.brokers.etcd import Etcd
from clusters.hosted import HostedCluster
from clusters.hosts.docker import DockerHosts
from tests.docker.cluster import Seen, setup


def broker(version: str = "3.5", **given: Any) -> Etcd:
    return Etcd(version, resolve(Etcd.settings, given, "cluster.settings"))


def test_the_command_lines() -> None:
    made = broker(election_timeout="2s", heartbeat_interval="250ms", snapshot_count=500, restart_delay="1500ms")
    commands = made.commands("n2", ("n1", "n2", "n3"))
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert list(commands) == ["broker", "reporter"], "in the order of starting"
    assert commands["broker"] == Command(
        (
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
            "--heartbeat-interval=250",
            "--snapshot-count=500",
        ),
        {"PATH": path, "HOME": "/var/lib/etcd"},
        "etcd",
        "/var/lib/etcd/etcd.log",
        clock=None,
        restart=1.5,
    )
    assert commands["reporter"] == Command(
        ("python3", "-B", "-m", "clusters.reporters.etcd", "/var/lib/etcd/reporter.sock"),
        {"PATH": path, "PYTHONPATH": "/opt/splitbrain"},
        None,
        "/var/lib/etcd/reporter.log",
        restart=1.0,
    )


def test_versions_are_debians() -> None:
    assert {version: broker(version).image().base for version in Etcd.versions} == {
        "3.5": "debian:trixie-slim",
        "3.4": "debian:bookworm-slim",
    }


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("etcd 3.5.16", None),
        ("etcd 3.4.23", "it is set up here as 3.5; name the version that it is of, or one near it: @3.5 or @3.4"),
    ],
)
def test_a_version_that_it_was_not_set_up_for(said: str, refused: str | None) -> None:
    assert broker().refuses(said) == refused


def test_its_clock_cannot_be_moved_and_the_reason_is_a_line() -> None:
    made = broker()
    cluster = HostedCluster(setup("run", Seen()), DockerHosts("run", made.image()), made)
    abilities = cluster.abilities()
    assert abilities[CLOCK] == (
        "etcd is a Go program and asks no library for the time, so libfaketime cannot move its clock"
    )
    assert abilities[KILL] is None


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        ('{"level":"panic","ts":"...","msg":"failed to recover v3 backend"}', True),
        ('{"level":"fatal","ts":"...","msg":"discovery failed"}', True),
        ("panic: runtime error: index out of range", True),
        ('{"level":"warn","msg":"data inconsistency detected"}', True),
        ('{"level":"warn","msg":"waiting for ReadIndex response took too long, retrying"}', False),
        ('{"level":"info","msg":"enabled initial corrupt-check"}', False),
    ],
)
def test_lines_that_are_never_normal(line: str, odd: bool) -> None:
    assert (Etcd.never_normal.search(line) is not None) is odd
