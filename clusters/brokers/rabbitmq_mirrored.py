"""RabbitMQ's classic mirrored queues, which 3.x has and 4.0 has not: a master, and mirrors on other nodes.

Facts: the pages "Classic Queue Mirroring", "Clustering and Network Partitions" and "Schema Definition Export and
Import" of the documentation of 3.10.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.model.schedule import GROW, LEAVE, REPLACE, SHRINK
from chaos.model.settings import BadKey, Setting, choice, optional
from clusters.base import NO_ACKS, PLAIN, SINGLE_ACTIVE, Cluster, QueueOptions, Setup
from clusters.brokers.base import QueueState
from clusters.brokers.rabbitmq import Rabbitmq
from clusters.hosts.base import File

ALL, EXACTLY, NODES = "all", "exactly", "nodes"
ALWAYS, WHEN_SYNCED = "always", "when-synced"
_DEFINITIONS = "/etc/rabbitmq/definitions.json"
_SERVES = ("leader", "mirror", "unsynchronised")
_SALT = b"salt"  # of the password that everybody knows


def params(value: object) -> int | tuple[str, ...]:
    """Setting type: a number of replicas, or the nodes that hold one, such as "n1,n2"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f'{value!r} is neither a number of replicas nor nodes, such as "n1,n2"')
    if len(words) == 1 and words[0].isdecimal():
        return params(int(words[0]))
    return tuple(word.strip() for word in words)


class RabbitmqMirrored(Rabbitmq):
    """Classic queues, mirrored by a policy."""

    meaning: ClassVar[str] = "RabbitMQ classic mirrored queues: real nodes, a master and mirrors on other nodes"
    versions: ClassVar[Sequence[str]] = ("3.10",)
    features: ClassVar[Sequence[str]] = (SINGLE_ACTIVE, NO_ACKS)
    unable: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (SHRINK, GROW), "mirrors are wherever the policy has them: of one node alone none can be taken away, nor added"
    )
    settings: ClassVar[Sequence[Setting]] = (
        *Rabbitmq.settings,
        Setting("ha_mode", choice(ALL, EXACTLY, NODES), ALL, "on which nodes a queue is: all, so many, or these"),
        Setting(
            "ha_params", optional(params), None, 'of `exactly` the number of nodes, of `nodes` which, such as "n1,n2"'
        ),
        Setting("ha_sync_mode", choice("automatic", "manual"), "automatic", "whether new mirrors are synchronised"),
        Setting(
            "ha_promote_on_failure", choice(ALWAYS, WHEN_SYNCED), ALWAYS, "which mirrors may follow a failed master"
        ),
        Setting(
            "ha_promote_on_shutdown",
            choice(ALWAYS, WHEN_SYNCED),
            WHEN_SYNCED,
            "which mirrors may follow a master that is shut down",
        ),
    )

    def __init__(self, version: str, settings: Mapping[str, Any]) -> None:
        super().__init__(version, settings)
        wanted = {ALL: type(None), EXACTLY: int, NODES: tuple}[settings["ha_mode"]]
        if not isinstance(settings["ha_params"], wanted):
            raise BadKey(
                "cluster.settings.ha_params",
                'ha_mode "all" takes none, "exactly" a number of nodes, "nodes" their names, such as "n1,n2"',
            )

    @classmethod
    def cluster(cls, setup: Setup, on: str) -> Cluster:
        made = super().cluster(setup, on)
        for name in setup.settings["ha_params"] if setup.settings["ha_mode"] == NODES else ():
            if name not in made.nodes:
                problem = f"there is no node {name!r}; the nodes are {', '.join(made.nodes)}"
                raise BadKey("cluster.settings.ha_params", problem)
        return made

    def files(self, node: str, nodes: Sequence[str]) -> Sequence[File]:
        text = json.dumps(self.definitions(), indent=2).encode()
        return (*super().files(node, nodes), File(_DEFINITIONS, text, 0o644, "rabbitmq"))

    def configuration(self, nodes: Sequence[str]) -> str:
        # Once is enough. Each time, the policy would be set anew, and every queue look at its mirrors, just when a node
        # that partition handling had stopped comes back.
        lines = (
            "definitions.import_backend = local_filesystem",
            f"definitions.local.path = {_DEFINITIONS}",
            "definitions.skip_if_unchanged = true",
        )
        return super().configuration(nodes) + "\n".join(lines) + "\n"

    def membership(self, verb: str, node: str, nodes: Sequence[str]) -> Mapping[str, Any]:
        told = super().membership(verb, node, nodes)
        # its mirrors go with a node, and the policy has them back on it
        return {**told, "asks": "", "back": ""} if verb in (LEAVE, REPLACE) else told

    def policy(self) -> dict[str, Any]:
        """What makes a queue mirrored."""
        mode, given = self.options["ha_mode"], self.options["ha_params"]
        names = [f"rabbit@{node}" for node in given] if mode == NODES else given
        return {
            "ha-mode": mode,
            **({} if mode == ALL else {"ha-params": names}),
            "ha-sync-mode": self.options["ha_sync_mode"],
            "ha-promote-on-failure": self.options["ha_promote_on_failure"],
            "ha-promote-on-shutdown": self.options["ha_promote_on_shutdown"],
        }

    def definitions(self) -> dict[str, Any]:
        """What a node takes over at its first start. The virtual host and the user are those that it has without: it
        makes none of its own where it is given definitions."""
        password = base64.b64encode(_SALT + hashlib.sha256(_SALT + b"guest").digest()).decode()
        return {
            "vhosts": [{"name": "/"}],
            "users": [
                {
                    "name": "guest",
                    "password_hash": password,
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": "administrator",
                }
            ],
            "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
            "policies": [
                {
                    "vhost": "/",
                    "name": "mirrored",
                    "pattern": ".*",
                    "apply-to": "queues",
                    "priority": 0,
                    "definition": self.policy(),
                }
            ],
        }

    def arguments(self, nodes: int, options: QueueOptions = PLAIN) -> dict[str, Any]:
        arguments: dict[str, Any] = {"x-queue-type": "classic"}
        if options.single_active:
            arguments["x-single-active-consumer"] = True
        return arguments

    def queue_state(self, node: str, view: Mapping[str, Any]) -> QueueState:
        members = tuple(member.partition("@")[2] for member in view["members"])
        leader = view["leader"].partition("@")[2] or None
        # Where a queue is on all nodes, one without a mirror is yet to get it back; else it may never have had one.
        here = view["role"] in _SERVES or (self.options["ha_mode"] != ALL and leader not in (None, node))
        serves = here and leader is not None and view["ready"] >= 0
        return QueueState(view["ready"], view["unacked"], members, leader, serves)
