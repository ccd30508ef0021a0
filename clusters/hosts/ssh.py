"""Hosts over SSH: machines that are there, taken for a run and given back as they were.

What is put on a host is in one folder, /var/lib/splitbrain/RUN, and what is changed there is in a journal in it
(`clusters.agent.machine`). The agent runs by itself, listens on a socket in that folder, and is reached through
sessions that may drop (`clusters.hosts.sessions`). One run at a time is on a host, since brokers have their fixed ports
and paths.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shlex
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from paramiko.ssh_exception import SSHException

from chaos.kernel.clock import SECOND
from chaos.model.errors import SplitbrainError
from chaos.model.schedule import POWER_OFF, WIPE
from clusters.agent import detached, machine
from clusters.agent.link import FOLDER, sources
from clusters.brokers.base import Broker
from clusters.hosts.base import Bare, Channel, File, Host
from clusters.hosts.inventory import Inventory
from clusters.hosts.sessions import Session, Sessions
from clusters.hosts.shell import Shell

# What our faults use on a node: only those that need one miss it.
TOOLS = {"nft": "nftables", "tc": "iproute2", "/usr/lib/*/faketime/libfaketimeMT.so.1": "faketime"}
_INSTALL = 600.0  # seconds
_T = TypeVar("_T")

# Claims the host for the run: fails where another is, or something else bears our names.
_CLAIM = """
set -e
if [ -d {runs} ] && [ -n "$(ls {runs})" ]; then ls {runs}; exit 8; fi
if [ -e {folder} ] || [ -L {folder} ]; then exit 9; fi
mkdir -p -m 711 {runs}
mkdir -m 711 {run}
printf '%s\\n' '{{"made": "{folder}"}}' > {run}/journal.jsonl
"""
_UPLOAD = "mkdir -p -m 755 {run}/code && cd {run}/code && tar -xf -"
_START = """
ln -sfn {run}/code {folder}
cd /
setsid env {mark}={name} PYTHONPATH={folder} python3 -B -m clusters.agent.detached {run} \\
    < /dev/null > {run}/agent.log 2>&1 &
