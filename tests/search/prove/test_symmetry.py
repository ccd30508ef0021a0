"""Worlds that differ only in names: one of them stands for all, and what it can do, all can."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest

from chaos.search.prove.symmetry import Symmetry
from chaos.search.prove.world import Worlds
from tests.search.prove.toy import model, prove, reached, walk

FULL = (
    ("rabbitmq-quorum", {"terms": 1, "restarts": 0, "in_flight": 1}),
    ("rabbitmq-quorum", {"nodes": 2, "publishes": 1, "slow_disk": 1, "in_flight": 1}),
    ("blazingmq", {"terms": 1, "restarts": 0, "in_flight": 2}),
)
WALKED = (
    ("rabbitmq-quorum", {"publishes": 2, "heartbeats": 1, "reconnects": 1, "slow_disk": 1, "timeouts": 2, "terms": 3}),
    ("blazingmq", {"heartbeats": 1, "disconnects": 1, "scoutings": 2, "terms": 3}),
    ("blazingmq", {"nodes": 4, "heartbeats": 1, "ledger": 1}),
)


@pytest.mark.parametrize(("name", "bounds"), FULL)
def test_one_world_stands_for_all_that_are_like_it(name: str, bounds: dict[str, Any]) -> None:
    worlds = Worlds(model(name, **bounds))
    everything, symmetry = reached(worlds), Symmetry(worlds)
    some = reached(worlds, canonical=True)
    assert {symmetry.canonical(world) for world in everything} == set(some)
    assert {symmetry.renamed(world, names) for world in some for names in symmetry.renamings} == set(everything)
    assert len(some) < len(everything)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "bounds"), WALKED)
def test_names_do_not_matter(name: str, bounds: dict[str, Any], seed: int) -> None:
    """A world and the same under other names stand for each other, and so do the worlds that follow them."""
    worlds = Worlds(model(name, **bounds))
    symmetry = Symmetry(worlds)
    random = Random(seed)
    for world in walk(worlds, random, 60)[::6]:
        names = random.choice(list(permutations(range(worlds.size))))
        other = symmetry.renamed(world, names)
        assert symmetry.canonical(other) == symmetry.canonical(world)
        ahead = {symmetry.renamed(after, names): violation is None for _, after, violation in worlds.steps(world)}
        assert {after: violation is None for _, after, violation in worlds.steps(other)} == ahead


@pytest.mark.parametrize("mutation", ["none", "vote-twice", "forget-term"])
def test_the_verdict_and_the_depth_are_the_same_without(mutation: str) -> None:
    bounds = {"terms": 1, "restarts": 1, "in_flight": 1}
    for protocol in ("rabbitmq-quorum", "blazingmq"):
        with_, without = (prove(protocol, symmetry=on, mutation=mutation, **bounds)[1] for on in (True, False))
        told = [found.violation and found.violation.kind for found in (with_, without)]
        assert told[0] == told[1]
        assert with_.depth == without.depth
        assert with_.distinct < without.distinct
