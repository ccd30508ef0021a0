"""What is found where a rule is broken, literally: the shortest way there, which the replicas' code goes again."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.trace import CRASH, ROLE
from chaos.search.prove.protocols import PROTOCOLS
from chaos.search.prove.trace import Story, events, retell
from chaos.search.prove.world import Worlds
from tests.search.prove.toy import model, prove

DOUBLE_VOTE = [
    "n1 election time-out: pre-vote, term 0",
    "n2 election time-out: pre-vote, term 0",
    "n3 gets pre-vote? term 0, last entry 0 of term 0 (from n2)",
    "n2 gets pre-vote? term 0, last entry 0 of term 0 (from n1)",
    "n2 gets pre-vote, term 0 (from n3): candidate, term 1",
    "n1 gets pre-vote, term 0 (from n2): candidate, term 1",
    "n3 gets vote? term 1, last entry 0 of term 0 (from n2): follower, term 1",
    "n2 gets vote, term 1 (from n3): leads term 1",
    "n3 gets vote? term 1, last entry 0 of term 0 (from n1)",
    "n1 gets vote, term 1 (from n3): leads term 1",
]
SCOUTED_TWICE = [
    "n1 scouts",
    "n2 scouts",
    "n3 gets would you?, term 1 (from n1)",
    "n3 gets would you?, term 1 (from n2)",
    "n2 gets I would, term 0 (from n3): candidate, term 1",
    "n1 gets I would, term 0 (from n3): candidate, term 1",
    "n3 gets proposal, term 1 (from n2): follower, term 1",
]
TERM_FORGOTTEN = [
    *SCOUTED_TWICE,
    "n3 is killed, and starts again: follower, term 0",
    "n3 gets proposal, term 1 (from n1): follower, term 1",
    "n1 gets support, term 1 (from n3): leads term 1",
    "n2 gets support, term 1 (from n3): leads term 1",
]

FINDINGS: tuple[tuple[str, dict[str, Any], tuple[str, str], list[str]], ...] = (
    (
        "rabbitmq-quorum",
        {"mutation": "vote-twice"},
        ("two-leaders", "term 1 has a second leader, n1"),
        [*DOUBLE_VOTE[:7], DOUBLE_VOTE[8], DOUBLE_VOTE[7], DOUBLE_VOTE[9]],
    ),
    (
        "rabbitmq-quorum",
        {"mutation": "forget-term"},
        ("two-leaders", "term 1 has a second leader, n1"),
        [*DOUBLE_VOTE[:7], "n3 is killed, and starts again: follower, term 0", DOUBLE_VOTE[7],
         f"{DOUBLE_VOTE[8]}: follower, term 1", DOUBLE_VOTE[9]],
    ),
    (
        "rabbitmq-quorum",
        {"mutation": "no-fsync"},
        ("two-leaders", "term 1 has a second leader, n1"),
        [*DOUBLE_VOTE[:7], "n3 loses power, and starts again with what was synced: follower, term 0",
         f"{DOUBLE_VOTE[8]}: follower, term 1", DOUBLE_VOTE[7], DOUBLE_VOTE[9]],
    ),
    (
        "rabbitmq-quorum",
        {"mutation": "ignore-log-up-to-date"},
        ("leader-completeness", "n3 leads term 2 without entry 1, committed in term 1"),
        [
            "n1 election time-out: pre-vote, term 0",
            "n2 gets pre-vote? term 0, last entry 0 of term 0 (from n1)",
            "n1 gets pre-vote, term 0 (from n2): candidate, term 1",
            "n3 gets vote? term 1, last entry 0 of term 0 (from n1): follower, term 1",
            "n3 election time-out: pre-vote, term 1",
            "n1 gets vote, term 1 (from n3): leads term 1",
            "n2 gets append of term 1: entries 1 to 1, committed 0 (from n1): follower, term 1",
            "n1 gets appended, term 1: up to 1 (from n2): has 1 committed",
            "n2 gets pre-vote? term 1, last entry 0 of term 0 (from n3)",
            "n3 gets pre-vote, term 1 (from n2): candidate, term 2",
            "n2 gets vote? term 2, last entry 0 of term 0 (from n3): follower, term 2",
            "n3 gets vote, term 2 (from n2): leads term 2",
        ],
    ),
    (
        "blazingmq",
        {"mutation": "vote-twice"},
        ("two-leaders", "term 1 has a second leader, n1"),
        [*SCOUTED_TWICE, "n2 gets support, term 1 (from n3): leads term 1", "n3 gets proposal, term 1 (from n1)",
         "n1 gets support, term 1 (from n3): leads term 1"],
    ),
    (
        "blazingmq",
        {"mutation": "forget-term"},
        ("two-leaders", "term 1 has a second leader, n2"),
        TERM_FORGOTTEN,
    ),
    (  # no rule is broken here but the specification's: that a node starts again with the term that it had
        "blazingmq",
        {"ledger": 1},
        ("two-leaders", "term 1 has a second leader, n2"),
        TERM_FORGOTTEN,
    ),
    (
        "blazingmq",
        {"mutation": "count-stale-votes", "restarts": 0, "scoutings": 2, "in_flight": 2},
        ("two-leaders", "term 2 has a second leader, n2"),
        [
            "n1 scouts",
            "n2 gets would you?, term 1 (from n1)",
            "n3 gets would you?, term 1 (from n1)",
            "n1 gets I would, term 0 (from n2): candidate, term 1",
            "n1 its election's time is over: follower, term 1",
            "n1 scouts",
            "n1 gets I would, term 0 (from n3): candidate, term 2",
            "n2 gets proposal, term 1 (from n1): follower, term 1",
            "n2 gives up n1, which was silent",
            "n2 scouts",
            "n1 gets support, term 1 (from n2): leads term 2",
            "n3 gets would you?, term 2 (from n2)",
            "n2 gets I would, term 0 (from n3): candidate, term 2",
            "n3 gets proposal, term 2 (from n2): follower, term 2",
            "n2 gets support, term 2 (from n3): leads term 2",
        ],
    ),
)  # fmt: skip
NAMES = [f"{protocol}-{told.get('mutation', 'ledger')}" for protocol, told, _, _ in FINDINGS]


def told(protocol: str, **bounds: Any) -> Story:
    """The shortest way to a violation, gone again on the replicas' code."""
    worlds, found = prove(protocol, **bounds)
    assert found.violation is not None
    story = retell(worlds.model, events(worlds, found.trace))
    assert story.violation == found.violation
    assert len(story.steps) == len(found.trace) == found.depth
    return story


