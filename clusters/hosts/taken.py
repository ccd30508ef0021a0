"""Machines that are there, taken for a run and given back as they were: what hosts over SSH and somebody's own
containers share.

What is put on a machine is in one folder, /var/lib/splitbrain/RUN, and what is changed there is in a journal in it
(`clusters.agent.machine`). One run at a time is on a machine, since brokers have their fixed ports and paths.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shlex
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from chaos.model.errors import SplitbrainError
from chaos.model.schedule import LIMITS, OWN_DISK, WIPE
from clusters.agent import machine
from clusters.agent.link import FOLDER, sources
from clusters.base import Unable
from clusters.brokers.base import Broker
from clusters.hosts.base import Bare, Channel, File, Host

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What our faults use on a node: only those that need one miss it.
TOOLS = {
    "nft": "nftables",
    "tc": "iproute2",
    "/usr/lib/*/faketime/libfaketimeMT.so.1": "faketime",
    "mkfs.ext4": "e2fsprogs",
}
ANSWER = 60.0  # seconds that a command may say nothing
_INSTALL = 600.0  # seconds
_T = TypeVar("_T")

# Claims the machine for the run: fails where another is, or something else bears our names.
_CLAIM = """
set -e
if [ -d {runs} ] && [ -n "$(ls {runs})" ]; then ls {runs}; exit 8; fi
if [ -e {folder} ] || [ -L {folder} ]; then exit 9; fi
mkdir -p -m 711 {runs}
mkdir -m 711 {run}
printf '%s\\n' '{{"made": "{folder}"}}' > {run}/journal.jsonl
"""
_UPLOAD = "mkdir -p -m 755 {run}/code && cd {run}/code && tar -xf -"


class Done:
    """What a command came to."""

    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def complaint(self) -> str:
        """The last line that it complained with."""
        said = self.err.strip() or self.out.decode(errors="replace").strip()
        return (said or f"exit code {self.code}").splitlines()[-1]


class Shell(Protocol):
    """Commands as root on a machine. Both methods block."""

    label: str

    def root(self) -> None:
        """See to it that commands are root's, before any. Raises SplitbrainError."""

    def run(self, command: str, data: bytes = b"", *, patience: float = ANSWER) -> Done:
        """A command of sh's to its end, `data` its input. Raises SplitbrainError when the machine is out of reach."""

    def drop(self) -> None:
        """Let go of the way there; the next command makes another."""


