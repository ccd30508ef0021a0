"""Somebody's own containers, taken for a run (`clusters.hosts.taken`): none is stopped or removed.

The agent's lines go over a docker exec, as in containers of ours: when that ends, so does the agent, having undone all.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import docker
from docker.errors import DockerException, NotFound

from chaos.model.errors import SplitbrainError, did_you_mean
from chaos.model.settings import BadKey, Setting, boolean, optional, text
from clusters.agent import machine
from clusters.agent.link import COMMAND, FOLDER
from clusters.brokers.base import Broker
from clusters.hosts.base import Channel
from clusters.hosts.docker import DockerHost, read_ahead
from clusters.hosts.engine import engine, first_line, plainly
from clusters.hosts.taken import ANSWER, PATH, Done, TakenHost, TakenHosts, leave, side_by_side

SETTINGS: Sequence[Setting] = (
    Setting("label", optional(text), None, "their label instead, KEY or KEY=VALUE; in the order of their names then"),
    Setting("install", boolean, False, "whether to install, with apt, what is missing of the broker and our tools"),
    Setting("aside", boolean, False, "whether a broker's data may be moved aside until the end"),
)


def understand(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Every setting of `[cluster.docker]`, with its containers, resolved. Raises BadKey."""
    known = ["containers", *(setting.name for setting in SETTINGS)]
    for key in table:
        if key not in known:
            raise BadKey(f"{where}.{key}", f"unknown key {key!r}; {did_you_mean(key, known)}")
    names = table.get("containers", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadKey(f"{where}.containers", f"{names!r} is not a list of names")
    if len(dict.fromkeys(names)) != len(names):
        raise BadKey(f"{where}.containers", "one is there twice")
    told: dict[str, Any] = {"containers": names}
    for setting in SETTINGS:
        try:
            told[setting.name] = setting.convert(table.get(setting.name, setting.default))
        except ValueError as error:
            raise BadKey(f"{where}.{setting.name}", str(error)) from None
    if bool(names) == (told["label"] is not None):
        raise BadKey(f"{where}.containers", "which containers? name them, or say their label; one of the two")
    return told


def clean(run: str, told: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Take back all that a run changed in those containers; says what. Raises SplitbrainError."""
    client = engine()

    def one(shell: ExecShell) -> list[str]:
        return [f"{what} in {shell.label}" for what in leave(shell, run)]

    found = _find(client, told, len(names))
    shells = [ExecShell(name, container, client) for name, container in zip(names, found, strict=True)]
    return [line for lines in side_by_side(one, shells) for line in lines]


def shells(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, ExecShell]:
    """A way into each of those containers, by its id; nothing where they are not there any more."""
    client = engine()
    try:
        found = _find(client, told, len(names))
    except SplitbrainError:
        return {}
    return {
        str(container["Id"]): ExecShell(name, container, client)
        for name, container in zip(names, found, strict=True)
    }


class ContainerHosts(TakenHosts):
    """The hosts of one run."""

    def __init__(self, run: str, told: Mapping[str, Any], broker: Broker, verbs: Sequence[str] = ()) -> None:
        super().__init__(run, broker, verbs, install=told["install"], aside=told["aside"])
        self._told = told

    def _find(self, names: Sequence[str]) -> Sequence[TakenHost]:
        client = engine()
        found = _find(client, self._told, len(names))
        network = _network(found)
        return [
            ContainerHost(self.run, ExecShell(name, container, client), network, client)
            for name, container in zip(names, found, strict=True)
        ]


class ExecShell:
    """Commands as root in a container. `label` names it in errors: "n1 (container db-1)"."""

    def __init__(self, name: str, container: Mapping[str, Any], client: docker.DockerClient) -> None:
        self.name, self.container = name, container
        self.label = f"{name} (container {_name(container)})"
        self._api = client.api

    def run(self, command: str, data: bytes = b"", *, patience: float = ANSWER) -> Done:
        try:
            made = self._api.exec_create(
                self.container["Id"], ["env", PATH, "sh", "-c", command], stdin=True, user="root"
            )
            attached: Any = self._api.exec_start(made["Id"], socket=True)
            raw = getattr(attached, "_sock", attached)
            if not isinstance(raw, socket.socket):
                raise SplitbrainError("a Docker engine over TLS is not supported: use its unix socket, or plain TCP")
            raw.settimeout(0)
            output = read_ahead(attached)
            raw.settimeout(patience)
            with contextlib.suppress(OSError):  # it may not want its input
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
            output += b"".join(iter(lambda: raw.recv(1 << 16), b""))
            raw.close()
            code = self._api.exec_inspect(made["Id"])["ExitCode"]
        except TimeoutError:
            raise SplitbrainError(f"{self.label}: nothing came of {command.split()[0]!r} in {patience:g} s") from None
        except (DockerException, OSError) as error:
            raise SplitbrainError(f"{self.label}: nothing can be run there ({first_line(error)})") from None
        said: dict[int, bytes] = {1: b"", 2: b""}
        for stream, part in _frames(output):
            said[stream] = said.get(stream, b"") + part
        return Done(code, said[1], said[2].decode(errors="replace"))

    def root(self) -> None:
        done = self.run("id -u")
        if done.code or done.out.strip() != b"0":
            raise SplitbrainError(f"{self.label}: no shell of root's can be run there ({done.complaint})")

    def drop(self) -> None:
        """There is nothing to let go of."""


class ContainerHost(TakenHost):
    """One container."""

    def __init__(self, run: str, shell: ExecShell, network: str, client: docker.DockerClient) -> None:
        super().__init__(shell.name, run, shell)
        there = shell.container["NetworkSettings"]["Networks"][network]
        self.address = self.inside = there["IPAddress"]
        self.controller = there["Gateway"] or None
        self._docker = DockerHost(self.name, self.address, shell.container["Id"], client, self.controller)

    def connect(self) -> None:
        self.shell.root()

    async def run(self, argv: Sequence[str]) -> Channel:
        return await self._docker.run(argv)

    async def agent(self) -> Channel:
        linked = self.shell.run(f"ln -sfn {self._folder}/code {FOLDER}")
        if linked.code:
            raise self.error(f"our agent cannot be put there: {linked.complaint}")
        return await self.run(("env", PATH, f"{machine.MARK}={self._run}", *COMMAND))

    async def trouble(self) -> str | None:
        return await self._docker.trouble()


def _find(client: docker.DockerClient, told: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    """The containers, inspected, which must run. Raises SplitbrainError."""
    api = client.api
    with plainly("cannot see which containers there are"):
        names = told["containers"]
        if told["label"] is not None:
            found = api.containers(filters={"label": told["label"]})
            names = sorted(one["Names"][0].lstrip("/") for one in found)
            if len(names) != number:
                said = ", ".join(names) or "none"
                raise SplitbrainError(
                    f"{number} nodes, and the label {told['label']!r} is on {len(names)} containers that run ({said}): "
                    "say so many nodes, or name the containers"
                )
        inspected = []
        for name in names:
            try:
                container: dict[str, Any] = api.inspect_container(name)
            except NotFound:
                raise SplitbrainError(f"there is no container {name!r} on this machine's Docker engine") from None
            if not container["State"]["Running"]:
                raise SplitbrainError(f"the container {name} does not run: `docker start {name}` first")
            inspected.append(container)
    return inspected


def _network(containers: Sequence[Mapping[str, Any]]) -> str:
    """A network that all are on. Raises SplitbrainError."""
    on = [one["NetworkSettings"]["Networks"] for one in containers]
    shared = [name for name in on[0] if all(name in networks and networks[name]["IPAddress"] for networks in on)]
    if not shared:
        names = ", ".join(map(_name, containers))
        raise SplitbrainError(f"no network has all of {names}: connect them to one, with `docker network connect`")
    return str(shared[0])


def _name(container: Mapping[str, Any]) -> str:
    return str(container["Name"]).lstrip("/")


def _frames(output: bytes) -> Iterator[tuple[int, bytes]]:
    """What came of an exec: (1 stdout or 2 stderr, bytes), as the engine frames it."""
    at = 0
    while at + 8 <= len(output):
        size = int.from_bytes(output[at + 4 : at + 8], "big")
        yield output[at], output[at + 8 : at + 8 + size]
        at += 8 + size
