"""BlazingMQ: brokers with one leader, which is the primary of every partition; priority or fan-out queues.

Its sources and what was met on real nodes: docs/brokers/blazingmq.md.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.kernel.clock import SECOND
from chaos.model.errors import BadInput
from chaos.model.schedule import MEMBERS
from chaos.model.settings import Setting, choice, duration, integer, optional, text
from clusters.agent.link import FOLDER
from clusters.base import PLAIN, Cluster, QueueOptions, Setup, Unknown
from clusters.brokers import blazingmq_configuration as configuration
from clusters.brokers.base import BROKER, CLIENTS, REPORTER, Broker, Command, QueueState
from clusters.brokers.blazingmq_client import Apps, BlazingmqClient, open_client, sdk
from clusters.hosted import hosted
from clusters.hosts.base import Bare, File, Image
from clusters.reporters.blazingmq import DOMAIN, ELECTOR, PORT, version

HOME = "/var/local/bmq"
ETC = "/etc/splitbrain-bmq"
OUTPUT = f"{HOME}/output.log"
PROGRAM = "bmqbrkr"
VENDOR = "ghcr.io/bloomberg/blazingmq:v0.95.14"
SOCKET = f"{HOME}/reporter.sock"
UNNUMBERED = 999999  # what a broker answers whose builder gave it no version; the vendor's own image is such a one

SETTINGS = (
    Setting("restart_delay", duration, "5s", "pause of the supervisor before it starts a broker that exited"),
    Setting("workflow", choice(configuration.FSM, "legacy"), configuration.FSM, "how nodes recover: the new way, or"
            " that of the vendor's example"),
    Setting("consistency", choice(configuration.STRONG, "eventual"), configuration.STRONG, "acknowledge with N/2+1"
            " copies, or at once"),
    Setting("mode", choice("priority", configuration.FANOUT), "priority", "each message to one consumer, or to each"
            " application"),
    Setting("apps", integer(1, 16), 2, "applications of a fan-out queue: a message is delivered when all have it"),
    Setting("partitions", integer(1, 16), 1, "partitions that queues are spread over"),
    Setting("delivery_limit", integer(0), 0, "a message delivered so often without a confirm is dropped; 0 = never"),
    Setting("initial_wait", duration, "2500ms", "from a broker's start to its first scouting, but for random_wait"),
    Setting("random_wait", duration, "1s", "who has no leader waits at most so long before it scouts"),
    Setting("scouting_result", duration, "1s", "time for answers to scouting"),
    Setting("election_result", duration, "1s", "time for answers to a proposal"),
    Setting("heartbeat_broadcast", duration, "500ms", "pause between a leader's heartbeats"),
    Setting("heartbeat_check", duration, "250ms", "pause between a follower's looks at when it heard the last one"),
    Setting("heartbeat_miss_count", integer(1), 5, "heartbeats in a row whose absence costs a leader its follower"),
    Setting("leader_sync_delay", duration, "10s", "a new leader waits at most so long for the others, passive"),
    Setting("peer_patience", duration, "8s", "silence, in whole seconds, after which a connection is given up"),
    Setting("quorum", integer(0), 0, "supporters that make a leader, itself among them; 0 = N/2+1"),
    Setting("leader", optional(text), None, "the only node that may lead: no other ever has its quorum"),
)  # fmt: skip


class Blazingmq(Broker):
    """BlazingMQ brokers, clients straight to each."""

    name = "blazingmq"
    meaning: ClassVar[str] = "BlazingMQ: real brokers, an elected leader that is primary of all queues"
    settings: ClassVar[Sequence[Setting]] = SETTINGS
    versions: ClassVar[Sequence[str]] = ("0.95",)
    services: ClassVar[Mapping[str, Sequence[int]]] = {CLIENTS: (PORT,), "replication": (PORT,)}  # one port for all
    scopes: ClassVar[Sequence[str]] = (ELECTOR,)
    needs: ClassVar[Mapping[str, str]] = {PROGRAM: "the broker"}
    unable: ClassVar[Mapping[str, str]] = dict.fromkeys(
        MEMBERS, "who is of its cluster stands in each node's configuration, and no command moves a leader or a primary"
    )
    retires: ClassVar[Sequence[str]] = ("exit code 0", "exit code 11")
    exits: ClassVar[Mapping[str, str]] = {
        "exit code 0": "shut down in order, as a primary does that finds another leading",
        "exit code 11": "an unsupported scenario: a primary is to be a replica, and may only start anew",
        "exit code 1": "its command line",
        "exit code 2": "its configuration",
        "exit code 3": "its task could not be made",
        "exit code 5": "its application could not be made",
        "exit code 6": "it could not be started",
        "exit code 9": "its storage could not be recovered",
        "exit code 10": "its storage is out of step with the primary's",
        "exit code 12": "its limit of memory",
        "exit code 13": "asked to, by a command",
    }
    never_normal: ClassVar[re.Pattern[str]] = re.compile(
        r"\bFATAL\b|Assertion failed|PANIC \[|ALMN.*(out of sync|corrupt)|[Cc]orrupt(ed|ion)\b|terminate called"
    )

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._apps = Apps(configuration.apps(options))

    @classmethod
    def cluster(cls, setup: Setup, on: str) -> Cluster:
        """A cluster of it, for `clusters.make`. Raises BadInput for a kind of host, or a node to lead, that there is
        not."""
        made = hosted(setup, on, cls(setup.settings))
        if (pinned := setup.settings["leader"]) not in (None, *made.nodes):
            raise BadInput(f"setting `leader`: there is no node {pinned!r}; known: {', '.join(made.nodes)}")
        return made

    def ready(self) -> None:
        """Raises SplitbrainError when the SDK is missing."""
        sdk()

    def image(self) -> Image:
        return Image("blazingmq", f"splitbrain/blazingmq:{self.versions[0]}", VENDOR)

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        return (
            _json(f"{ETC}/bmqbrkrcfg.json", configuration.broker(self._options, node)),
            _json(f"{ETC}/clusters.json", configuration.clusters(self._options, node, nodes, self.at)),
            _json(f"{ETC}/domains/{DOMAIN}.json", configuration.domain(self._options)),
            File(f"{configuration.LOGS}/.splitbrain", b""),  # for their folders, which the broker does not make
            File(f"{configuration.STORAGE}/archive/.splitbrain", b""),
        )

    def commands(self, node: str, nodes: Sequence[str]) -> Mapping[str, Command]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        broker = (PROGRAM, "-h", node, "-d", "dc", ETC)
        environment = {"PATH": path, "PYTHONPATH": FOLDER}
        reporter = ("python3", "-B", "-m", "clusters.reporters.blazingmq", node, SOCKET, configuration.LOG)
        return {
            BROKER: Command(
                broker,
                {"PATH": path, "BMQ_PREFIX": HOME},
                None,
                OUTPUT,
                clock="/dev/shm/splitbrain-clock",
                restart=self._options["restart_delay"] / SECOND,
            ),
            REPORTER: Command(reporter, environment, None, f"{HOME}/reporter.log", restart=1.0),
        }

    def reporter(self) -> str:
        return SOCKET

    def logs(self, node: str) -> Sequence[str]:
        return (configuration.LOG, OUTPUT, f"{HOME}/reporter.log")

    async def connect(self, address: str, node: str, name: str) -> BlazingmqClient:
        return await open_client(address, PORT, node, DOMAIN, self._apps)

    async def declare(self, address: str, queue: str, nodes: int, options: QueueOptions = PLAIN) -> None:
        client = await self.connect(address, "", "splitbrain declare")
        try:
            await client.declare(queue)
        finally:
            await client.close()

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        leader = view["leader"] or None
        serves = view["role"] != "passive" and view["available"] and leader is not None
        return QueueState(view["ready"], view["unacked"], tuple(view["members"]), leader, serves)

    async def version(self, address: str) -> str:
        try:
            number = await asyncio.to_thread(version, address)
        except (OSError, ValueError) as error:
            raise Unknown(f"version: {error}") from None
        if number == UNNUMBERED:
            return "BlazingMQ, a build without a version"
        return f"BlazingMQ {number // 10000}.{number // 100 % 100}.{number % 100}"

    def bare(self, addresses: Mapping[str, str]) -> Bare:
        """How it is run on a machine that we did not make. It says its version only once it runs."""
        return Bare(
            packages=(),
            needs={PROGRAM: ""},
            version=(),
            units=(),
            ports=(PORT,),
            folders=(HOME, ETC),
            data=(HOME,),
            users=(),
            maker="Debian has no package of it; build it as https://github.com/bloomberg/blazingmq says, or take it "
            f"out of {VENDOR}, and put {PROGRAM} into /usr/local/bin",
        )

    def refuses(self, version: str) -> str | None:
        if not re.search(r"\d", version) or re.search(rf" {re.escape(self.versions[0])}\.", version):
            return None
        return f"it is set up here as {self.versions[0]} is; name an image of that line"


def _json(path: str, data: object) -> File:
    return File(path, (json.dumps(data, indent=2) + "\n").encode())