class TakenHosts(ABC):
    """The hosts of one run. verbs: of its faults. install: what is missing is installed. aside: somebody's data may be
    moved aside."""

    def __init__(self, run: str, broker: Broker, verbs: Sequence[str], *, install: bool, aside: bool) -> None:
        self.run, self._broker, self._verbs, self._install, self._may_move = run, broker, verbs, install, aside
        self._hosts: Sequence[TakenHost] = ()
        self._claimed: list[TakenHost] = []

    @abstractmethod
    def _find(self, names: Sequence[str]) -> Sequence[TakenHost]:
        """The hosts for the nodes of these names; nothing is done to them yet. Raises SplitbrainError."""

    def refused(self) -> Mapping[str, str]:
        return {
            WIPE: "nobody would bring a broker back into a cluster that it has forgotten; a simulated cluster can",
        }

    async def prepare(self, report: Callable[[str], None]) -> Mapping[str, str]:
        return {}

    async def up(self, names: Sequence[str], report: Callable[[str], None]) -> Sequence[Host]:
        taking = asyncio.ensure_future(asyncio.to_thread(self._up, names, report))
        try:
            await asyncio.shield(taking)
        except BaseException:
            await asyncio.gather(taking, return_exceptions=True)  # threads cannot be cancelled
            await self.down()
            raise
        return self._hosts

    async def down(self) -> None:
        if self._hosts:
            await asyncio.shield(asyncio.to_thread(self._down))

    def _up(self, names: Sequence[str], report: Callable[[str], None]) -> None:
        hosts = self._hosts = self._find(names)
        side_by_side(lambda host: host.connect(), hosts)
        side_by_side(lambda host: host.need(), hosts)
        addresses = {host.name: host.inside for host in hosts}
        for host in hosts:
            for other in hosts:
                if other is not host and other.inside == host.inside:
                    raise SplitbrainError(f"{host.label} and {other.label} are one machine: {host.inside}")
                if other is not host and other.inside == host.controller:
                    raise host.error(f"it sees us come from {other.label}: run this on a machine that is not a node")
        self._broker.reach = addresses
        bare = bare_of(self._broker, addresses)
        side_by_side(self._claim, hosts)
        side_by_side(lambda host: self._check(host, bare, addresses, report), hosts)
        for host in hosts:
            host.env = {machine.MARK: self.run, **bare.env}
        for host, did in zip(hosts, side_by_side(lambda host: host.take(bare), hosts), strict=True):
            if did["stopped"]:
                report(f"{host.label}: stopped {', '.join(did['stopped'])} until the end")
            if did["aside"]:
                report(f"{host.label}: moved aside what was in {', '.join(did['aside'])} until the end")
        report(f"{len(hosts)} machines taken")

    def _claim(self, host: TakenHost) -> None:
        host.claim()
        self._claimed.append(host)
        host.upload()

    def _check(
        self, host: TakenHost, bare: Bare, addresses: Mapping[str, str], report: Callable[[str], None]
    ) -> None:
        """Raises SplitbrainError for a host that cannot be a node, before anything on it is changed."""
        peers = [address for name, address in addresses.items() if name != host.name]
        tools = TOOLS if self._install else {}

        def look() -> dict[str, Any]:
            needs = {**bare.needs, **tools}
            return host.ask(
                "look", run=self.run, needs=needs, version=bare.version, data=bare.data, peers=peers,
                verbs=list(self._verbs),
                disk=[verb for verb in self._verbs if verb in OWN_DISK],
                limits={verb: LIMITS[verb] for verb in self._verbs if verb in LIMITS},
            )  # fmt: skip

        found = look()
        if found["data"] and not self._may_move:
            raise host.error(
                f"its broker has data in {', '.join(found['data'])}: if it may be stopped for the run, and its data "
                "moved aside and back in the end, say so with aside = true"
            )
        if theirs := [tool for tool in found["missing"] if not found["missing"][tool]]:
            raise host.error(f"it has no {', no '.join(theirs)}: {bare.maker}")
        if found["missing"]:
            packages = sorted({*found["missing"].values()})
            if not self._install:
                raise host.error(
                    f"it has no {', no '.join(found['missing'])}: apt-get install {' '.join(packages)} there, or say "
                    "install = true"
                )
            report(f"{host.label}: installing {', '.join(packages)}")
            host.ask("install", run=self.run, packages=packages, patience=_INSTALL)
            found = look()
            if found["missing"]:
                left = ", no ".join(found["missing"])
                raise host.error(f"it has no {left}, even with {', '.join(packages)} installed")
        version = found["version"] or "no version"
        if (why := self._broker.refuses(version)) is not None:
            raise host.error(f"it has {version}: {why}")
        for verb, unable in found["unable"].items():
            raise Unable(verb, f"{host.label}: {unable}")
        for peer, source in found["ways"].items():
            if source is None:
                raise host.error(f"it has no way to {peer}: the hosts must reach one another")
            if source != host.inside:
                raise host.error(
                    f"the other hosts see it come from {source}, and not from {host.inside}: say inside = "
                    f'"{source}" for it'
                )

    def _down(self) -> None:
        problems: list[str] = []

        def one(host: TakenHost) -> None:
            try:
                if host in self._claimed:
                    leave(host.shell, self.run)
                    self._claimed.remove(host)
            except SplitbrainError as error:
                problems.append(str(error))
            finally:
                host.shell.drop()

        side_by_side(one, self._hosts)
        if problems:
            later = f"`splitbrain clean {self.run}` does, later"
            raise SplitbrainError(f"what the run made cannot be removed ({later}): {'; '.join(problems)}")


class TakenHost(ABC):
    """One machine. Its methods that are not coroutines block."""

    def __init__(self, name: str, run: str, shell: Shell) -> None:
        self.name, self.label, self.shell = name, shell.label, shell
        self.address = self.inside = ""
        self.controller: str | None = None
        self.env: Mapping[str, str] = {}
        self.first: Sequence[tuple[str, Mapping[str, Any]]] = ()
        self._run, self._folder = run, f"{machine.RUNS}/{run}"

    @abstractmethod
    def connect(self) -> None:
        """Reach it, and see where it is for whom. Raises SplitbrainError."""

    @abstractmethod
    async def run(self, argv: Sequence[str]) -> Channel:
        """See `clusters.hosts.base.Host`."""

    @abstractmethod
    async def agent(self) -> Channel:
        """See `clusters.hosts.base.Host`."""

    @abstractmethod
    async def trouble(self) -> str | None:
        """See `clusters.hosts.base.Host`."""

    def error(self, problem: str) -> SplitbrainError:
        return SplitbrainError(f"{self.label}: {problem}")

    def claim(self) -> None:
        """Have it for this run alone. Raises SplitbrainError where another run is."""
        done = self.shell.run(self._script(_CLAIM))
        if done.code == 8:
            other = done.out.decode().split()[0]
            raise self.error(f"the run {other} is on it: wait for its end, or `splitbrain clean {other}`")
        if done.code == 9:
            raise self.error(f"there is a {FOLDER} on it that is not ours: move it away")
        if done.code:
            raise self.error(f"no folder {self._folder} can be made there: {done.complaint}")

    def upload(self) -> None:
        """Put our agent there."""
        upload(self.shell, self._folder)

    def ask(self, verb: str, *, patience: float = 60.0, **arguments: Any) -> dict[str, Any]:
        """One request to `clusters.agent.machine`. Raises SplitbrainError."""
        return _ask(self.shell, self._folder, verb, patience, arguments)

    def take(self, bare: Bare) -> dict[str, Any]:
        """Make room for the broker."""
        files = [
            {"path": f.path, "data": base64.b64encode(f.data).decode(), "mode": f.mode, "user": f.user}
            for f in bare.files
        ]
        return self.ask(
            "take", run=self._run, services=list(bare.units), ports=list(bare.ports), folders=list(bare.folders),
            made=list(bare.made), users=list(bare.users), files=files,
            commands=[list(command) for command in bare.commands],
        )  # fmt: skip

    def need(self) -> None:
        """Raises SplitbrainError for what we cannot even look with."""
        for tool in ("python3", "tar"):
            if self.shell.run(f"command -v {tool}").code:
                raise self.error(f"it has no {tool}: apt-get install {tool} there")
        if self.shell.run("python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'").code:
            raise self.error("its python3 is older than 3.11, which our agent needs: a newer system has one")

    async def put(self, files: Sequence[File]) -> None:
        done = await asyncio.to_thread(self.shell.run, "tar -xf - -C /", packed(files))
        if done.code:
            raise self.error(f"cannot write files: {done.complaint}")

    async def read(self, path: str, limit: int) -> bytes:
        command = f"[ ! -e {shlex.quote(path)} ] || tail -c {limit} {shlex.quote(path)}"
        done = await asyncio.to_thread(self.shell.run, command)
        if done.code:
            raise self.error(f"cannot read {path}: {done.complaint}")
        return done.out

    def _script(self, text: str) -> str:
        return text.format(runs=machine.RUNS, run=self._folder, folder=FOLDER, mark=machine.MARK, name=self._run)


