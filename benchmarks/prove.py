"""How many distinct states a second, and how long until a planted bug is found: one core, each in a process of its own.

Wanted: the published configuration of BlazingMQ's election exhausted, or 300,000 distinct states in ten minutes; a
double vote and a forgotten term found within a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

RUNS = (
    ("blazingmq", "the published configuration", ()),
    ("rabbitmq-quorum", "as it is", ()),
    ("rabbitmq-quorum", "all that arrives in 60 s", ("--bounds", "publishes=1,in-flight=0", "--time", "60s")),
    ("blazingmq", "vote-twice", ("--mutation", "vote-twice")),
    ("blazingmq", "forget-term", ("--mutation", "forget-term")),
    ("rabbitmq-quorum", "vote-twice", ("--mutation", "vote-twice")),
    ("rabbitmq-quorum", "forget-term", ("--mutation", "forget-term")),
)
PROGRAM = (sys.executable, "-c", "from chaos.cli.main import main; main()", "prove")
ENDS = {True: "exhausted", False: "found", "unknown": "given up"}


def main() -> None:
    """A row an exploration."""
    print("| protocol | what | end | distinct states | depth | seconds with start | distinct states / s |")
    print("|---|---|---|---|---|---|---|")
    for protocol, what, options in RUNS:
        begun = time.monotonic()
        done = subprocess.run(
            [*PROGRAM, protocol, *options, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - begun
        told = json.loads(done.stdout)
        print(
            f"| {protocol} | {what} | {ENDS[told['valid']]} | {told['distinct']:,} | {told['depth']} | {seconds:.1f} "
            f"| {told['distinct_per_second']:,.0f} |",
            flush=True,
        )
