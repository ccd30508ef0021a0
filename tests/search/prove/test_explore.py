"""Counts by hand, limits, and what is the same however it is explored."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from chaos.search.prove.explore import Found, Limits, explore
from chaos.search.prove.world import Worlds
from tests.search.prove.toy import Knocking, model, prove, reached, spelt

SMALL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rabbitmq-quorum", {"terms": 1, "restarts": 0, "in_flight": 2}),
    ("rabbitmq-quorum", {"nodes": 2, "restarts": 1, "publishes": 1, "slow_disk": 1, "in_flight": 1}),
    ("rabbitmq-quorum", {"nodes": 2, "heartbeats": 1, "reconnects": 1, "restarts": 0, "losses": 1, "duplications": 1}),
    ("blazingmq", {"restarts": 0, "in_flight": 1}),
    ("blazingmq", {"nodes": 2, "scoutings": 1, "disconnects": 1, "heartbeats": 1, "in_flight": 2}),
)


# Each of two nodes: has not knocked; its knock is under way; it has arrived. What the other has heard follows.
@pytest.mark.parametrize(
    ("bounds", "worlds", "unlike"),
    [
        ({}, 3 * 3, 6),
        # or it has arrived, and is under way still: one knock of the two at most
        ({"duplications": 1}, 4 * 4 - 1, 9),
        # or it is lost: one of the two at most
        ({"losses": 1}, 4 * 4 - 1, 9),
        # both are never under way together; instead, one of them is lost and the other under way or arrived
        ({"in_flight": 1}, 3 * 3 - 1 + 4, 7),
        ({"knocks": 0}, 1, 1),
    ],
)
def test_states_counted_by_hand(bounds: dict[str, Any], worlds: int, unlike: int) -> None:
    given = {"restarts": 0, **bounds}
    assert prove(Knocking, 2, symmetry=False, **given)[1].distinct == worlds
    assert prove(Knocking, 2, **given)[1].distinct == unlike


def test_a_disk_counted_by_hand() -> None:
    """Whoever has heard has also written it, and may start again with it; with a slow disk it may not be synced yet."""
    # n2 cannot knock: silent; under way; arrived. Then n1 or n2 may start again: n1 in each, n2 in each.
    at_once = prove(Knocking, 2, symmetry=False, knocks=1, restarts=0)[1]
    slow = prove(Knocking, 2, symmetry=False, knocks=1, restarts=0, slow_disk=1)[1]
    assert (at_once.distinct, slow.distinct) == (9, 16)  # each knock also: arrived, and what was heard not yet synced


def test_a_power_off_forgets_what_was_not_synced_and_a_kill_does_not() -> None:
    worlds = Worlds(model(Knocking, 2, slow_disk=1))
    told = {
        (move.event[0], worlds.locals[after[move.node]].core)
        for world in reached(worlds)
        for move, after, _ in worlds.steps(world)
        if move.event[0] in ("kill", "power-off") and worlds.locals[world[move.node]].core.state == (True, False)
    }
    assert {(event, core.state, core.disk.durable) for event, core in told} == {
        ("kill", (True, False), ()),
        ("power-off", (False, False), ()),
    }


@pytest.mark.parametrize(("name", "bounds"), SMALL)
def test_what_is_looked_up_is_what_the_code_does(name: str, bounds: dict[str, Any]) -> None:
    looked_up, worked_out = Worlds(model(name, **bounds)), Worlds(model(name, **bounds), memo=False)
    assert list(reached(looked_up, canonical=True)) == list(reached(worked_out, canonical=True))
    assert looked_up.locals == worked_out.locals


def test_the_search_finds_every_world_and_says_how_deep() -> None:
    worlds, found = prove("blazingmq", restarts=0)
    assert len(reached(worlds, canonical=True)) == found.distinct == 5826
    assert (found.violation, found.cut, found.waiting, found.depth) == (None, None, 0, 26)


def test_the_published_configuration_of_the_scouting_election_is_exhausted() -> None:
    """Three servers, one scouting and one restart each, terms below 3."""
    _, found = prove("blazingmq")
    assert (found.violation, found.cut, found.waiting) == (None, None, 0)
    assert (found.states, found.distinct, found.depth) == (517_926, 90_279, 28)


@pytest.mark.parametrize(
    ("limits", "cut"),
    [(Limits(states=1000), "states"), (Limits(time=1), "time"), (Limits(memory=1), "memory")],
)
def test_an_exploration_that_is_given_up_says_why(limits: Limits, cut: str) -> None:
    found = explore(Worlds(model("rabbitmq-quorum")), limits)
    assert (found.cut, found.violation) == (cut, None)
    assert found.waiting > 0
    assert found.distinct < 1100


def test_an_interrupt_leaves_what_there_is() -> None:
    def interrupt(found: Found) -> None:
        if found.distinct >= 512:
            raise KeyboardInterrupt

    found = explore(Worlds(model("rabbitmq-quorum")), Limits(), progress=interrupt)
    assert (found.cut, found.violation) == ("interrupted", None)
    assert found.distinct >= 512


PROGRAM = """
from tests.search.prove.toy import prove, spelt
worlds, found = prove("rabbitmq-quorum", mutation="forget-term")
print(found.states, found.distinct, found.depth, found.trace, found.violation, worlds.letters)
"""


def test_every_process_explores_alike() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_worlds_are_told_apart_in_full() -> None:
    """Numbers are as good as what they stand for."""
    worlds = Worlds(model("rabbitmq-quorum", terms=1, restarts=0))
    seen: dict[Any, Any] = {}
    for world in reached(worlds, canonical=True):
        assert seen.setdefault(spelt(worlds, world), world) == world
