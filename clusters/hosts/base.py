"""What a host is: a long-lived machine on which a broker is started and killed, with a way to run our agent there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class File:
    """What to put on a node, `mode` as chmod has it; `user` owns it where a node's agent writes it."""

    path: str
    data: bytes
    mode: int = 0o644
    user: str = "root"


@dataclass(frozen=True, slots=True)
class Image:
    """What containers are made of: a folder of `clusters/images`, a tag of ours, and the base that it is built on."""

    folder: str
    tag: str
    base: str


@dataclass(frozen=True, slots=True)
class Bare:
    """What it takes to run a broker on a machine that we did not make.

    packages: Debian's. needs: commands or paths (with *) that must be there, with the package that brings each; none
    ("") for what only its maker hands out, as `maker` says. version: a command that prints what is installed, as the
    running broker says it. units: services that may not run meanwhile. ports: what must be free. folders: those that
    the broker has to itself; data: those of them, or in them, whose content is somebody's. users: whom its processes
    run as. made: other paths that `files` and `commands` make. env: what its processes are told.
    """

    packages: Sequence[str]
    needs: Mapping[str, str]
    version: Sequence[str]
    units: Sequence[str]
    ports: Sequence[int]
    folders: Sequence[str]
    data: Sequence[str]
    users: Sequence[str]
    made: Sequence[str] = ()
    files: Sequence[File] = ()
    commands: Sequence[Sequence[str]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    maker: str = ""


class Channel(Protocol):
    """The two ends of a process on a host: lines from its output, bytes to its input."""

    async def readline(self) -> bytes:
        """The next line of its output; empty when there will be none."""

    def write(self, data: bytes) -> None:
        """Send to its input. Never blocks; what cannot be sent any more is dropped."""

    async def close(self) -> None:
        """End its input. Never raises."""

    def complaints(self) -> str:
        """What it wrote to stderr of late."""


class Host(Protocol):
    """One node's machine."""

    name: str
    label: str  # what to call it in errors
    address: str  # as clients reach it
    inside: str  # as the other hosts see it
    controller: str | None  # the address that the controller's own traffic comes from, as this host sees it
    first: Sequence[tuple[str, Mapping[str, Any]]]  # what its agent is told before anything else
    env: Mapping[str, str]  # what is added to the environment of the broker's processes

    async def put(self, files: Sequence[File]) -> None:
        """Write files as root, their folders made as needed. Raises SplitbrainError."""

    async def run(self, argv: Sequence[str]) -> Channel:
        """Start a process as root, its input and output attached. Raises SplitbrainError."""

    async def agent(self) -> Channel:
        """Put our agent there and start it. Raises SplitbrainError."""

    async def read(self, path: str, limit: int) -> bytes:
        """A file's last `limit` bytes; empty when there is none."""

    async def trouble(self) -> str | None:
        """Why it is of no use any more, or None while it runs."""


class Hosts(Protocol):
    """All the hosts of a run."""

    def refused(self) -> Mapping[str, str]:
        """Verbs that make no sense on hosts of this kind, and why."""

    async def prepare(self, report: Callable[[str], None]) -> Mapping[str, str]:
        """Have what they are made of; returns what to put on record of it. Raises SplitbrainError."""

    async def up(self, names: Sequence[str], report: Callable[[str], None]) -> Sequence[Host]:
        """Make or take them, side by side. Raises SplitbrainError, having removed what it made."""

    async def down(self) -> None:
        """Remove all that was made; safe to call at any time, more than once."""
