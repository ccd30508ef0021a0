"""Traffic for tests of links, run as a module: `python -m tests.agent.echo serve`, or `ask ADDRESS PORT BYTES`.

`ask` sends numbered datagrams, one a millisecond, and so many bytes by TCP, and prints as JSON what came of them.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

PORTS = (7000, 7001)
COUNT = 200


def serve() -> None:
    """Echo datagrams, and say at the end of a TCP connection how many bytes came, on each of PORTS."""
    for port in PORTS:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("0.0.0.0", port))
        streams = socket.create_server(("0.0.0.0", port))
        threading.Thread(target=_echo, args=(datagrams,), daemon=True).start()
        threading.Thread(target=_swallow, args=(streams,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def _echo(datagrams: socket.socket) -> None:
    while True:
        datagrams.sendto(*datagrams.recvfrom(2000))


def _swallow(streams: socket.socket) -> None:
    while True:
        connection, _ = streams.accept()
        with connection:
            came = 0
            while some := connection.recv(1 << 16):
                came += len(some)
            connection.sendall(str(came).encode())


def ask(address: str, port: int, stretch: int) -> dict[str, float]:
    """Of COUNT datagrams: how many different ones came back, how many twice, how many after a later one, the median
    time that one took there and back; and the time until all bytes of a `stretch` of TCP had come. Seconds."""
    came: list[tuple[int, float]] = []
    sent = [0.0] * COUNT
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect((address, port))
        datagrams.settimeout(1)

        def receive() -> None:
            while True:
                try:
                    came.append((int(datagrams.recv(2000)), time.monotonic()))
                except OSError:
                    return

        receiver = threading.Thread(target=receive)
        receiver.start()
        for number in range(COUNT):
            sent[number] = time.monotonic()
            datagrams.send(str(number).encode())
            time.sleep(0.001)
        receiver.join()
    begun = time.monotonic()
    if stretch:
        with socket.create_connection((address, port), 30) as stream:
            stream.sendall(b"." * stretch)
            stream.shutdown(socket.SHUT_WR)
            assert int(stream.recv(100)) == stretch
    numbers = [number for number, _ in came]
    took = sorted(at - sent[number] for number, at in came)
    newest = [max(numbers[: place + 1]) for place in range(len(numbers))]
    return {
        "back": len(set(numbers)),
        "twice": len(numbers) - len(set(numbers)),
        "behind": sum(number < most for number, most in zip(numbers, newest, strict=True)),
        "took": took[len(took) // 2] if took else 0.0,
        "stretch": time.monotonic() - begun,
    }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        print(json.dumps(ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
