"""What a fault becomes on each node, and what many nodes' answers say together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chaos.model.errors import BadInput, SplitbrainError
from chaos.model.schedule import ABILITIES, CRASH_LOOP, CUT, DAMAGE, KILL, LOSS, OWN_DISK, POWER_OFF, SHAPE, Action
from chaos.model.settings import resolve
from clusters.agent.link import AgentLink, Offset
from clusters.base import Counts, Injected, LeaderView, Undone, Unknown
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosted import HostedCluster, hosted
from clusters.hosts.docker import DockerHost, DockerHosts, rights
from tests.docker.cluster import Seen, setup

PORTS = [25672, 4369]


class FakeAgent:
    """Remembers what it was told, and answers as it is told to."""

    def __init__(self, node: str, answers: Mapping[str, Any]) -> None:
        self.node, self.answers, self.offset = node, answers, Offset()
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def call(self, do: str, *, timeout: float = 15, **arguments: Any) -> dict[str, Any]:
        self.told.append((do, arguments))
        answer = self.answers[do]
        if isinstance(answer, Exception):
            raise answer
        return {"at": 5, "uncertainty": 0, **answer}


def cluster(answers: Mapping[str, Mapping[str, Any]]) -> tuple[HostedCluster, Mapping[str, FakeAgent], Seen]:
    """Three nodes 10.0.0.1 to 3, a controller at 10.0.0.254."""
    seen = Seen()
    made = RabbitmqQuorum("4.0", resolve(RabbitmqQuorum.settings, {}, ""))
    hosts = DockerHosts("run", made.image())
    one = HostedCluster(setup("run", seen), hosts, made)
    agents = {node: FakeAgent(node, answers.get(node, {"inject": {"evidence": "yes"}})) for node in one.nodes}
    for number, node in enumerate(one.nodes, 1):
        one._nodes.agents[node] = as_link(agents[node])
        host = DockerHost.__new__(DockerHost)
        host.name, host.address, host.controller = node, f"10.0.0.{number}", "10.0.0.254"
        host.inside = host.address
        one._nodes.hosts[node] = host
    one._nodes.queues.append("q")
    return one, agents, seen


def as_link(agent: Any) -> AgentLink:
    link: AgentLink = agent
    return link


def rule(direction: str, peer: int, ports: list[int] | None = None) -> dict[str, Any]:
    return {"direction": direction, "peer": f"10.0.0.{peer}", "ports": ports or []}


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (
            Action(CUT, ("n1",), {"links": [["n1", "n2"], ["n2", "n1"], ["n3", "n1"]], "service": None}),
            {"n2": {"rules": [rule("in", 1)]}, "n1": {"rules": [rule("in", 2), rule("in", 3)]}},
        ),
        (
            Action(CUT, ("n1",), {"links": [["n1", "n2"]], "service": "replication"}),
            {"n2": {"rules": [rule("in", 1, PORTS)]}},
        ),
        (  # clients: only the port that they speak to, whatever else the controller does on a node is spared
            Action(CUT, ("n1",), {"links": [["clients", "n1"], ["n1", "clients"]], "service": None}),
            {"n1": {"rules": [rule("in", 254, [5672]), rule("out", 254, [5672])]}},
        ),
        (
            Action(CUT, ("n1",), {"links": [["n1", "n2"]], "service": "!clients", "flap": [5, 6]}),
            {"n2": {"rules": [rule("in", 1, PORTS)], "flap": [5, 6]}},
        ),
        (
            Action(LOSS, ("n3",), {"links": [["n1", "n3"]], "probability": 0.1}),
            {"n3": {"rules": [rule("in", 1)], "probability": 0.1}},
        ),
        (Action(KILL, ("n1", "n3"), {}), {"n1": {}, "n3": {}}),
        (  # what waits does so where it is sent, what is lost is dropped where it comes in
            Action(SHAPE, ("n1",), {"links": [["n1", "n2"], ["n2", "n1"]], "delay": 5, "jitter": 0}),
            {
                "n1": {"send": [rule("out", 2)], "drop": [], "delay": 5, "instead": []},
                "n2": {"send": [rule("out", 1)], "drop": [], "delay": 5, "instead": []},
            },
        ),
        (
            Action(SHAPE, ("n1",), {"links": [["n1", "n2"]], "loss": 0.5, "service": "replication"}),
            {"n2": {"send": [], "drop": [rule("in", 1, PORTS)], "loss": 0.5, "instead": []}},
        ),
        (  # and that it came corrupt, or too early, its receiver knows
            Action(SHAPE, ("n1",), {"links": [["n1", "n2"]], "corrupt": 0.5}),
            {
                "n1": {"send": [rule("out", 2)], "drop": [], "corrupt": 0.5, "instead": []},
                "n2": {"send": [], "drop": [rule("in", 1)], "corrupt": 0.5, "instead": []},
            },
        ),
        (
            Action(SHAPE, ("n1",), {"links": [["n1", "clients"]], "loss": 0.5, "rate": 7}),
            {
                "n1": {
                    "send": [rule("out", 254, [5672])],
                    "drop": [rule("out", 254, [5672])],
                    "loss": 0.5,
                    "rate": 7,
                    "instead": [],
                }
            },
        ),
        (
            Action(SHAPE, ("n1",), {"links": [["clients", "n1"]], "loss": 0.5}),
            {"n1": {"send": [], "drop": [rule("in", 254, [5672])], "loss": 0.5, "instead": []}},
        ),
        (Action(CRASH_LOOP, ("n2",), {"times": 3}), {"n2": {"times": 3, "port": 5672}}),
        (  # silent to and for everybody; the controller only on the broker's port, so that the agent still hears it
            Action(POWER_OFF, ("n1",), {}),
            {
                "n1": {
                    "rules": [
                        rule("in", 2),
                        rule("in", 3),
                        rule("out", 254, [5672]),
                        rule("in", 254, [5672]),
                        rule("out", 2),
                        rule("out", 3),
                    ]
                }
            },
        ),
        (
            Action(DAMAGE, ("n1",), {"how": "flip", "what": "wal", "files": 1, "draw": 2}),
            {"n1": {"how": "flip", "files": 1, "draw": 2, "patterns": ["*/quorum/*/*.wal"]}},
        ),
    ],
)
def test_what_each_node_is_told(action: Action, told: dict[str, Any]) -> None:
    one, agents, _ = cluster({})
    injected = asyncio.run(one.inject("f1", action))
    assert {node: agent.told[0][1]["args"] for node, agent in agents.items() if agent.told} == told
    assert injected == Injected(dict.fromkeys(told, 5), "; ".join(f"{node}: yes" for node in told))


def test_where_a_kernel_has_no_netem_what_can_be_done_otherwise_is_and_the_rest_refused() -> None:
    one, agents, _ = cluster({})
    one._start.instead["corrupt"] = None
    one._start.unable["shape.delay"] = "n2: the kernel has no sch_netem"
    links = {"links": [["n1", "n2"]]}
    asyncio.run(one.inject("f1", Action(SHAPE, ("n1",), {**links, "corrupt": 0.5})))
    told = {"send": [], "drop": [rule("in", 1)], "corrupt": 0.5, "instead": ["corrupt"]}
    assert {node: agent.told[0][1]["args"] for node, agent in agents.items() if agent.told} == {"n2": told}
    with pytest.raises(SplitbrainError, match=r"^shape.delay cannot be done here: n2: the kernel has no sch_netem$"):
        asyncio.run(one.inject("f2", Action(SHAPE, ("n1",), {**links, "delay": 5})))


def test_what_clients_send_is_only_lost() -> None:
    action = Action(SHAPE, ("n1",), {"links": [["clients", "n1"]], "delay": 5, "rate": 7})
    with pytest.raises(
        SplitbrainError, match=r"^delay and rate: not of what clients send, whose end is no node of ours"
    ):
        asyncio.run(cluster({})[0].inject("f1", action))


def test_what_is_done_to_packets_bites_if_each_part_did_somewhere() -> None:
    def parts(**seen: bool) -> dict[str, Any]:
        told = {**probe(SHAPE, any(seen.values())), "parts": seen}
        return {"inject": {"evidence": ""}, "undo": {"probes": [told]}}

    async def bit(first: dict[str, Any], second: dict[str, Any]) -> bool | None:
        one, _, _ = cluster({"n1": first, "n2": second})
        links = {"links": [["n1", "n2"], ["n2", "n1"]], "rate": 7, "loss": 0.1}
        await one.inject("f1", Action(SHAPE, ("n1", "n2"), links))
        return (await one.undo("f1")).bit

    assert asyncio.run(bit(parts(loss=False, rate=True), parts(loss=True, rate=False))) is True
    assert asyncio.run(bit(parts(loss=False, rate=True), parts(loss=False, rate=True))) is False


def probe(verb: str, bit: bool | None) -> dict[str, Any]:
    return {"verb": verb, "bit": bit, "evidence": f"{verb} {bit}"}


@pytest.mark.parametrize(
    ("verb", "bits", "bit"),
    [
        (KILL, [True, True], True),
        (KILL, [True, False], False),  # a kill must bite on each node
        (CUT, [True, False], True),  # packets may all have been dropped at one end
        (CUT, [False, False], False),
        (CUT, [None, None], None),
    ],
)
def test_whether_a_fault_of_many_nodes_bit(verb: str, bits: list[bool | None], bit: bool | None) -> None:
    answers = {
        node: {"inject": {"evidence": ""}, "undo": {"probes": [probe(verb, one)]}}
        for node, one in zip(("n1", "n2"), bits, strict=True)
    }
    one, _, _ = cluster(answers)

    async def main() -> tuple[Undone, Undone]:
        args = {"links": [["n1", "n2"], ["n2", "n1"]]} if verb == CUT else {}
        await one.inject("f1", Action(verb, ("n1", "n2"), args))
        return await one.undo("f1"), await one.undo("f1")

    first, second = asyncio.run(main())
    assert first.bit is bit
    assert first.times == {"n1": 5, "n2": 5}
    assert second == Undone({}, None, ""), "a second undo is harmless"


def test_an_undo_that_failed_on_a_node_can_be_tried_again() -> None:
    broken: dict[str, Any] = {"inject": {"evidence": ""}, "undo": SplitbrainError("n2: nft failed")}
    one, agents, _ = cluster({"n1": {"inject": {"evidence": ""}, "undo": {"probes": []}}, "n2": broken})

    async def main() -> None:
        await one.inject("f1", Action(KILL, ("n1", "n2")))
        with pytest.raises(SplitbrainError, match="nft failed"):
            await one.undo("f1")
        broken["undo"] = {"probes": [probe(KILL, True)]}
        assert (await one.undo("f1")).bit is True

    asyncio.run(main())
    assert [do for do, _ in agents["n1"].told] == ["inject", "undo", "undo"]


def view(node: str, role: str, term: int, asked: int = 10, answered: int = 20) -> dict[str, Any]:
    return {"scope": "q", "role": role, "term": term, "asked": asked, "answered": answered}


def test_views_in_run_time_widened_by_what_is_not_known_of_the_clock() -> None:
    one, agents, seen = cluster({})
    agents["n1"].offset.add(sent=100, stamp=1110, received=120)  # 1,000 ahead, to 10
    event = {"event": "views", "asked": 2000, "at": 2100, "incarnation": 2}
    one._watch.pushed("n1", {**event, "views": [view("n1", "leader", 3, 2010, 2020), {"scope": "splitbrain.serving"}]})
    # stamps that make no sense: the agent's
    one._watch.pushed("n1", {**event, "views": [view("n1", "follower", 3, 5, 6)]})
    one._watch.pushed("n1", {**event, "incarnation": None, "views": [view("n1", "leader", 9)]})  # not our process
    assert seen.views == [
        LeaderView("q", "n1", "leader", 3, 1000, 1030, 2),
        LeaderView("q", "n1", "follower", 3, 990, 1110, 2),
    ]


def test_the_leader_is_who_claims_the_newest_term() -> None:
    one, _, _ = cluster({})
    event = {"event": "views", "asked": 0, "at": 100, "incarnation": 1}
    assert one.leader() is None
    for node, role, term in [("n1", "leader", 1), ("n2", "leader", 2), ("n1", "leader", 1), ("n3", "candidate", 3)]:
        one._watch.pushed(node, {**event, "views": [view(node, role, term)]})
    assert (one.leader(), one.leader("q"), one.leader("other")) == ("n2", "n2", None)


def replica(role: str, leader: str) -> dict[str, Any]:
    members = [f"rabbit@n{number}" for number in (1, 2, 3)]
    leads = f"rabbit@{leader}" if leader else ""
    counts = {"ready": 4, "unacked": 1, "applied": 7, "last": 7}
    one = {"scope": "q", "role": role, "leader": leads, "members": members, **counts}
    return {"ask": {"answer": {"views": [one]}}}


def test_counts_are_the_leaders_and_who_serves_follows_it() -> None:
    agreed = {"n1": replica("follower", "n2"), "n2": replica("leader", "n2"), "n3": replica("follower", "n2")}
    assert asyncio.run(cluster(agreed)[0].counts("q")) == Counts(4, 1, 3, 3)
    behind = {**agreed, "n1": replica("pre_vote", ""), "n3": {"ask": SplitbrainError("paused")}}
    assert asyncio.run(cluster(behind)[0].counts("q")) == Counts(4, 1, 1, 3)
    with pytest.raises(Unknown, match="no node that can be asked leads it"):
        asyncio.run(cluster({**agreed, "n2": {"ask": SplitbrainError("paused")}})[0].counts("q"))


def test_of_several_leaders_the_newest_terms_counts_are_taken_and_without_terms_nobodys() -> None:
    def leads(node: str, ready: int, **more: Any) -> dict[str, Any]:
        answer = replica("leader", node)
        answer["ask"]["answer"]["views"][0].update(ready=ready, **more)
        return answer

    third = replica("follower", "n2")
    apart = {"n1": leads("n1", 7, term=4), "n2": leads("n2", 5, term=6), "n3": third}
    assert asyncio.run(cluster(apart)[0].counts("q")) == Counts(5, 1, 2, 3)
    for ready in (7, -1):  # also one that cannot say how much it has
        with pytest.raises(Unknown, match="q: n1 and n2 lead it, each for itself"):
            asyncio.run(cluster({"n1": leads("n1", ready), "n2": leads("n2", 5), "n3": third})[0].counts("q"))


def test_views_without_a_term() -> None:
    one, _, seen = cluster({})
    event = {"event": "views", "asked": 0, "at": 100, "incarnation": 1}
    there = {"scope": "q", "role": "leader", "asked": 10, "answered": 20, "reign": "<0.7.0>"}
    one._watch.pushed("n1", {**event, "views": [there]})
    assert [(view.node, view.role, view.term, view.reign) for view in seen.views] == [("n1", "leader", None, "<0.7.0>")]
    assert one.leader() == "n1"


def test_of_two_leaders_without_terms_it_is_the_first_for_as_long_as_it_says_so() -> None:
    one, _, _ = cluster({})
    led = []
    for node, at in [("n1", 10), ("n2", 500), ("n1", 700), ("n2", 1600), ("n2", 1800), ("n1", 1900)]:  # ms
        stamps = {"asked": at * 10**6, "answered": at * 10**6}
        event = {"event": "views", "asked": 0, "at": 2 * 10**9, "incarnation": 1}
        one._watch.pushed(node, {**event, "views": [{"scope": "q", "role": "leader", **stamps}]})
        led.append(one.leader())
    assert led == ["n1", "n1", "n1", "n1", "n2", "n2"]


def test_abilities_are_known_before_it_is_up() -> None:
    abilities = cluster({})[0].abilities()
    assert set(abilities) == set(ABILITIES)
    assert [verb for verb, why in abilities.items() if why] == ["wipe"]


def test_containers_may_mount_only_where_a_disk_is_to_be_hurt() -> None:
    assert rights(("kill", "cut", "damage")) == {"cap_add": ["NET_ADMIN"]}
    for verb in OWN_DISK:
        assert rights(("kill", verb))["cap_add"] == ["NET_ADMIN", "SYS_ADMIN"]


def test_a_kind_of_host_that_there_is_not() -> None:
    made = RabbitmqQuorum("4.0", {})
    with pytest.raises(BadInput, match="no hosts of kind 'dokcer'; did you mean 'docker'"):
        hosted(setup("run", Seen()), "dokcer", made)


class Shell:
    """A host whose shell says those lines; `complaints` where it has none."""

    name = label = "n1"

    def __init__(self, *lines: str, complaint: str = "") -> None:
        self._lines, self._complaint = [*lines], complaint

    async def run(self, argv: Any) -> Any:
        return self

    async def readline(self) -> bytes:
        return f"{self._lines.pop(0)}\n".encode() if self._lines else b""

    def complaints(self) -> str:
        return self._complaint

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        (
            Shell("python3", "/usr/lib/rabbitmq/bin/rabbitmq-server", "looked"),
            "n1 has no python3 (3.11 or newer, for our agent), no /usr/lib/rabbitmq/bin/rabbitmq-server (the broker, "
            "as Debian packs it); image my/image must have that",
        ),
        (Shell(complaint='exec: "sh": not found'), 'n1: no shell can be run there (exec: "sh": not found)'),
        (Shell("python3"), "n1: no shell can be run there (no answer)"),  # cut off amid its answer
    ],
)
def test_what_a_node_lacks_is_named_before_anything_is_put_there(host: Any, problem: str) -> None:
    one, _, _ = cluster({})
    one._start._setup = replace(one._setup, image="my/image")
    one._nodes.hosts["n1"] = host
    with pytest.raises(SplitbrainError) as raised:
        asyncio.run(one._start.agent("n1"))
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("RabbitMQ 4.0.5 Erlang/OTP 27.3.4", None),
        ("RabbitMQ 4.1.0 Erlang/OTP 27.3.4", None),
        (
            "RabbitMQ 3.10.8 Erlang/OTP 25.2.3",
            "it is set up here as 4.0; name the version that it is of, or one near it: @4.0 or @3.10",
        ),
    ],
)
def test_a_version_that_it_was_not_set_up_for(said: str, refused: str | None) -> None:
    assert RabbitmqQuorum("4.0", resolve(RabbitmqQuorum.settings, {}, "")).refuses(said) == refused


class Telling(RabbitmqQuorum):
    """A broker that says what its ends mean, and watches a scope of its own."""

    exits = {"exit code 11": "it may only start anew", "exit code 9": "its storage"}
    retires = ("exit code 11",)
    scopes = ("elector",)
    unable = {LOSS: "it does not care"}


def telling() -> tuple[HostedCluster, Seen]:
    one, _, seen = cluster({})
    made = Telling("4.0", resolve(RabbitmqQuorum.settings, {}, ""))
    agents, one = one._nodes.agents, HostedCluster(one._setup, one._hosts, made)
    one._nodes.agents, one._watch.serving = agents, True
    return one, seen


def test_what_an_end_means_and_whether_it_is_a_crash() -> None:
    one, seen = telling()
    ends = [("broker", "exit code 11"), ("broker", "exit code 9"), ("broker", "signal SIGSEGV"), ("reporter", "gone")]
    for process, reason in ends:
        told = {"event": "exit", "at": 5, "process": process, "incarnation": 1, "reason": reason, "asked": False}
        one._watch.pushed("n1", told)
    assert seen.exits == [
        ("n1", 1, "exit code 11: it may only start anew", True),
        ("n1", 1, "exit code 9: its storage", False),
        ("n1", 1, "signal SIGSEGV", False),
    ]


def test_views_of_a_scope_of_the_brokers_own_are_kept() -> None:
    one, seen = telling()
    event = {"event": "views", "asked": 10, "at": 30, "incarnation": 2}
    views = [{**view("n1", "leader", 3), "scope": scope} for scope in ("elector", "another")]
    one._watch.pushed("n1", {**event, "views": views})
    assert [(seen_.scope, seen_.role, seen_.term) for seen_ in seen.views] == [("elector", "leader", 3)]


def test_verbs_that_make_no_sense_with_a_broker() -> None:
    assert telling()[0].abilities()[LOSS] == "it does not care"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"running": ["n1", "n2", "n3"]}, None),
        ({"running": ["n1", "n2", "n3"], "wrong": None}, None),
        ({"running": ["n1", "n2"], "wrong": None}, "it sees n1, n2 running"),
        ({"running": ["n1", "n2", "n3"], "wrong": "its leader is n2, passive"}, "its leader is n2, passive"),
    ],
)
def test_whether_a_node_sees_a_whole_cluster(answer: dict[str, Any], why: str | None) -> None:
    one, _, _ = cluster({"n1": {"ask": {"answer": answer}}})
    assert asyncio.run(one._start._formed("n1")) == why


@pytest.mark.parametrize(("serves", "asked"), [(("queue",), "publish"), (("log",), "append"), (("lock",), "write")])
def test_a_node_serves_what_its_broker_is_for(serves: tuple[str, ...], asked: str) -> None:
    class Client:
        async def close(self) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            async def probe(queue: str, body: bytes) -> None:
                done.append((name, queue, body))

            return probe

    done: list[tuple[str, str, bytes]] = []
    one, _, _ = cluster({})
    nodes = one._nodes
    nodes.serves = serves

    async def connect(node: str, name: str) -> Client:
        return Client()

    async def views(node: str) -> dict[str, Any]:
        return {}

    nodes.connect, nodes._views = connect, views  # type: ignore[method-assign]
    assert asyncio.run(nodes.serves_now("n1")) is None
    assert done == [(asked, "splitbrain.serving", b"serving?")]
