"""RabbitMQ as Debian ships it, whatever the type of queue: configuration, start, logs, ports, connections.

Facts: https://www.rabbitmq.com/docs/configure, /clustering, /nettick, /partitions.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from chaos.kernel.clock import SECOND
from chaos.model.schedule import GROW, LEAVE, SHRINK, TRANSFER
from chaos.model.settings import Setting, choice, duration
from clusters.base import NO_ACKS, PLAIN, QUEUE, REQUEUE, Cluster, QueueOptions, Setup
from clusters.brokers.amqp import AmqpClient, close_connection, doubtful, open_client, open_connection
from clusters.brokers.base import BROKER, CLIENTS, Anatomy, Broker, Command, QueueState
from clusters.brokers.rabbitmq_anatomy import ANATOMY, HOME
from clusters.external import EXTERNAL, ExternalCluster, login
from clusters.guest import hosts_of
from clusters.hosted import hosted
from clusters.hosts.base import Bare, File, Image

PORT = 5672
DISTRIBUTION = 25672
EPMD = 4369
LOGS = "/var/log/rabbitmq"
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CONTROL = "/usr/lib/rabbitmq/bin/rabbitmqctl"
CONFIGURATION = "/etc/rabbitmq"
OURS = "/usr/lib/splitbrain"
REPORTER = f"{OURS}/splitbrain_reporter.beam"
NAMES = f"{OURS}/inetrc"  # which address each node's name is, where nobody else tells
BASES = {"4.0": "debian:trixie-slim", "3.10": "debian:bookworm-slim"}  # the Debian that ships that line

NET_TICKTIME = Setting("net_ticktime", duration, "5s", "after how long a silent peer is held to be down")
PARTITION_HANDLING = Setting(
    "cluster_partition_handling",
    choice("ignore", "pause_minority", "autoheal"),
    "ignore",
    "what a node does when the cluster is partitioned",
)


HEARTBEAT = Setting("heartbeat", duration, "10s", "silence after which a client, or the broker, gives a connection up")


class Rabbitmq(Broker, ABC):
    """What brokers of every queue type share."""

    settings: ClassVar[Sequence[Setting]] = (NET_TICKTIME, PARTITION_HANDLING, HEARTBEAT)
    versions: ClassVar[Sequence[str]] = tuple(BASES)
    serves: ClassVar[Sequence[str]] = (QUEUE, REQUEUE)
    features: ClassVar[Sequence[str]] = (NO_ACKS,)
    product: ClassVar[str] = "RabbitMQ"  # what one that is the user's own calls itself
    asked: ClassVar[Sequence[str]] = ("heartbeat",)  # the settings that it is told too, since its clients have them
    services: ClassVar[Mapping[str, Sequence[int]]] = {CLIENTS: (PORT,), "replication": (DISTRIBUTION, EPMD)}
    never_normal: ClassVar[re.Pattern[str]] = re.compile(
        r"CRASH REPORT|crasher:|Supervisor .* (had|with) child .*(exit|terminated)|badmatch|badarg|function_clause"
        r"|case_clause|\bcorrupt|Generic server .* terminating|State machine .* terminating|Global hang workaround"
    )

    anatomy: ClassVar[Anatomy] = ANATOMY
    touch: ClassVar[str | None] = "touch"  # an idle queue's restarted replica hears of its leader with the next command
    needs: ClassVar[Mapping[str, str]] = {
        SERVER: "the broker, as Debian packs it",
        REPORTER: "our reporter inside it: see clusters/images/rabbitmq",
    }

    def __init__(self, version: str, settings: Mapping[str, Any]) -> None:
        self.release, self.options = version, settings
        self._cookie = secrets.token_hex(16).upper()  # whoever knows it may run anything on the nodes

    @classmethod
    def cluster(cls, setup: Setup, on: str) -> Cluster:
        """A cluster of it, for `clusters.make`. Raises BadInput for a kind of host that there is not."""
        broker = cls(setup.version or cls.versions[0], setup.settings)
        if on == EXTERNAL:
            ports = [login(address, os.environ).port for address in setup.hosts["address"]]
            beneath = hosts_of(setup, broker, tuple(dict.fromkeys(ports))) if "ssh" in setup.hosts else None
            return ExternalCluster(setup, setup.hosts["address"], cls.product, broker.arguments, beneath)
        return hosted(setup, on, broker)

    def image(self) -> Image:
        return Image("rabbitmq", f"splitbrain/rabbitmq:{self.release}", BASES[self.release])

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        return (
            File(f"{CONFIGURATION}/rabbitmq.conf", self.configuration(nodes).encode(), 0o644, "rabbitmq"),
            File(f"{CONFIGURATION}/enabled_plugins", b"[].\n", 0o644, "rabbitmq"),
            File(f"{HOME}/.erlang.cookie", self._cookie.encode(), 0o400, "rabbitmq"),
        )

    def configuration(self, nodes: Sequence[str]) -> str:
        """The text of rabbitmq.conf."""
        lines = [
            "loopback_users.guest = false",
            "cluster_formation.peer_discovery_backend = classic_config",
            *(f"cluster_formation.classic_config.nodes.{n} = rabbit@{node}" for n, node in enumerate(nodes, 1)),
            f"cluster_partition_handling = {self.options['cluster_partition_handling']}",
            f"net_ticktime = {max(1, round(self.options['net_ticktime'] / SECOND))}",
            # of the container's memory, not of its host's, which older brokers take it for
            "vm_memory_high_watermark.absolute = 512MB",
            "log.file.level = info",
        ]
        return "\n".join(lines) + "\n"

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        env = {
            "HOME": HOME,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            # The start script then becomes the broker itself (exec): its pid is the one that we signal and wait for.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_NODENAME": f"rabbit@{node}",
            "RABBITMQ_BOOT_MODULE": "splitbrain_reporter",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-pa {OURS}",
            "SPLITBRAIN_REPORTER": self.reporter(),
        }
        argv = (SERVER,)
        # in memory: also with a full disk a clock can be put right
        return {BROKER: Command(argv, env, "rabbitmq", f"{LOGS}/output.log", clock="/dev/shm/splitbrain-clock")}

    def reporter(self) -> str:
        return f"{HOME}/reporter.sock"

    def logs(self, node: str) -> Sequence[str]:
        return (f"{LOGS}/rabbit@{node}.log", f"{LOGS}/output.log", f"{LOGS}/rabbit@{node}_upgrade.log")

    async def connect(self, address: str, node: str, name: str) -> AmqpClient:
        return await open_client(address, PORT, node, name, max(1, round(self.options["heartbeat"] / SECOND)))

    async def version(self, address: str) -> str:
        connection = await open_connection(address, PORT, "splitbrain version")
        try:
            transport = connection.transport
            server = transport.connection.server_properties if transport else {}
            return " ".join(str(server.get(key, "?")) for key in ("product", "version", "platform"))
        finally:
            await close_connection(connection)

    def bare(self, addresses: Mapping[str, str]) -> Bare:
        """How it is run on a machine that we did not make; `addresses`: of each node, as the others reach it."""
        module = Path(REPORTER).with_suffix(".erl").name
        source = files("clusters.images").joinpath("rabbitmq", module).read_bytes()
        hosts = "".join(f'{{host, {_erlang(address)}, ["{node}"]}}.\n' for node, address in addresses.items())
        names = File(NAMES, (hosts + "{lookup, [file, native]}.\n").encode())
        return Bare(
            packages=("rabbitmq-server",),
            needs={SERVER: "rabbitmq-server", "erlc": "erlang-base"},
            version=("dpkg-query", "-W", "-f", "RabbitMQ ${Version}", "rabbitmq-server"),
            units=("rabbitmq-server.service", "epmd.socket", "epmd.service"),
            ports=(PORT, DISTRIBUTION),
            folders=(CONFIGURATION, HOME, LOGS),
            data=(f"{HOME}/mnesia",),
            users=("rabbitmq",),
            made=(OURS,),
            files=(File(f"{OURS}/{module}", source), names),
            commands=(("erlc", "-o", OURS, f"{OURS}/{module}"),),
            # nodes are called by names that no other software there need know: Erlang's own list of hosts
            env={"ERL_INETRC": NAMES},
        )

    def membership(self, verb: str, node: str, nodes: Sequence[str]) -> Mapping[str, Any]:
        if verb == TRANSFER:
            return {"asks": "transfer"}
        if verb == SHRINK:
            return {"asks": "shrink", "back": "grow", "nothing": "it has no replica of any queue"}
        if verb == GROW:
            return {"asks": "grow", "back": "shrink", "nothing": "it has a replica of each queue already"}
        others = [f"rabbit@{other}" for other in nodes if other != node]
        return {
            "orderly": verb == LEAVE,
            "asks": "shrink",
            "back": "grow",
            "name": f"rabbit@{node}",
            "leaves": [[CONTROL, "stop_app"], [CONTROL, "reset"]],
            "forgets": [[CONTROL, "-n", other, "forget_cluster_node", f"rabbit@{node}"] for other in others],
            "lists": [[CONTROL, "-n", other, "eval", "rabbit_mnesia:cluster_nodes(all)."] for other in others],
        }

    def refuses(self, version: str) -> str | None:
        if re.match(rf"RabbitMQ {self.release.partition('.')[0]}\.", version):
            return None
        known = " or ".join(f"@{release}" for release in self.versions)
        return f"it is set up here as {self.release}; name the version that it is of, or one near it: {known}"

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        connection = await open_connection(address, PORT, "splitbrain declare")
        try:
            with doubtful(f"declare {queue}"):
                channel = await connection.channel()
                arguments = self.arguments(nodes, options)
                await channel.declare_queue(queue, durable=True, arguments=arguments, timeout=30)
        finally:
            await close_connection(connection)

    @abstractmethod
    def arguments(self, nodes: int, options: QueueOptions = PLAIN) -> dict[str, Any]:
        """What a queue of this type is declared with, in a cluster of so many nodes."""

    @abstractmethod
    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        """One view of the reporter's answer as counts."""


def _erlang(address: str) -> str:
    """An address as Erlang writes it: a tuple of numbers."""
    parsed = ipaddress.ip_address(address)
    size = 1 if parsed.version == 4 else 2
    numbers = (int.from_bytes(parsed.packed[at : at + size], "big") for at in range(0, len(parsed.packed), size))
    return "{" + ",".join(map(str, numbers)) + "}"
