"""What is found where a rule is broken, literally: the shortest way there, which the replicas' code goes again."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.trace import CRASH, ROLE
from chaos.search.prove.explore import Limits, explore
from chaos.search.prove.protocols import PROTOCOLS
from chaos.search.prove.trace import Story, events, retell
from chaos.search.prove.world import Worlds
from tests.search.prove.toy import UnreducedRaft, UnreducedScouting, model, prove


def story(protocol: str, **told: Any) -> Story:
    worlds, found = prove(protocol, **told)
    assert found.violation is not None
    retold = retell(worlds.model, events(worlds, found.trace))
    assert retold.violation == found.violation
    assert len(retold.steps) == len(found.trace) == found.depth
    return retold


def lines(story: Story) -> list[str]:
    return [f"{step.node} {step.what}{step.became and f': {step.became}'}" for step in story.steps]


def test_a_double_vote_in_raft() -> None:
    found = story("rabbitmq-quorum", mutation="vote-twice")
    assert found.violation == ("two-leaders", "term 1 has a second leader, n1")
    assert lines(found) == [
        "n1 election time-out: pre-vote, term 0",
        "n2 election time-out: pre-vote, term 0",
        "n3 gets pre-vote? term 0, last entry 0 of term 0 (from n1)",
        "n3 gets pre-vote? term 0, last entry 0 of term 0 (from n2)",
        "n2 gets pre-vote, term 0 (from n3): candidate, term 1",
        "n1 gets pre-vote, term 0 (from n3): candidate, term 1",
        "n3 gets vote? term 1, last entry 0 of term 0 (from n2): follower, term 1",
        "n2 gets vote, term 1 (from n3): leads term 1",
        "n3 gets vote? term 1, last entry 0 of term 0 (from n1)",
        "n1 gets vote, term 1 (from n3): leads term 1",
    ]
