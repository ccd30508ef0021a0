"""etcd by itself: keys, leases and locks, replicated by Raft. Facts: docs/brokers/etcd.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.schedule import CLOCK, MEMBERS, TRANSFER
from chaos.model.settings import Setting, duration, integer
from clusters.agent.link import FOLDER
from clusters.base import KEY_VALUE, LOCK, PLAIN, Cluster, QueueOptions, Setup
from clusters.brokers.base import BROKER, CLIENTS, REPORTER, Broker, Command, QueueState
from clusters.brokers.etcd_client import EtcdClient, open_client
from clusters.hosted import hosted
from clusters.hosts.base import Bare, File, Image
from clusters.reporters.etcd import HAND_OVER, PORT, SCOPE

PEERS = 2380
PROGRAM = "etcd"
PACKAGE = "etcd-server"
UNIT = "etcd.service"
USER = "etcd"
HOME = "/var/lib/etcd"
LOG = f"{HOME}/etcd.log"
SOCKET = f"{HOME}/reporter.sock"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASES = {"3.5": "debian:trixie-slim", "3.4": "debian:bookworm-slim"}  # the Debian that ships that line
NO_CLOCK = "etcd is a Go program and asks no library for the time, so libfaketime cannot move its clock"
NEVER_NORMAL = re.compile(
    r'"level":"d?(panic|fatal)"|^panic:|^fatal error:|^goroutine \d+ \[running\]|data inconsistency|\bcorrupt(ed|ion)\b'
)


class Etcd(Broker):
    """A member of the group on each node."""

    name = "etcd"
    meaning: ClassVar[str] = "etcd: real members, as Debian ships them; keys, leases and locks"
    settings: ClassVar[Sequence[Setting]] = (
        Setting("election_timeout", duration, "1s", "a member waits once to twice as long for its leader"),
        Setting("heartbeat_interval", duration, "100ms", "pause between a leader's messages"),
        Setting("snapshot_count", integer(1), 100_000, "entries applied between snapshots"),
        Setting("restart_delay", duration, "5s", "pause of the supervisor before it starts a member that exited"),
    )
    versions: ClassVar[Sequence[str]] = tuple(BASES)
    serves: ClassVar[Sequence[str]] = (KEY_VALUE, LOCK)
    services: ClassVar[Mapping[str, Sequence[int]]] = {CLIENTS: (PORT,), "replication": (PEERS,)}
    scopes: ClassVar[Sequence[str]] = (SCOPE,)
    needs: ClassVar[Mapping[str, str]] = {PROGRAM: "the broker"}
    unable: ClassVar[Mapping[str, str]] = {
        CLOCK: NO_CLOCK,
        **{
            verb: "an etcd that joins again has to be started in another way than it was"
            for verb in MEMBERS
            if verb != TRANSFER
        },
    }
    exits: ClassVar[Mapping[str, str]] = {"exit code 1": "it gave up, and its log says why", "exit code 2": "a panic"}
    never_normal: ClassVar[re.Pattern[str]] = NEVER_NORMAL

    def __init__(self, version: str, settings: Mapping[str, Any]) -> None:
        self.release, self.options = version, settings

    @classmethod
    def cluster(cls, setup: Setup, on: str) -> Cluster:
        """A cluster of it, for `clusters.make`. Raises BadInput for a kind of host that there is not."""
        return hosted(setup, on, cls(setup.version or cls.versions[0], setup.settings))

    def image(self) -> Image:
        return Image("etcd", f"splitbrain/etcd:{self.release}", BASES[self.release])

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        return ()

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        options = self.options
        more = (
            f"--election-timeout={options['election_timeout'] // MILLISECOND}",
            f"--heartbeat-interval={options['heartbeat_interval'] // MILLISECOND}",
            f"--snapshot-count={options['snapshot_count']}",
        )
        return {
            BROKER: member(self, node, nodes, HOME, options["restart_delay"] / SECOND, *more),
            REPORTER: reporter("etcd", SOCKET, output=f"{HOME}/reporter.log"),
        }

    def reporter(self) -> str:
        return SOCKET

    def logs(self, node: str) -> Sequence[str]:
        return (LOG, f"{HOME}/reporter.log")

    async def connect(self, address: str, node: str, name: str) -> EtcdClient:
        return await open_client(address, PORT, node)

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        """A key is there once it is written."""

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        raise NotImplementedError("etcd has no queues")

    async def version(self, address: str) -> str:
        client = await open_client(address, PORT, "")
        try:
            return f"etcd {await client.version()}"
        finally:
            await client.close()

    def bare(self, addresses: Mapping[str, str]) -> Bare:
        """How it is run on a machine that we did not make."""
        return Bare(
            packages=(PACKAGE,),
            needs={PROGRAM: PACKAGE},
            version=("dpkg-query", "-W", "-f", "etcd ${Version}", PACKAGE),
            units=(UNIT,),
            ports=(PORT, PEERS),
            folders=(HOME,),
            data=(HOME,),
            users=(USER,),
        )

    def membership(self, verb: str, node: str, nodes: Sequence[str]) -> Mapping[str, Any]:
        return {"asks": HAND_OVER}

    def refuses(self, version: str) -> str | None:
        if version.startswith(f"etcd {self.release}."):
            return None
        known = " or ".join(f"@{release}" for release in self.versions)
        return f"it is set up here as {self.release}; name the version that it is of, or one near it: {known}"


def member(broker: Broker, node: str, nodes: Sequence[str], home: str, restart: float, *more: str) -> Command:
    """A broker's etcd on a node, one of a group of one on each; it says JSON lines. A restart takes the same words:
    what is in its folder goes before what says how a new group begins."""
    argv = (
        PROGRAM,
        f"--name={node}",
        f"--data-dir={home}/data",
        f"--listen-client-urls=http://0.0.0.0:{PORT}",
        f"--advertise-client-urls=http://{broker.at(node)}:{PORT}",
        f"--listen-peer-urls=http://0.0.0.0:{PEERS}",
        f"--initial-advertise-peer-urls=http://{broker.at(node)}:{PEERS}",
        "--initial-cluster=" + ",".join(f"{one}=http://{broker.at(one)}:{PEERS}" for one in nodes),
        "--initial-cluster-state=new",
        "--logger=zap",
        *more,
    )
    return Command(argv, {"PATH": PATH, "HOME": home}, USER, f"{home}/etcd.log", restart=restart)


def reporter(module: str, *words: str, output: str) -> Command:
    """One of our reporters beside a broker."""
    argv = ("python3", "-B", "-m", f"clusters.reporters.{module}", *words)
    return Command(argv, {"PATH": PATH, "PYTHONPATH": FOLDER}, None, output, restart=1.0)
