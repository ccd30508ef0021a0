"""What a session on a host runs: its own input and output, joined to the agent's socket. `relay.py FOLDER`.

Ends when either does. Exit code 3: nobody listens there, so the agent is gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

GONE = 3


def main(path: str) -> int:
    """Copy both ways until one end is through."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError as error:
        print(f"no agent listens at {path}: {error.strerror}", file=sys.stderr)
        return GONE

    def inwards() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, 65536):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=inwards, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := connection.recv(65536):
            while data:
                data = data[os.write(1, data) :]
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    os._exit(code)  # a thread may still be reading our input
