"""Packets hurt for real, between two network namespaces of this machine, an agent in each: needs root, nft and tc.

What the kernel cannot do is skipped, with the agent's own reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chaos.model.schedule import Action
from clusters.links import arguments
from tests.agent.driver import ROOT, LocalAgent, local_agent
from tests.agent.echo import COUNT, PORTS

MS = 1_000_000
STRETCH = 200_000  # bytes
ADDRESSES = {"a": "10.213.0.1", "b": "10.213.0.2"}
SERVICES = {"one": PORTS[:1], "other": PORTS[1:]}
THERE = [["a", "b"]]
BOTH = [["a", "b"], ["b", "a"]]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nft", "tc"))), reason="needs root, and ip, nft and tc"
)


@dataclass
class Two:
    """Two machines, as good as: each an agent; a server on "b"."""

    agents: dict[str, LocalAgent]
    spaces: dict[str, str]
    unable: dict[str, str | None]
    instead: list[str]

    def inject(self, fault: str, verb: str, links: list[list[str]] = BOTH, **args: Any) -> None:
        action = Action(verb, ("a", "b"), {"links": links, **args})
        for needed in action.needs():
            if why := self.unable[needed]:
                pytest.skip(why)
        for node, told in arguments(action, SERVICES, address, self.instead).items():
            answer = self.agents[node].ask("inject", fault=fault, verb=verb, process="", args=told)
            assert "done" in answer, answer

    def undo(self, fault: str) -> dict[str, bool]:
        """Whether it bit, by part, at either end."""
        seen: dict[str, bool] = {}
        for agent in self.agents.values():
            for probe in agent.ask("undo", fault=fault)["done"]["probes"]:
                print(probe["evidence"])
                for part, bit in (probe.get("parts") or {"": probe["bit"]}).items():
                    if bit is not None:
                        seen[part] = bit or seen.get(part, False)
        return seen

    def ask(self, port: int = PORTS[0], stretch: int = 0) -> dict[str, float]:
        """What `echo.ask` finds, from "a"."""
        words = "-m", "tests.agent.echo", "ask", ADDRESSES["b"], str(port), str(stretch)
        command = inside(self.spaces["a"], sys.executable, *words)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        print(found)
        return found

    def left(self) -> str:
        """What is left of ours in the kernel."""
        look = "nft list tables | grep splitbrain; tc qdisc show | grep 5350:"
        return "".join(
            subprocess.run(inside(space, "sh", "-c", look), capture_output=True, text=True, check=False).stdout
            for space in self.spaces.values()
        )


def address(end: str, seen_by: str) -> str:
    return ADDRESSES[end]


def inside(space: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", space, *command]


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    mark = uuid.uuid4().hex[:6]
    spaces = {name: f"sb-{mark}-{name}" for name in ADDRESSES}
    here, there = (f"sb{mark}{name}" for name in ADDRESSES)
    try:
        for space in spaces.values():
            run("ip", "netns", "add", space)
        run(
            "ip", "link", "add", here, "netns", spaces["a"], "type", "veth", "peer", "name", there, "netns", spaces["b"]
        )
        for name, device in (("a", here), ("b", there)):
            run("ip", "-n", spaces[name], "link", "set", "lo", "up")
            run("ip", "-n", spaces[name], "link", "set", device, "up")
            run("ip", "-n", spaces[name], "addr", "add", f"{ADDRESSES[name]}/24", "dev", device)
        with (
            subprocess.Popen(
                inside(spaces["b"], sys.executable, "-m", "tests.agent.echo", "serve"),
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            ) as server,
            local_agent(*inside(spaces["a"])) as a,
            local_agent(*inside(spaces["b"])) as b,
        ):  # fmt: skip
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            able = a.ask("abilities")["done"]
            yield Two({"a": a, "b": b}, spaces, able["unable"], able["instead"])
            assert server.stdin is not None
            server.stdin.close()
    finally:
        for space in spaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")


@pytest.fixture(autouse=True)
def nothing_left(two: Two) -> Iterator[None]:
    yield
    assert two.left() == ""


def test_the_link_is_whole_to_begin_with(two: Two) -> None:
    found = two.ask()
    assert (found["back"], found["twice"], found["behind"]) == (COUNT, 0, 0)


def test_lost(two: Two) -> None:
    two.inject("f", "shape", THERE, loss=0.5)
    found = two.ask()
    assert COUNT * 0.3 < found["back"] < COUNT * 0.7
    assert two.undo("f") == {"loss": True}
    assert two.undo("f") == {}


def test_sent_twice(two: Two) -> None:
    two.inject("f", "shape", THERE, duplicate=0.5)
    found = two.ask()
    assert found["back"] == COUNT
    assert COUNT * 0.3 < found["twice"] < COUNT * 0.7
    assert two.undo("f") == {"duplicate": True}


def test_corrupt_is_lost_to_whoever_checks(two: Two) -> None:
    """Noticed by the receiver's kernel where netem does it, by our counter where nftables stands in for it."""
    two.inject("f", "shape", THERE, corrupt=0.3)
    found = two.ask()
    assert COUNT * 0.4 < found["back"] < COUNT * 0.95
    assert two.undo("f") == {"corrupt": True}