for wait in $(seq 200); do if [ -S {run}/agent.sock ]; then exit 0; fi; sleep 0.05; done
cat {run}/agent.log >&2
exit 1
"""


def clean(run: str, told: Inventory, names: Sequence[str]) -> list[str]:
    """Take back all that a run changed on its hosts; says what. Raises SplitbrainError when one cannot be reached."""
    shells = [Shell(f"{name} ({one})", one, told) for name, one in zip(names, told.machines, strict=True)]

    def one(shell: Shell) -> list[str]:
        shell.root()
        try:
            return [f"{what} on {shell.label}" for what in _leave(shell, run)]
        finally:
            shell.drop()

    return [line for lines in _side_by_side(one, shells) for line in lines]


class SshHosts:
    """The hosts of one run."""

    def __init__(self, run: str, told: Inventory, broker: Broker) -> None:
        self.run, self._told, self._broker = run, told, broker
        self._hosts: list[SshHost] = []
        self._claimed: list[SshHost] = []

    def refused(self) -> Mapping[str, str]:
        return {
            POWER_OFF: "a host over SSH would not come back by itself, and anything less loses nothing that was not "
            "synced; a simulated cluster can do it",
            WIPE: "nobody would bring a broker back into a cluster that it has forgotten; a simulated cluster can",
        }

    async def prepare(self, report: Callable[[str], None]) -> Mapping[str, str]:
        return {}

    async def up(self, names: Sequence[str], report: Callable[[str], None]) -> Sequence[Host]:
        self._hosts = [
            SshHost(name, self.run, Shell(f"{name} ({one})", one, self._told), self._told.silence / SECOND, one.inside)
            for name, one in zip(names, self._told.machines, strict=True)
        ]
        taking = asyncio.ensure_future(asyncio.to_thread(self._up, report))
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

    def _up(self, report: Callable[[str], None]) -> None:
        hosts = self._hosts
        _side_by_side(SshHost.connect, hosts)
        addresses = {host.name: host.inside for host in hosts}
        for host in hosts:
            for other in hosts:
                if other is not host and other.inside == host.inside:
                    raise SplitbrainError(f"{host.label} and {other.label} are one machine: {host.inside}")
                if other is not host and other.inside == host.controller:
                    raise host.error(f"it sees us come from {other.label}: run this on a machine that is not a node")
        bare = bare_of(self._broker, addresses)
        _side_by_side(self._claim, hosts)
        _side_by_side(lambda host: self._check(host, bare, addresses, report), hosts)
        for host in hosts:
            host.env = {machine.MARK: self.run, **bare.env}
        for host, did in zip(hosts, _side_by_side(lambda host: host.take(bare), hosts), strict=True):
            if did["stopped"]:
                report(f"{host.label}: stopped {', '.join(did['stopped'])} until the end")
            if did["aside"]:
                report(f"{host.label}: moved aside what was in {', '.join(did['aside'])} until the end")
        report(f"{len(hosts)} hosts over SSH")

    def _claim(self, host: SshHost) -> None:
        host.claim()
        self._claimed.append(host)
        host.upload()

    def _check(self, host: SshHost, bare: Bare, addresses: Mapping[str, str], report: Callable[[str], None]) -> None:
        """Raises SplitbrainError for a host that cannot be a node, before anything on it is changed."""
        peers = [address for name, address in addresses.items() if name != host.name]
        tools = TOOLS if self._told.install else {}

        def look() -> dict[str, Any]:
            needs = {**bare.needs, **tools}
            return host.ask("look", needs=needs, version=bare.version, data=bare.data, peers=peers)

        found = look()
        if found["data"] and not self._told.aside:
            raise host.error(
                f"its broker has data in {', '.join(found['data'])}: if it may be stopped for the run, and its data "
                "moved aside and back in the end, say so with aside = true"
            )
        if found["missing"]:
            packages = sorted({*found["missing"].values()})
            if not self._told.install:
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

        def one(host: SshHost) -> None:
            try:
                if host in self._claimed:
                    _leave(host.shell, self.run)
                    self._claimed.remove(host)
            except SplitbrainError as error:
                problems.append(str(error))
            finally:
                host.shell.drop()

        _side_by_side(one, self._hosts)
        if problems:
            later = f"`splitbrain clean {self.run}` does, later"
            raise SplitbrainError(f"what the run made cannot be removed ({later}): {'; '.join(problems)}")


class SshHost:
    """One machine. Its methods that are not coroutines block."""

    def __init__(self, name: str, run: str, shell: Shell, silence: float, inside: str | None) -> None:
        self.name, self.label, self.shell = name, shell.label, shell
        self.address, self.inside = "", inside or ""
        self.controller: str | None = None
        self.env: Mapping[str, str] = {}
        self.first: Sequence[tuple[str, Mapping[str, Any]]] = ()
        self._run, self._silence = run, silence
        self._folder = f"{machine.RUNS}/{run}"
        self._sessions: Sessions | None = None

    def error(self, problem: str) -> SplitbrainError:
        return SplitbrainError(f"{self.label}: {problem}")

    def connect(self) -> None:
        """Become root there, and see who sees whom."""
        self.shell.root()
        peer = self.shell.transport().getpeername()
        self.address = str(peer[0])
        self.inside = self.inside or self.address
        seen = self.shell.run('echo "$SSH_CONNECTION"', root=False).out.decode().split()
        if len(seen) != 4:
            raise self.error("its sshd does not say where we come from (SSH_CONNECTION): is it OpenSSH?")
        self.controller = seen[0]
        self.first = (
            ("silence", {"seconds": self._silence}),
            ("spare", {"address": seen[0], "port": int(seen[3])}),
        )
        for tool, package in (("python3", "python3"), ("tar", "tar")):
            if self.shell.run(f"command -v {tool}", root=False).code:
                raise self.error(f"it has no {tool}: apt-get install {package} there")
        if self.shell.run("python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'").code:
            raise self.error("its python3 is older than 3.11, which our agent needs: a newer system has one")

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

    async def put(self, files: Sequence[File]) -> None:
        done = await asyncio.to_thread(self.shell.run, "tar -xf - -C /", packed(files))
        if done.code:
            raise self.error(f"cannot write files: {done.complaint}")

    async def run(self, argv: Sequence[str]) -> Channel:
        return await self._begin(shlex.join(argv))

    async def agent(self) -> Channel:
        done = await asyncio.to_thread(self.shell.run, self._script(_START))
        if done.code:
            raise self.error(f"our agent does not start: {done.complaint}")
        relay = f"cd / && PYTHONPATH={FOLDER} exec python3 -B -m clusters.agent.relay {self._folder}/{detached.SOCKET}"
        self._sessions = Sessions(lambda: self._begin(relay), self.shell.drop)
        return self._sessions

    async def read(self, path: str, limit: int) -> bytes:
        command = f"[ ! -e {shlex.quote(path)} ] || tail -c {limit} {shlex.quote(path)}"
        done = await asyncio.to_thread(self.shell.run, command)
        if done.code:
            raise self.error(f"cannot read {path}: {done.complaint}")
        return done.out

    async def trouble(self) -> str | None:
        return None if self._sessions is None else self._sessions.complaints() or None

    async def _begin(self, command: str) -> Session:
        try:
            channel = await asyncio.to_thread(self.shell.start, command)
        except (SSHException, OSError, EOFError) as error:
            self.shell.drop()
            raise self.error(f"the session was lost ({str(error) or type(error).__name__})") from None
        return Session(channel, self.shell.ahead())

    def _script(self, text: str) -> str:
        return text.format(runs=machine.RUNS, run=self._folder, folder=FOLDER, mark=machine.MARK, name=self._run)


def bare_of(broker: Any, addresses: Mapping[str, str]) -> Bare:
    """How a broker is run on such machines. Raises SplitbrainError when it does not say."""
    bare: Callable[[Mapping[str, str]], Bare] | None = getattr(broker, "bare", None)
    if bare is None:
        raise SplitbrainError("this broker does not say how it is run on hosts over SSH (`bare`)")
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


def _leave(shell: Shell, run: str) -> list[str]:
    """Take back what a run changed; what that was. Nothing, where it has no folder there (any more)."""
    folder = f"{machine.RUNS}/{run}"
    for last in (False, True):
        try:
            if shell.run(f"[ -d {shlex.quote(folder)} ]").code:
                return []
            upload(shell, shlex.quote(folder))
            return list(_ask(shell, folder, "leave", 120.0, {"run": run})["removed"])
        except SplitbrainError:
            if last:
                raise
            shell.drop()  # the session may have been lost: once more on another
    raise AssertionError


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


def _side_by_side(work: Callable[[Any], _T], things: Sequence[Any]) -> list[_T]:
    """Each in a thread of its own, all to their end. Raises the first failure then."""
    with ThreadPoolExecutor(max(1, len(things))) as pool:
        futures = [pool.submit(work, thing) for thing in things]
    return [future.result() for future in futures]
