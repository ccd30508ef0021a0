"""Processes that somebody else started, on this machine: none of them is our agent's."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.agent import guest
from clusters.agent.daemon import named
from clusters.agent.guest import Guest
from clusters.agent.process import wait_for

ME = pwd.getpwuid(os.getuid()).pw_name
SERVER = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"


class Somebody:
    """Starts processes of a name of their own, each listening on a port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / f"own-{os.getpid()}"
        self.started: list[subprocess.Popen[bytes]] = []
        shutil.copy(os.path.realpath(sys.executable), self.program)

    def start(self, port: int) -> int:
        argv = ["prlimit", "--nofile=128:256", str(self.program), "-c", SERVER.format(port=port)]
        env = {"WORDS": "of its own", "ODD": "caf\udce9", "PYTHONHOME": sys.base_prefix}
        one = subprocess.Popen(argv, cwd=self.folder, env=env, start_new_session=True)
        self.started.append(one)
        assert wait_for(lambda: guest.listens(one.pid, [port]), 10)
        return one.pid

    def guest(self, port: int, folder: Path | None = None) -> Guest:
        return Guest("broker", self.program.name, ME, [port], folder)


@contextmanager
def somebody(folder: Path) -> Iterator[Somebody]:
    """None of what they started is left in the end."""
    made = Somebody(folder)
    yield made
    for pid in named(made.program.name, ME):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for one in made.started:
        one.wait()


def free() -> int:
    """A port."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        number: int = one.getsockname()[1]
        return number