def test_only_so_many_bytes_a_second(two: Two) -> None:
    two.inject("f", "shape", THERE, rate=150_000)
    assert 0.7 < two.ask(stretch=STRETCH)["stretch"] < 20  # 1.3 s, less what passes at once
    assert two.undo("f") == {"rate": True}


def test_only_so_many_bytes_a_second_without_tbf(two: Two) -> None:
    two.instead.append("rate")
    try:
        two.inject("f", "shape", THERE, rate=60_000)
        assert two.ask(stretch=2 * STRETCH)["stretch"] > 1  # 190 kB pass at once, so that merged segments can
        assert two.undo("f") == {"rate": True}
    finally:
        two.instead.remove("rate")


def test_late_by_so_much_give_or_take(two: Two) -> None:
    two.inject("f", "shape", BOTH, delay=60 * MS, jitter=20 * MS)
    found = two.ask()
    assert found["back"] == COUNT
    assert 0.1 < found["took"] < 0.2
    assert two.undo("f") == {"delay": True}


def test_ahead_of_others(two: Two) -> None:
    two.inject("f", "shape", THERE, delay=50 * MS, reorder=0.25)
    found = two.ask(stretch=10 * STRETCH)  # of TCP, which counts what comes too early
    assert found["back"] == COUNT
    assert found["behind"] > COUNT / 4
    assert two.undo("f") == {"delay": True, "reorder": True}


def test_one_service_only(two: Two) -> None:
    two.inject("f", "shape", THERE, rate=60_000, service="one")
    two.inject("g", "shape", THERE, loss=1.0, service="one")  # of TCP only, which is what brokers speak
    assert two.ask(PORTS[1], STRETCH)["stretch"] < 0.5
    two.undo("g")
    assert two.ask(PORTS[0], STRETCH)["stretch"] > 1
    assert two.undo("f") == {"rate": True}


def test_faults_on_one_link_each_do_and_count_their_own(two: Two) -> None:
    two.inject("f", "shape", THERE, rate=150_000)
    two.inject("g", "shape", THERE, rate=1_000_000)
    two.inject("h", "shape", THERE, duplicate=0.3)
    two.inject("i", "loss", THERE, probability=0.2)
    found = two.ask(stretch=STRETCH)
    assert found["stretch"] > 0.7, "the slower rate"
    assert found["twice"] > 0
    assert two.undo("f") == {"rate": True}
    assert two.undo("h") == {"duplicate": True}
    assert two.undo("i") == {"": True}
    assert two.ask(stretch=STRETCH)["stretch"] < 1
    two.undo("g")


def test_what_queues_the_device_has_of_somebody_else_stay(two: Two) -> None:
    device = f"sb{two.spaces['a'].split('-')[1]}a"
    run(
        *inside(
            two.spaces["a"], *f"tc qdisc add dev {device} root handle 1: tbf rate 1gbit burst 1mb latency 1ms".split()
        )
    )
    try:
        told = arguments(Action("shape", ("a",), {"links": THERE, "rate": 1000}), SERVICES, address)["a"]
        answer = two.agents["a"].ask("inject", fault="f", verb="shape", process="", args=told)
        assert answer["error"] == f"inject: {device} has queues of its own (tbf 1:), which ours would replace"
        two.undo("f")
    finally:
        run(*inside(two.spaces["a"], "tc", "qdisc", "del", "dev", device, "root"))


def test_what_a_killed_agent_leaves_is_swept(two: Two) -> None:
    told = arguments(Action("shape", ("a",), {"links": THERE, "rate": 1000, "duplicate": 0.5, "loss": 0.5}),
                     SERVICES, address)["a"]  # fmt: skip
    with local_agent(*inside(two.spaces["a"])) as agent:
        assert "done" in agent.ask("inject", fault="f", verb="shape", process="", args=told)
        agent.process.kill()
    assert all(word in two.left() for word in ("inet splitbrain", "ip splitbrain", "qdisc htb 5350:"))
    sweep = "from clusters.agent.verbs import sweep; print(sweep())"
    command = inside(two.spaces["a"], sys.executable, "-c", sweep)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
