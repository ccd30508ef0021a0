"""Hosts over SSH: machines taken for a run (`clusters.hosts.taken`).

The agent runs there by itself, listens on a socket in the run's folder, and is reached through sessions that may drop
(`clusters.hosts.sessions`).
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence

from paramiko.ssh_exception import SSHException

from chaos.kernel.clock import SECOND
from clusters.agent import detached
from clusters.agent.link import FOLDER
from clusters.brokers.base import Broker
from clusters.hosts.base import Channel
from clusters.hosts.inventory import Inventory
from clusters.hosts.sessions import Session, Sessions
from clusters.hosts.shell import SshShell
from clusters.hosts.taken import TakenHost, TakenHosts, leave, side_by_side

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

    def one(shell: SshShell) -> list[str]:
        shell.root()
        try:
            return [f"{what} on {shell.label}" for what in leave(shell, run)]
        finally:
            shell.drop()

    return [line for lines in side_by_side(one, list(shells(told, names).values())) for line in lines]


def shells(told: Inventory, names: Sequence[str]) -> dict[str, SshShell]:
    """A way to each of those hosts, by what it is whatever a run calls it; none is gone yet."""
    there = zip(names, told.machines, strict=True)
    return {f"{one.address}:{one.port}": SshShell(f"{name} ({one})", one, told) for name, one in there}


class SshHosts(TakenHosts):
    """The hosts of one run."""

    def __init__(self, run: str, told: Inventory, broker: Broker, verbs: Sequence[str] = ()) -> None:
        super().__init__(run, broker, verbs, install=told.install, aside=told.aside)
        self._told = told

    def _find(self, names: Sequence[str]) -> Sequence[TakenHost]:
        told = self._told
        return [
            SshHost(name, self.run, SshShell(f"{name} ({one})", one, told), told.silence / SECOND, one.inside)
            for name, one in zip(names, told.machines, strict=True)
        ]


class SshHost(TakenHost):
    """One machine."""

    def __init__(self, name: str, run: str, shell: SshShell, silence: float, inside: str | None) -> None:
        super().__init__(name, run, shell)
        self._ssh, self._silence, self._told_inside = shell, silence, inside
        self._sessions: Sessions | None = None

    def connect(self) -> None:
        self._ssh.root()
        self.address = str(self._ssh.transport().getpeername()[0])
        self.inside = self._told_inside or self.address
        seen = self._ssh.as_user('echo "$SSH_CONNECTION"').out.decode().split()
        if len(seen) != 4:
            raise self.error("its sshd does not say where we come from (SSH_CONNECTION): is it OpenSSH?")
        self.controller = seen[0]
        self.first = (
            ("silence", {"seconds": self._silence}),
            ("spare", {"address": seen[0], "port": int(seen[3])}),
        )

    async def run(self, argv: Sequence[str]) -> Channel:
        return await self._begin(shlex.join(argv))

    async def agent(self) -> Channel:
        done = await asyncio.to_thread(self.shell.run, self._script(_START))
        if done.code:
            raise self.error(f"our agent does not start: {done.complaint}")
        relay = f"cd / && PYTHONPATH={FOLDER} exec python3 -B -m clusters.agent.relay {self._folder}/{detached.SOCKET}"
        self._sessions = Sessions(lambda: self._begin(relay), self.shell.drop)
        return self._sessions

    async def trouble(self) -> str | None:
        return None if self._sessions is None else self._sessions.complaints() or None

    async def _begin(self, command: str) -> Session:
        try:
            channel = await asyncio.to_thread(self._ssh.start, command)
        except (SSHException, OSError, EOFError) as error:
            self._ssh.drop()
            raise self.error(f"the session was lost ({str(error) or type(error).__name__})") from None
        return Session(channel, self._ssh.ahead())