def bare_of(broker: Any, addresses: Mapping[str, str]) -> Bare:
    """How a broker is run on such machines. Raises SplitbrainError when it does not say."""
    bare: Callable[[Mapping[str, str]], Bare] | None = getattr(broker, "bare", None)
    if bare is None:
        raise SplitbrainError("this broker does not say how it is run on machines that are there (`bare`)")
    return bare(addresses)


def packed(files: Iterable[File], strip: str = "/") -> bytes:
    """Files as a tar, all root's, their names without what is to be stripped."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for file in files:
            info = tarfile.TarInfo(file.path.removeprefix(strip).lstrip("/"))
            info.size, info.mode = len(file.data), file.mode
            archive.addfile(info, io.BytesIO(file.data))
    return data.getvalue()


def upload(shell: Shell, folder: str) -> None:
    """Put our code into a run's folder on a host. Raises SplitbrainError."""
    done = shell.run(_UPLOAD.format(run=folder), packed(sources(), FOLDER))
    if done.code:
        raise SplitbrainError(f"{shell.label}: our agent cannot be put there: {done.complaint}")


def leave(shell: Shell, run: str) -> list[str]:
    """Take back what a run changed; what that was. Nothing, where it has no folder there (any more)."""
    folder = f"{machine.RUNS}/{run}"
    for last in (False, True):
        try:
            there = shell.run(f"if [ -d {shlex.quote(folder)} ]; then echo there; else echo gone; fi").out.strip()
            if there == b"gone":
                return []
            if there != b"there":  # a session that was lost says nothing, which is no answer
                raise SplitbrainError(f"{shell.label}: nobody can say whether the run {run} left anything there")
            upload(shell, shlex.quote(folder))
            return list(_ask(shell, folder, "leave", 120.0, {"run": run})["removed"])
        except SplitbrainError:
            if last:
                raise
            shell.drop()  # the session may have been lost: once more on another
    raise AssertionError


def present(shell: Shell) -> list[str]:
    """The runs that have a folder on a host. Raises SplitbrainError when it is out of reach."""
    return shell.run(f"ls {machine.RUNS} 2> /dev/null").out.decode(errors="replace").split()


def _ask(shell: Shell, folder: str, verb: str, patience: float, arguments: Mapping[str, Any]) -> dict[str, Any]:
    command = f"cd / && PYTHONPATH={shlex.quote(folder)}/code exec python3 -B -m clusters.agent.machine {verb}"
    done = shell.run(command, json.dumps(arguments).encode(), patience=patience)
    try:
        answer = json.loads(done.out)
    except ValueError:
        raise SplitbrainError(f"{shell.label}: {verb} failed there: {done.complaint}") from None
    if "error" in answer:
        raise SplitbrainError(f"{shell.label}: {answer['error']}")
    found: dict[str, Any] = answer["done"]
    return found


def side_by_side(work: Callable[[Any], _T], things: Sequence[Any]) -> list[_T]:
    """Each in a thread of its own, all to their end. Raises the first failure then."""
    with ThreadPoolExecutor(max(1, len(things))) as pool:
        futures = [pool.submit(work, thing) for thing in things]
    return [future.result() for future in futures]
