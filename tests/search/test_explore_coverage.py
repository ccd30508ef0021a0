"""What a history covers: literal history in, whole coverage out; and coverages add up."""

from __future__ import annotations

from collections import Counter

from chaos.model.op import INFO
from chaos.search.coverage import Coverage, coverage
from tests.checkers.histories import Story


def test_faults_leaders_states_and_transitions_of_a_run() -> None:
    story = Story()
    story.belief("n1", "leader", 1)
    story.belief("n2", "follower", 1)
    story.belief("n3", "follower", 1)
    story.inject("partition-1", "n1")
    story.belief("n2", "candidate", 2)
    story.belief("n2", "leader", 2)
    story.undo("partition-1")
    story.belief("n1", "follower", 2)
    story.inject("kill-1", "n2", nemesis="kill", kind="kill", target="leader")
    story.belief("n2", "down", 2)
    story.inject("kill-2", end=INFO)
    story.belief("n1", "leader", 3)
    story.belief("n1", "leader", 4)
    assert coverage(story.history()).to_json() == {
        "runs": 1,
        "faults": {"kill of leader": 1, "partition halves of one": 1},
        "idle": 1,
        "leader_changes": 2,
        "states": {"leader": 4, "follower": 3, "candidate": 1, "down": 1},
        "transitions": {
            "follower > candidate (newer term)": 1,
            "candidate > leader": 1,
            "leader > follower (newer term)": 1,
            "leader > down": 1,
            "follower > leader (newer term)": 1,
            "leader > leader (newer term)": 1,
        },
        "together": {
            "leader": 1,
            "follower, leader": 1,
            "follower, follower, leader": 2,
            "candidate, follower, leader": 1,
            "follower, leader, leader": 1,
            "down, follower, follower": 1,
            "down, follower, leader": 2,
        },
    }


def test_queues_are_apart_and_a_protocol_without_terms_has_no_newer_ones() -> None:
    story = Story()
    story.belief("n1", "leader", None, scope="a")
    story.belief("n2", "leader", None, scope="b")
    story.belief("n1", "mirror", None, scope="a")
    found = coverage(story.history())
    assert found.leader_changes == 0
    assert found.transitions == {"leader > mirror": 1}
    assert found.together == {"leader": 2, "mirror": 1}


def test_an_empty_history_is_one_run() -> None:
    assert coverage(Story().history()) == Coverage(runs=1)


def test_coverages_add_up_and_read_back() -> None:
    def cover(runs: int, idle: int, changes: int, *tables: dict[str, int]) -> Coverage:
        faults, states, transitions, together = map(Counter, tables)
        return Coverage(runs, faults, idle, changes, states, transitions, together)

    one = cover(1, 1, 3, {"kill of one": 2}, {"leader": 1}, {"a > b": 1}, {"leader": 1})
    two = cover(2, 0, 1, {"kill of one": 1, "pause of one": 1}, {"down": 4}, {"a > b": 2}, {"leader": 2})
    both = cover(3, 1, 4, {"kill of one": 3, "pause of one": 1}, {"leader": 1, "down": 4}, {"a > b": 3}, {"leader": 3})
    assert one + two == both == two + one
    assert Coverage.from_json(both.to_json()) == both
    assert list(both.to_json()["states"]) == ["down", "leader"]  # the most frequent first
