"""The agent on a host that nobody holds by its input: `python3 -m clusters.agent.detached FOLDER`.

It listens on FOLDER/agent.sock, for root only, and goes on when a connection drops: what it has to say is kept until
somebody connects again (`session`). Its dead man's switch is then silence alone; what that did is also written to
FOLDER/watchdog.jsonl. It ends, undoing all, when it is told "bye" or gets SIGTERM. Above it stands a guard: should the
agent itself be killed, its faults are removed by what they leave on a node (`sweep`), and somebody's own processes are
brought back (`guest`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from clusters.agent.__main__ import Agent
from clusters.agent.guest import bring_back
from clusters.agent.session import Lines
from clusters.agent.verbs import sweep

SOCKET, PID, RECORD = "agent.sock", "agent.pid", "watchdog.jsonl"
BYE = b"bye"
_PATIENCE = struct.pack("ll", 5, 0)  # seconds of sending: one who does not read is no listener


class Listener:
    """Lines from whoever is connected, the latest to come; and to them. Iterating ends at "bye" or `stop`."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines()
        self._lock = threading.Lock()  # of _lines and of writing
        self._connection: socket.socket | None = None
        self._listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            self._listening.bind(str(path))
        finally:
            os.umask(before)
        self._listening.listen()
        self._came: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._accept, daemon=True).start()

    def __iter__(self) -> Iterator[str]:
        while (line := self._came.get()) != BYE:
            yield line.decode()

    def stop(self) -> None:
        """As if "bye" had been said."""
        self._came.put(BYE)

    def write(self, line: str) -> None:
        """One line, now or when somebody connects."""
        with self._lock:
            self._send(self._lines.put(line.rstrip("\n").encode()))

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with self._lock:
                if self._connection is not None:
                    with contextlib.suppress(OSError):
                        self._connection.shutdown(socket.SHUT_RDWR)
                self._connection = connection
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
                self._send(self._lines.greeting())
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as stream:
            for frame in stream:
                if not frame.endswith(b"\n"):
                    break  # cut off amid it: it comes again
                with self._lock:
                    if connection is not self._connection:
                        break
                    line, again = self._lines.take(frame)
                    for one in again:
                        self._send(one)
                    if line is not None:
                        self._came.put(line)
        with self._lock:
            if connection is self._connection:
                self._connection = None
        connection.close()

    def _send(self, frame: bytes) -> None:
        if self._connection is None:
            return
        try:
            self._connection.sendall(frame)
        except OSError:
            self._connection = None  # what was not sent is kept, and sent on the next


def on_sigterm(act: Callable[[], None]) -> None:
    """Have `act` called, on a thread, once SIGTERM came. A handler in Python would wait for the main thread, which may
    be just about to wait for a line, or not be the thread that the signal interrupted: it would hear of it with the
    next line, which may never come."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def wait() -> None:
        while reading.recv(1) != bytes([signal.SIGTERM]):
            pass
        act()

    signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    threading.Thread(target=wait, daemon=True).start()


def main(folder: Path) -> None:
    """Guard and agent: the guard waits for the agent's end."""
    (folder / PID).write_text(f"{os.getpid()}\n")
    agent = os.fork()
    if agent == 0:
        listener = Listener(folder / SOCKET)
        on_sigterm(listener.stop)
        Agent(listener, listener.write, folder / RECORD).serve()
        return
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(agent, signal.SIGTERM))
    _, status = os.waitpid(agent, 0)
    (folder / SOCKET).unlink(missing_ok=True)
    if status:
        print(f"the agent ended by {os.waitstatus_to_exitcode(status)}; removing its faults", flush=True)
        for problem in (*sweep(), *bring_back(folder)):
            print(problem, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
