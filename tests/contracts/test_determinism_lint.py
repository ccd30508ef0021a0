"""What a simulated run passes through is free of chance; and the lint that says so can tell."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.contracts.determinism import lint

ROOT = Path(__file__).parents[2]
PATH = (
    "chaos/model",
    "chaos/kernel",
    "chaos/controller.py",
    "chaos/faults.py",
    "clusters/base.py",
    "clusters/simulated",
    "nemesis",
    "workloads",
)


class Allowed(NamedTuple):
    """What one file may use all the same, and why."""

    file: str
    name: str
    why: str


ALLOWED = (
    Allowed("chaos/kernel/real.py", "time.monotonic_ns", "real time; a simulated run uses chaos/kernel/virtual.py"),
)


def files() -> list[Path]:
    parts = [ROOT / part for part in PATH]
    return sorted(file for part in parts for file in ([part] if part.suffix else part.rglob("*.py")))


def test_nothing_is_left_to_chance() -> None:
    sources = {str(file.relative_to(ROOT)): file.read_text() for file in files()}
    allowed = {(each.file, each.name) for each in ALLOWED}
    found = [(finding.file, finding.name) for finding in lint(sources)]
    assert [str(finding) for finding in lint(sources) if (finding.file, finding.name) not in allowed] == []
    assert sorted(allowed - set(found)) == [], "allowed, and no longer used"


def names(source: str) -> list[str]:
    return [finding.name for finding in lint({"sample.py": dedent(source)})]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        # Clocks, however they are named.
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nt.monotonic_ns()", "time.monotonic_ns"),
        ("from time import perf_counter as now\nnow()", "time.perf_counter"),
        ("import time\ndef f(clock=time.monotonic): ...", "time.monotonic"),
        ("import time\nasync def f():\n    time.sleep(1)", "time.sleep"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime, UTC\ndatetime.now(UTC)", "datetime.datetime.now"),
        ("import datetime as dt\ndt.date.today()", "datetime.date.today"),
        # Randomness without a seed.
        ("import random\nrandom.random()", "random.random"),
        ("from random import choice\nchoice([1, 2])", "random.choice"),
        ("import random\nrandom.seed(1)", "random.seed"),
        ("import random\nrandom.Random()", "random.Random()"),
        ("from random import Random\nRandom()", "random.Random()"),
        ("import random\nrandom.SystemRandom()", "random.SystemRandom"),
        ("import numpy as np\nnp.random.default_rng()", "numpy.random.default_rng()"),
        ("import numpy as np\nnp.random.normal()", "numpy.random.normal"),
        ("from numpy.random import default_rng\ndefault_rng()", "numpy.random.default_rng()"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("import uuid", "uuid"),
        ("from secrets import token_hex", "secrets"),
        # Threads.
        ("import threading", "threading"),
        ("from concurrent.futures import ThreadPoolExecutor", "concurrent.futures"),
        ("import multiprocessing.pool", "multiprocessing.pool"),
        ("import asyncio\nasyncio.to_thread(print)", "asyncio.to_thread"),
        ("async def f(loop):\n    await loop.run_in_executor(None, print)", "run_in_executor"),
        # Order by address or hash.
        ("import asyncio\nasync def f(x):\n    await asyncio.wait(x)", "asyncio.wait"),
        ("import asyncio\nfor x in asyncio.as_completed([]): ...", "asyncio.as_completed"),
        ("from asyncio import TaskGroup\nTaskGroup()", "asyncio.TaskGroup"),
        ("import asyncio\nasyncio.all_tasks()", "asyncio.all_tasks"),
        ("import weakref\nweakref.WeakSet()", "weakref.WeakSet"),
        ("hash('a')", "hash"),
        ("id(object())", "id"),
        ("sorted([], key=id)", "id"),
        ("class C:\n    id: int\n    def f(self):\n        return id(self)", "id"),
    ],
)
def test_caught(source: str, name: str) -> None:
    assert names(source) == [name]


@pytest.mark.parametrize(
    "source",
    [
        # Built on the spot.
        "for x in {1, 2}: ...",
        "for x in set('ab'): ...",
        "for x in frozenset('ab'): ...",
        "for x in {y for y in 'ab'}: ...",
        "[x for x in {1, 2}]",
        "{x: 1 for x in {1, 2}}",
        "list({1, 2})",
        "tuple(set('ab'))",
        "next(iter({1, 2}))",
        "[*{1, 2}]",
        "print(*{1, 2})",
        "f'{ {1, 2} }'",
        "','.join({'a', 'b'})",
        "dict.fromkeys({1, 2})",
        "a, b = {1, 2}",
        "def f():\n    yield from {1, 2}",
        "{1, 2}.pop()",
        # Of sets.
        "for x in {1} | {2}: ...",
        "for x in {1}.union([2]): ...",
        "for x in {1: 1}.keys() & [1]: ...",
        "for x in {} if y else {1}: ...",
        # Kept under a name.
        "nodes = {1, 2}\nfor x in nodes: ...",
        "NODES = frozenset('ab')\ndef f():\n    return [x for x in NODES]",
        "def f(nodes: set[str]):\n    for x in nodes: ...",
        "def f(nodes: 'frozenset[str] | None'):\n    for x in nodes: ...",
        "from collections.abc import Set as AbstractSet\ndef f(nodes: AbstractSet[str]):\n    for x in nodes: ...",
        "def f(given):\n    nodes = set(given)\n    others = nodes - {1}\n    for x in others: ...",
        "class C:\n    nodes: set[str]\n    def f(self):\n        for x in self.nodes: ...",
        "class C:\n    def f(self):\n        self.nodes = set()\n    def g(self, other):\n        list(other.nodes)",
        "class C:\n    def f(self):\n        self.nodes: set[int] = set()\n    def g(self):\n        self.nodes.pop()",
        # Sorted by a key, what compares equal stays as it came.
        "sorted({'a', 'b'}, key=len)",
        "min({'a', 'b'}, key=len)",
    ],
)
def test_the_order_of_a_set_is_caught(source: str) -> None:
    assert names(source) == ["set"] or names(source) == ["set", "set"]


def test_what_one_file_declares_a_set_is_one_in_another() -> None:
    found = lint(
        {
            "a.py": "class Link:\n    cuts: set[str]\n",
            "b.py": "def f(link):\n    for cut in link.cuts: ...\n",
        }
    )
    assert [(finding.file, finding.line, finding.name) for finding in found] == [("b.py", 2, "set")]


@pytest.mark.parametrize(
    "source",
    [
        # Randomness with a seed, and its type in annotations.
        "import random\nrandom.Random(7)",
        "from random import Random\ndef f(random: Random) -> float:\n    return random.random()",
        "import random\ndef f(stream: random.Random): ...",
        "import numpy as np\nnp.random.default_rng(7)\nnp.random.Generator(np.random.Philox(key=1))",
        "import numpy as np\ndef f(stream: np.random.Generator): ...",
        # The loop's own time, and asyncio in order.
        "import asyncio\nasync def f():\n    await asyncio.gather()\n    asyncio.get_running_loop().time()",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n    await asyncio.wait_for(f(), 1)",
        # Names that are like the ones meant.
        "def f(id, hash):\n    return id, hash",
        "def f(rows):\n    for id in rows:\n        print(id)",
        "def f(node):\n    return node.id, node.hash()",
        "class Clock:\n    def time(self): ...\ndef f(time):\n    return time.time()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        # Sets whose order nobody sees.
        "nodes = {1, 2}\n1 in nodes\nlen(nodes)\nsorted(nodes)\nnodes.add(3)\nmax(nodes)",
        "any(x > 1 for x in {1, 2})\nsorted(x + 1 for x in {1, 2})\nset([x for x in {1, 2}])\n{x for x in {1, 2}}",
        "{*{1, 2}, 3}",
        "(x,) = {1}",
        "def f(nodes):\n    nodes = set(nodes)\n    nodes = sorted(nodes)\n    for x in nodes: ...",
        "NODES = {1, 2}\ndef f(NODES):\n    for x in NODES: ...",
        "for x in {1: 1}: ...\nfor x in {1: 1}.keys(): ...\nfor x in {}: ...\n[1].pop()",
        "class A:\n    nodes: set[str]\nclass B:\n    nodes: list[str]\ndef f(b):\n    for x in b.nodes: ...",
    ],
)
def test_not_caught(source: str) -> None:
    assert names(source) == []


def test_a_finding_says_where_what_and_why() -> None:
    (finding,) = lint({"nemesis/x.py": "import time\n\nstart = time.time()\n"})
    assert str(finding) == (
        "nemesis/x.py:3: time.time reads or waits on the machine's clock: take the time from the run's clock"
    )