@pytest.mark.parametrize(("protocol", "bounds", "violation", "way"), FINDINGS, ids=NAMES)
def test_a_broken_rule_is_found_in_the_fewest_steps(
    protocol: str, bounds: dict[str, Any], violation: tuple[str, str], way: list[str]
) -> None:
    story = told(protocol, **bounds)
    assert story.violation == violation
    assert [f"{step.node} {step.what}{step.became and f': {step.became}'}" for step in story.steps] == way


@pytest.mark.long
def test_a_leader_that_serves_without_its_majority_is_found() -> None:
    story = told("rabbitmq-quorum", mutation="serve-after-losing-majority", heartbeats=4, restarts=0)
    assert story.violation is not None
    assert story.violation.kind == "leader-completeness"
    assert len(story.steps) == 13


def test_every_mutation_is_among_them() -> None:
    found = {(protocol, bounds.get("mutation")) for protocol, bounds, _, _ in FINDINGS}
    known = {(protocol, mutation) for protocol, kind in PROTOCOLS.items() for mutation in kind.mutations}
    assert known - found == {("rabbitmq-quorum", "serve-after-losing-majority")}


def test_no_way_is_shorter() -> None:
    """By a search that takes no two worlds for one, and drops no letter."""
    worlds = Worlds(model("blazingmq", mutation="vote-twice", in_flight=2, restarts=0, terms=1))
    level, depth = {worlds.first(): None}, 1
    seen = dict(level)
    while not any(violation for world in level for _, _, violation in worlds.steps(world)):
        ahead = {after: None for world in level for _, after, _ in worlds.steps(world) if after not in seen}
        level, depth = ahead, depth + 1
        seen.update(ahead)
    assert depth == len(SCOUTED_TWICE) + 3


@pytest.mark.parametrize(
    ("protocol", "bounds"),
    [
        ("rabbitmq-quorum", {"restarts": 0}),
        ("rabbitmq-quorum", {"nodes": 2, "terms": 2, "publishes": 1, "slow_disk": 1, "in_flight": 1}),
        ("rabbitmq-quorum", {"nodes": 2, "timeouts": 2, "publishes": 1, "terms": 3, "in_flight": 1}),
        ("blazingmq", {"scoutings": 2, "restarts": 0, "in_flight": 1}),
        ("blazingmq", {"nodes": 2, "scoutings": 2, "restarts": 0, "terms": 3}),
    ],
)
def test_with_all_rules_nothing_is_found(protocol: str, bounds: dict[str, Any]) -> None:
    _, found = prove(protocol, **bounds)
    assert (found.violation, found.cut, found.waiting) == (None, None, 0)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("bounds", "distinct"), [({}, 516_017), ({"publishes": 1}, 4_514_329)], ids=["as it is", "with a message"]
)
def test_raft_with_a_restart_each_is_exhausted(bounds: dict[str, Any], distinct: int) -> None:
    _, found = prove("rabbitmq-quorum", **bounds)
    assert (found.violation, found.cut, found.waiting, found.distinct) == (None, None, 0, distinct)


def test_a_way_as_a_space_time_diagram_has_it() -> None:
    trace = told("blazingmq", mutation="forget-term").trace
    assert trace.lines == ("n1", "n2", "n3")
    arrived = [(m.source, m.target, m.time, m.arrival, m.label, m.term) for m in trace.messages if m.arrival]
    assert arrived[-2:] == [("n3", "n2", 7, 11, "support", 1), ("n3", "n1", 9, 10, "support", 1)]
    roles = [(one.time, one.line, one.label, one.term) for one in trace.happenings if one.kind == ROLE]
    assert roles[:3] == [(0, node, "follower", 0) for node in trace.lines]
    assert roles[3:] == [
        (5, "n2", "candidate", 1),
        (6, "n1", "candidate", 1),
        (7, "n3", "follower", 1),
        (8, "n3", "follower", 0),
        (9, "n3", "follower", 1),
        (10, "n1", "leader", 1),
        (11, "n2", "leader", 1),
    ]
    crashes = [(one.time, one.line, one.label) for one in trace.happenings if one.kind == CRASH]
    assert crashes == [(8, "n3", "is killed, and starts again")]
