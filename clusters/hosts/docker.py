"""Hosts in Docker: a container a node on a private network of the run, all labelled with the run."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import IPAMConfig, IPAMPool

from chaos.model.errors import SplitbrainError
from chaos.model.schedule import OWN_DISK, STARVE, WIPE
from clusters.agent.link import COMMAND, sources
from clusters.base import Unable
from clusters.hosts import kernel, owner
from clusters.hosts.base import Channel, File, Host, Image
from clusters.hosts.engine import engine, first_line, plainly
from clusters.images.build import ensure

LABEL = "splitbrain.run"
NODE = "splitbrain.node"
OWNER = "splitbrain.owner"  # which controller made it (see `owner`)
MEMORY = "1g"  # of a container: so that a broker gone wild does not take the machine with it
_IDLE = ["sleep", "infinity"]
_LOOKS, _BETWEEN_LOOKS = 8, 0.25
_GONE = "its container is gone: something else stopped or removed it"
_NO_SUBNET = ("overlaps", "non-overlapping", "no available network", "fully subnetted")  # as versions have it
SUBNETS = tuple(f"10.213.{block}.0/26" for block in range(100))  # tried when the engine's own pools are used up


def runs() -> dict[str, str | None]:
    """Every run that anything on this engine was made by, and who holds it now; None where nobody does any more.

    Raises SplitbrainError when no engine answers.
    """
    api = engine().api
    with plainly("cannot see what there is"):
        found = [*api.containers(all=True, filters={"label": LABEL}), *api.networks(filters={"label": LABEL})]
        found += api.volumes(filters={"label": LABEL})["Volumes"] or ()
    held: dict[str, str | None] = {}
    for labels in sorted((thing["Labels"] for thing in found), key=lambda labels: str(labels[LABEL])):
        run = labels[LABEL]
        held[run] = held.get(run) or owner.holder(labels.get(OWNER, ""))
    return held


def clean(run: str) -> list[str]:
    """Remove every container, network and volume that a run made; says what.

    Raises SplitbrainError when no engine answers, or something could not be removed.
    """
    api = engine().api
    label = {"label": f"{LABEL}={run}"}
    removed = []
    with plainly("cannot clean up"):
        for container in api.containers(all=True, filters=label):
            _remove(api, container["Id"])
            removed.append(f"container {container['Names'][0].lstrip('/')}")
        for network in api.networks(filters=label):
            _remove_network(api, network["Id"])
            removed.append(f"network {network['Name']}")
        for volume in api.volumes(filters=label)["Volumes"] or ():
            with contextlib.suppress(NotFound):
                api.remove_volume(volume["Name"], force=True)
                removed.append(f"volume {volume['Name']}")
    return removed


class DockerHosts:
    """The hosts of one run, made of an image of ours, or of one that is here and has that name; `verbs` are those of
    the run's faults, of which some need more rights than a container has."""

    def __init__(self, run: str, image: Image | str, verbs: Sequence[str] = ()) -> None:
        self.run, self.image, self._verbs, self._allowed = run, image, verbs, rights(verbs)
        self._tag = image if isinstance(image, str) else image.tag
        self.controller: str | None = None
        self._client: docker.DockerClient | None = None
        self._made = False

    def refused(self) -> Mapping[str, str]:
        return {
            WIPE: "nobody would bring a broker back into a cluster that it has forgotten; a simulated cluster can",
        }

    async def prepare(self, report: Callable[[str], None]) -> Mapping[str, str]:
        await asyncio.to_thread(self._refuse)
        image, given_up = self.image, threading.Event()
        if isinstance(image, str):
            return {"image": await asyncio.to_thread(_found, image)}
        making = asyncio.ensure_future(
            asyncio.to_thread(ensure, image.folder, image.tag, image.base, report, given_up.is_set)
        )
        try:
            return {"image": await asyncio.shield(making)}
        except asyncio.CancelledError:
            given_up.set()
            await asyncio.gather(making, return_exceptions=True)  # so that the engine has been told to stop building
            raise

    async def up(self, names: Sequence[str], report: Callable[[str], None]) -> Sequence[Host]:
        self._client = await asyncio.to_thread(engine)
        making = asyncio.ensure_future(asyncio.to_thread(self._up, names))
        try:
            hosts = await asyncio.shield(making)
        except BaseException:
            # threads cannot be cancelled: one that still makes a container must not outlive the removal of all
            await asyncio.gather(making, return_exceptions=True)
            await self.down()
            raise
        report(f"{len(hosts)} containers of {self._tag}")
        return hosts

    async def down(self) -> None:
        if self._made:
            await asyncio.shield(asyncio.to_thread(self._down))
            self._made = False

    def _refuse(self) -> None:
        """Raises Unable for what the engine's kernel is known not to do."""
        if not any(verb in kernel.NEEDS for verb in self._verbs):
            return
        with plainly("cannot ask which kernel it runs on"):
            release = str(engine().api.info()["KernelVersion"])
        if (found := kernel.lacks(self._verbs, kernel.configuration(release))) is not None:
            raise Unable(*found)

    def _up(self, names: Sequence[str]) -> list[DockerHost]:
        network = self._network()
        with ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(lambda name: self._container(name, network), names))

    def _down(self) -> None:
        assert self._client is not None
        # and of ours only what is ours: two runs may come by one id in one moment, in different stores
        api, label = self._client.api, {"label": [f"{LABEL}={self.run}", f"{OWNER}={owner.me()}"]}
        with plainly(f"what the run made cannot be removed (`splitbrain clean {self.run}` does, later)"):
            found = [container["Id"] for container in api.containers(all=True, filters=label)]
            with ThreadPoolExecutor(max(1, len(found))) as pool:
                list(pool.map(lambda one: _remove(api, one), found))
            for network in api.networks(filters=label):
                _remove_network(api, network["Id"])
        self._client.close()

    def _network(self) -> str:
        assert self._client is not None
        name = f"splitbrain-{self.run}"
        labels = {LABEL: self.run, OWNER: owner.me()}
        problem = ""
        for subnet in (None, *SUBNETS):  # the engine picks best: it knows the host's routes
            ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]) if subnet else None
            try:
                made = self._client.api.create_network(
                    name, driver="bridge", labels=labels, ipam=ipam, check_duplicate=True
                )
                self._made = True  # and no sooner: whatever bears our label from now on is ours
                details = self._client.api.inspect_network(made["Id"])
            except (DockerException, OSError) as error:
                problem = first_line(error)
                if "already exists" in problem:
                    raise SplitbrainError(
                        f"there is a network {name} already: another run of the same id is going on, or was killed; "
                        "wait a second for another id, or remove it with `splitbrain clean`"
                    ) from None
                if not any(sign in problem for sign in _NO_SUBNET):
                    raise SplitbrainError(f"cannot make the run's network {name}: {problem}") from None
            else:
                self.controller = details["IPAM"]["Config"][0].get("Gateway") or None
                return name
        raise SplitbrainError(
            f"no free subnet for the run's network: the engine's own pools and {SUBNETS[0]} to {SUBNETS[-1]} are taken "
            f"(last: {problem}); `splitbrain clean --all` removes those of dead runs"
        )

    def _container(self, name: str, network: str) -> DockerHost:
        assert self._client is not None
        api = self._client.api
        full = f"splitbrain-{self.run}-{name}"
        with plainly(f"cannot start container {full}"):
            made = api.create_container(
                self._tag,
                _IDLE[1:],
                name=full,
                hostname=name,
                entrypoint=_IDLE[:1],  # whatever the image would start by itself: brokers are ours to start
                user="root",
                labels={LABEL: self.run, NODE: name, OWNER: owner.me()},
                host_config=api.create_host_config(init=True, mem_limit=MEMORY, **self._allowed),
                networking_config=api.create_networking_config(
                    {network: api.create_endpoint_config(aliases=[name])}  # type: ignore[arg-type]  # wrong stub
                ),
            )
            api.start(made["Id"])
            details = api.inspect_container(made["Id"])
        address = details["NetworkSettings"]["Networks"][network]["IPAddress"]
        self.controller = self.controller or details["NetworkSettings"]["Networks"][network]["Gateway"]
        return DockerHost(name, address, made["Id"], self._client, self.controller)


