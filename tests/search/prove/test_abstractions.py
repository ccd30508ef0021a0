"""What is dropped does not matter: held against the same exploration without dropping it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chaos.search.prove.model import Model
from chaos.search.prove.node import FIRE, Node
from chaos.search.prove.raft import RaftModel
from chaos.search.prove.scouting import ScoutingModel
from chaos.search.prove.symmetry import Symmetry
from chaos.search.prove.trace import events
from chaos.search.prove.world import LOSE, REPEAT, Worlds
from tests.search.prove.toy import Raw, Unreduced, model, reached, spelt


class UnreducedRaft(Unreduced, RaftModel):
    pass


class UnreducedScouting(Unreduced, ScoutingModel):
    pass


class RawRaft(Raw, Unreduced, RaftModel):
    pass


class RawScouting(Raw, Unreduced, ScoutingModel):
    pass


@pytest.mark.parametrize(
    ("plain", "reduced", "bounds"),
    [
        (UnreducedRaft, RaftModel, {"terms": 1, "restarts": 0}),
        (UnreducedRaft, RaftModel, {"nodes": 2, "restarts": 1, "slow_disk": 1, "publishes": 1}),
        (UnreducedScouting, ScoutingModel, {"terms": 2, "restarts": 0, "in_flight": 2}),
        (UnreducedScouting, ScoutingModel, {"nodes": 2, "scoutings": 2, "in_flight": 3}),
        (UnreducedScouting, ScoutingModel, {"nodes": 2, "disconnects": 1}),
    ],
)
def test_letters_of_no_account_are(plain: type[Model], reduced: type[Model], bounds: dict[str, Any]) -> None:
    """Without them the nodes come into the same states, together with the same past."""
    found = []
    for kind in (plain, reduced):
        worlds = Worlds(model(kind, **bounds))
        some, symmetry = reached(worlds, canonical=True), Symmetry(worlds)
        under_way = {world[: worlds.size + 2]: None for world in some}
        found.append((
            {spelt(worlds, symmetry.renamed(world, names))[:3] for world in under_way for names in symmetry.renamings},
            len(some),
        ))  # fmt: skip
    (states, many), (same, few) = found
    assert states == same
    assert few < many


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("raw", "normal", "bounds"),
    [
        (RawRaft, RaftModel, {"timeouts": 3, "terms": 4, "publishes": 3, "restarts": 2, "reconnects": 1}),
        (RawRaft, RaftModel, {"timeouts": 3, "terms": 4, "publishes": 3, "restarts": 2, "slow_disk": 1}),
        (RawScouting, ScoutingModel, {"scoutings": 3, "terms": 4, "restarts": 2, "heartbeats": 2}),
        (RawScouting, ScoutingModel, {"scoutings": 3, "terms": 4, "disconnects": 2, "ledger": 1}),
    ],
)
def test_a_node_does_the_same_from_its_normal_form(
    raw: type[Model], normal: type[Model], bounds: dict[str, Any], seed: int
) -> None:
    worlds, plain = Worlds(model(raw, **bounds)), model(normal, **bounds)
    nodes = {name: Node(plain, name) for name in plain.nodes}
    cores = {name: node.first()[0] for name, node in nodes.items()}
    random, world = Random(seed), worlds.first()
    for _ in range(150):
        ahead = [step for step in worlds.steps(world) if step[0].event[0] not in (LOSE, REPEAT)]
        if not ahead:
            break
        move, after, _ = random.choice(ahead)
        ((name, event),) = events(worlds, [move])
        said = set(after[worlds.size + 2 :]) - set(world[worlds.size + 2 :])
        cores[name], view, sent = nodes[name].after(cores[name], event)
        world = after
        local = worlds.locals[world[move.node]]
        assert cores[name] == plain.normal(local.core), event
        assert view == worlds.views[world[move.node]]
        told = {(worlds.model.nodes[worlds.letters[letter].target], worlds.letters[letter].message) for letter in said}
        assert told <= set(sent)


def test_what_changes_nothing_is_no_step() -> None:
    """A leader's election timer may fire; that does nothing, and is left out."""
    worlds = Worlds(model("rabbitmq-quorum", restarts=0, timeouts=2, terms=1, in_flight=1))
    leading = [
        world for world in reached(worlds, canonical=True)
        if any(worlds.views[local].leads for local in world[:3])
    ]  # fmt: skip
    assert leading
    for world in leading[:200]:
        for move, _, _ in worlds.steps(world):
            assert move.event != (FIRE, 0) or not worlds.views[world[move.node]].leads
