"""What is dropped does not matter: held against the same exploration without dropping it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from chaos.search.prove.model import Core, Model
from chaos.search.prove.node import FIRE, Node
from chaos.search.prove.raft import RaftModel
from chaos.search.prove.scouting import ScoutingModel
from chaos.search.prove.symmetry import Symmetry
from chaos.search.prove.trace import events
from chaos.search.prove.world import LOSE, REPEAT, Worlds
from clusters.simulated.blazingmq.rules import SCOUTED
from clusters.simulated.raft.rules import ASK, VOTE
from clusters.simulated.replica import Message
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
    (states, many), (same, few) = states_of(plain, bounds), states_of(reduced, bounds)
    assert states == same
    assert few < many


def states_of(kind: type[Model], bounds: dict[str, Any]) -> tuple[set[Any], int]:
    """All states of nodes and past that are reached, under all names; and how many worlds there are."""
    worlds = Worlds(model(kind, **bounds))
    some, symmetry = reached(worlds, canonical=True), Symmetry(worlds)
    without = {world[: worlds.size + 2]: None for world in some}
    named = (symmetry.renamed(world, names) for world in without for names in symmetry.renamings)
    return {spelt(worlds, world)[:3] for world in named}, len(some)


class DeafRaft(RaftModel):
    """A wrong rule: who asks for votes in a term that is over hears nothing of it."""

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        stale = message[0] in (ASK, VOTE) and message[1] < core.state[2]
        return bool(stale) or super().ignores(core, left, message)


class DeafScouting(ScoutingModel):
    """A wrong rule: who has scouted as often as it may, and scouts, needs no answers."""

    def ignores(self, core: Core, left: Mapping[str, int], message: Message) -> bool:
        return (message[0] == SCOUTED and not left["scoutings"]) or super().ignores(core, left, message)


class ForgetfulRaft(RaftModel):
    """A wrong rule: for whom a node has voted does not matter."""

    def normal(self, core: Core) -> Core:
        normal = super().normal(core)
        return normal._replace(state=(*normal.state[:3], None, *normal.state[4:]))


@pytest.mark.parametrize(
    ("wrong", "right", "bounds"),
    [
        (DeafRaft, RaftModel, {"restarts": 0, "in_flight": 1}),
        (DeafScouting, ScoutingModel, {"nodes": 2, "scoutings": 2, "in_flight": 2}),
        (ForgetfulRaft, RaftModel, {"terms": 1, "restarts": 0, "in_flight": 1}),
    ],
)
def test_a_wrong_rule_would_be_noticed(wrong: type[Model], right: type[Model], bounds: dict[str, Any]) -> None:
    assert states_of(wrong, bounds)[0] != states_of(right, bounds)[0]


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
