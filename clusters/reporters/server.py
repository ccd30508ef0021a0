"""A reporter's end of the unix socket on which `clusters.agent.reporter` asks: a line of question, a line of JSON."""

from __future__ import annotations

import json
import os
import socketserver
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

Answer = Callable[[str], dict[str, Any]]  # raises OSError or ValueError where the broker does not answer


def serve(path: str, asking: Callable[[], AbstractContextManager[Answer]]) -> None:
    """Answer whoever connects to the socket at `path`, each on a thread with an `asking` of its own, for ever.

    A broker that does not answer is not answered for: the connection is closed, and whoever asked may ask again.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                with asking() as answer:
                    for line in self.rfile:
                        self.wfile.write(json.dumps(answer(line.decode().strip())).encode() + b"\n")
            except (OSError, ValueError):
                return

    Path(path).unlink(missing_ok=True)
    with _Server(path, Handler) as server:
        os.chmod(path, 0o600)
        server.serve_forever()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