class DockerHost:
    """One node's container."""

    first: Sequence[tuple[str, Mapping[str, Any]]] = ()
    env: Mapping[str, str] = {}

    def __init__(
        self, name: str, address: str, container: str, client: docker.DockerClient, controller: str | None
    ) -> None:
        self.name = self.label = name
        self.address = self.inside = address
        self.controller = controller
        self._container, self._api = container, client.api

    async def put(self, files: Sequence[File]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for file in files:
                info = tarfile.TarInfo(file.path.lstrip("/"))
                info.size, info.mode = len(file.data), file.mode
                archive.addfile(info, io.BytesIO(file.data))
        with plainly(f"{self.name}: cannot write files"):
            await asyncio.to_thread(self._api.put_archive, self._container, "/", packed.getvalue())

    async def run(self, argv: Sequence[str]) -> Channel:
        with plainly(f"{self.name}: cannot run {argv[0]}"):
            attached = await asyncio.to_thread(self._attach, list(argv))
            return await ExecChannel.open(attached)

    async def agent(self) -> Channel:
        await self.put(sources())
        return await self.run(COMMAND)

    async def read(self, path: str, limit: int) -> bytes:
        with plainly(f"{self.name}: cannot read {path}"):
            return await asyncio.to_thread(self._read, path, limit)

    async def trouble(self) -> str | None:
        for look in range(_LOOKS):  # a container that is being stopped goes on running for a moment
            if look:
                await asyncio.sleep(_BETWEEN_LOOKS)
            try:
                state = (await asyncio.to_thread(self._api.inspect_container, self._container))["State"]
            except NotFound:
                return _GONE
            except (DockerException, OSError) as error:
                return f"the Docker engine does not answer any more ({first_line(error)})"
            if not state["Running"]:
                break
        else:
            return None
        return "its container was killed for want of memory" if state.get("OOMKilled") else _GONE

    def _attach(self, argv: list[str]) -> Any:
        made = self._api.exec_create(self._container, argv, stdin=True, user="root")
        return self._api.exec_start(made["Id"], socket=True)

    def _read(self, path: str, limit: int) -> bytes:
        try:
            chunks, _ = self._api.get_archive(self._container, path)
        except NotFound:
            return b""
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            member = archive.next()
            content = archive.extractfile(member) if member else None
            return content.read()[-limit:] if content else b""


class ExecChannel:
    """The socket of a docker exec, whose output comes in frames: stream (1 stdout, 2 stderr), 0 0 0, length, bytes."""

    def __init__(self, attached: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._attached = attached  # keeps the response, and so the socket, from being collected
        self._reader, self._writer = reader, writer
        self._rest = b""
        self._stderr: deque[bytes] = deque(maxlen=50)

    @staticmethod
    async def open(attached: Any) -> ExecChannel:
        """Take over the socket that docker's `exec_start(socket=True)` gave. Raises SplitbrainError over TLS."""
        raw = getattr(attached, "_sock", attached)
        if not isinstance(raw, socket.socket):
            raise SplitbrainError("a Docker engine over TLS is not supported: use its unix socket, or plain TCP")
        raw.settimeout(0)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        reader.feed_data(read_ahead(attached))
        transport, protocol = await loop.create_connection(lambda: asyncio.StreamReaderProtocol(reader), sock=raw)
        return ExecChannel(attached, reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def readline(self) -> bytes:
        while b"\n" not in self._rest:
            try:
                head = await self._reader.readexactly(8)
                data = await self._reader.readexactly(int.from_bytes(head[4:], "big"))
            except (asyncio.IncompleteReadError, OSError):
                return b""
            if head[0] == 2:
                self._stderr.append(data)
            else:
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write_eof()

    def complaints(self) -> str:
        return b"".join(self._stderr).decode(errors="replace")


def read_ahead(attached: Any) -> bytes:
    """What came of an exec's output together with the head of the engine's answer: whoever read that head has it, and
    docker's SDK hands out only the socket beneath. The socket must not block."""
    response = getattr(attached, "_response", None)
    if response is None:
        return b""
    buffered = response.raw._fp.fp
    return bytes(buffered.read(len(buffered.peek())))


def rights(verbs: Sequence[str]) -> dict[str, Any]:
    """What containers may do that are to be hurt so: mount a disk of their own over a loop device, or their control
    groups as writable; only where that is needed, since who may mount may do much."""
    if not any(verb in (*OWN_DISK, STARVE) for verb in verbs):
        return {"cap_add": ["NET_ADMIN"]}
    return {
        "cap_add": ["NET_ADMIN", "SYS_ADMIN"],
        "security_opt": ["apparmor=unconfined"],  # else mounting is denied to whatever has the right to
        "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],  # loop devices, and what hands them out
    }


def _found(image: str) -> str:
    """The id, with the name, of an image that somebody made. Raises SplitbrainError when there is none of that name."""
    with plainly(f"cannot see whether there is an image {image}"):
        api: Any = engine().api
        try:
            return f"{image} {api.inspect_image(image)['Id']}"
        except NotFound:
            pass
    raise SplitbrainError(
        f"no image {image!r} on this machine's Docker engine; docker pull or docker load it, or leave the image out, "
        "and one is built"
    )


def _remove(api: Any, container: str) -> None:
    try:
        api.remove_container(container, force=True, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):  # gone, or being removed by another
            raise


def _remove_network(api: Any, network: str) -> None:
    for patience in range(20, -1, -1):
        try:
            api.remove_network(network)
        except NotFound:
            return
        except APIError as error:
            if not patience or error.status_code != 403:  # in use by a container that another is still removing
                raise
            time.sleep(0.25)
        else:
            return
