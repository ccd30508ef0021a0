"""LavinMQ with an etcd beside each node: one leader for all queues, by a lease in etcd.

Facts: docs/brokers/lavinmq.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.model.schedule import CLOCK, MEMBERS, TRANSFER
from chaos.model.settings import Setting, choice, duration
from clusters.base import PLAIN, QUEUE, Cluster, QueueOptions, Setup
from clusters.brokers import etcd
from clusters.brokers.amqp import AmqpClient, close_connection, doubtful, open_client, open_connection
from clusters.brokers.base import BROKER, CLIENTS, REPORTER, Broker, Command, QueueState
from clusters.hosted import hosted
from clusters.hosts.base import Bare, File, Image
from clusters.reporters.etcd import HAND_OVER
from clusters.reporters.etcd import PORT as ETCD_PORT
from clusters.reporters.lavinmq import FOUNDED

PORT = 5672
REPLICATION = 5679
PROGRAM = "lavinmq"
ETCD = "etcd"  # the process beside it, and the service that brokers ask
HOME = "/var/lib/lavinmq"
LOGS = "/var/log/splitbrain"
SOCKET = f"{LOGS}/reporter.sock"
VENDOR = {"2.1": "cloudamqp/lavinmq:2.1.0", "2.9": "cloudamqp/lavinmq:2.9.1"}


class Lavinmq(Broker):
    """A broker and an etcd on each node; clients go to any node, and all but the leader pass them on."""

    name = "lavinmq"
    meaning: ClassVar[str] = "LavinMQ: real brokers with an etcd beside each; a leader by lease, followers that copy it"
    settings: ClassVar[Sequence[Setting]] = (
        Setting("etcd_endpoints", choice("local", "all"), "local", "the etcd on its own machine, or any of them"),
        Setting("restart_delay", duration, "5s", "pause of the supervisor before it starts a broker that exited"),
        Setting("etcd_election_timeout", duration, "1s", "an etcd member waits once to twice as long for its leader"),
        Setting("heartbeat", duration, "10s", "silence after which a client, or the broker, gives a connection up"),
    )
    versions: ClassVar[Sequence[str]] = tuple(VENDOR)
    serves: ClassVar[Sequence[str]] = (QUEUE,)
    services: ClassVar[Mapping[str, Sequence[int]]] = {
        CLIENTS: (PORT,), "replication": (REPLICATION,), ETCD: (ETCD_PORT,), "etcd-peers": (etcd.PEERS,),
    }  # fmt: skip
    sample: ClassVar[float] = 0.1
    question: ClassVar[str] = "queues"
    needs: ClassVar[Mapping[str, str]] = {PROGRAM: "the broker", etcd.PROGRAM: "for the broker to be elected in"}
    unable: ClassVar[Mapping[str, str]] = {
        CLOCK: "a LavinMQ follower does not say what time it believes it is, so nobody could see that its clock is off",
        **{verb: "whoever runs with LavinMQ's etcd is of its cluster" for verb in MEMBERS if verb != TRANSFER},
        f"{TRANSFER}.to": "whoever stood next leads next: let targets be the leader",
    }
    exits: ClassVar[Mapping[str, str]] = {
        "exit code 1": "an exception that nobody caught, or no etcd that it could ask",
        "exit code 3": "it lost the lead",
        "exit code 4": "it lost its folder to another",
        "exit code 5": "it lost etcd",
        "exit code 36": "it could not follow any more",
    }
    retires: ClassVar[Sequence[str]] = ("exit code 3", "exit code 5", "exit code 36")
    never_normal: ClassVar[re.Pattern[str]] = re.compile(
        r"Unhandled exception|Invalid memory access|\bBUG\b|[Cc]orrupt(ed|ion)\b|[Cc]hecksum mismatch"
        r"|GC Warning: Out of Memory|" + etcd.NEVER_NORMAL.pattern
    )

    def __init__(self, version: str, settings: Mapping[str, Any]) -> None:
        self.release, self.options = version, settings

    @classmethod
    def cluster(cls, setup: Setup, on: str) -> Cluster:
        """A cluster of it, for `clusters.make`. Raises BadInput for a kind of host that there is not."""
        return hosted(setup, on, cls(setup.version or cls.versions[0], setup.settings))

    def image(self) -> Image:
        return Image("lavinmq", f"splitbrain/lavinmq:{self.release}", VENDOR[self.release])

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        # The broker's id is a number to base 36, which any node's name is one of: so the in-sync set reads as names.
        return (File(f"{HOME}/.clustering_id", node.encode()), File(f"{LOGS}/.splitbrain", b""))

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        options = self.options
        everywhere = options["etcd_endpoints"] == "all"
        endpoints = ",".join(f"{one}:{ETCD_PORT}" for one in (map(self.at, nodes) if everywhere else ("127.0.0.1",)))
        known = [f"{one}={self.at(one)}" for one in nodes]
        argv = (
            PROGRAM,
            f"--data-dir={HOME}",
            "--bind=0.0.0.0",
            "--guest-only-loopback=false",
            "--clustering",
            "--clustering-bind=0.0.0.0",
            f"--clustering-port={REPLICATION}",
            f"--clustering-advertised-uri=tcp://{self.at(node)}:{REPLICATION}",
            f"--clustering-etcd-endpoints={endpoints}",
        )
        election = f"--election-timeout={options['etcd_election_timeout'] // MILLISECOND}"
        env = {"PATH": etcd.PATH, "HOME": HOME}
        restart = options["restart_delay"] / SECOND
        return {
            ETCD: etcd.member(self, node, nodes, etcd.HOME, 5.0, election),
            REPORTER: etcd.reporter("lavinmq", SOCKET, node, *known, output=f"{LOGS}/reporter.log"),
            BROKER: Command(argv, env, None, f"{LOGS}/lavinmq.log", restart=restart, after=FOUNDED),
        }

    def reporter(self) -> str:
        return SOCKET

    def logs(self, node: str) -> Sequence[str]:
        return (f"{LOGS}/lavinmq.log", etcd.LOG, f"{LOGS}/reporter.log")

    async def connect(self, address: str, node: str, name: str) -> AmqpClient:
        return await open_client(address, PORT, node, name, max(1, round(self.options["heartbeat"] / SECOND)))

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        connection = await open_connection(address, PORT, "splitbrain declare")
        try:
            with doubtful(f"declare {queue}"):
                channel = await connection.channel()
                await channel.declare_queue(queue, durable=True, timeout=30)
        finally:
            await close_connection(connection)

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        leader = view["leader"] or None
        serves = leader is not None and node in view["in_sync"]
        return QueueState(view["ready"], view["unacked"], tuple(view["members"]), leader, serves)

    async def version(self, address: str) -> str:
        connection = await open_connection(address, PORT, "splitbrain version")
        try:
            transport = connection.transport
            server = transport.connection.server_properties if transport else {}
            return " ".join(str(server.get(key, "?")) for key in ("product", "version"))
        finally:
            await close_connection(connection)

    def bare(self, addresses: Mapping[str, str]) -> Bare:
        """How it is run on a machine that we did not make."""
        return Bare(
            packages=(etcd.PACKAGE,),
            needs={PROGRAM: "", etcd.PROGRAM: etcd.PACKAGE},
            version=("sh", "-c", f'echo "LavinMQ $({PROGRAM} --version)"'),
            units=("lavinmq.service", etcd.UNIT),
            ports=(PORT, REPLICATION, ETCD_PORT, etcd.PEERS),
            folders=("/etc/lavinmq", HOME, LOGS, etcd.HOME),
            data=(HOME, etcd.HOME),
            users=(etcd.USER,),
            maker="Debian has no package of it; install its maker's, as https://lavinmq.com/documentation says, or put "
            f"{PROGRAM} into /usr/local/bin",
        )

    def membership(self, verb: str, node: str, nodes: Sequence[str]) -> Mapping[str, Any]:
        return {"asks": HAND_OVER}

    def refuses(self, version: str) -> str | None:
        return None if version.startswith("LavinMQ 2.") else "only LavinMQ 2.x is known here; name an image of that"
