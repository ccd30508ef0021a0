"""BlazingMQ's election: each rule as events in and effects out, and the invariant under random schedules."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from clusters.simulated.blazingmq.election import Elector
from clusters.simulated.blazingmq.rules import (
    CANDIDATE,
    CEDE,
    COUNT_STALE,
    FOLLOWER,
    FORGET_TERM,
    HEARTBEAT,
    LEADER,
    LEAVE,
    LEDGER,
    PROPOSE,
    SCOUT,
    SCOUTED,
    STALE,
    SUPPORT,
    TERM,
    VOTE_TWICE,
    ElectionRules,
)
from clusters.simulated.replica import BELIEF, COMPACT, SEND, TIMER, WRITE, Effect
from tests.simulated.blazingmq.electors import RULES, Broken, Electors

TIMES = ElectionRules(initial=8000, wait=3000, scouting=4000, election=4001, heartbeat=2000, patience=20000)
MEMBERS = ("n1", "n2", "n3")


def follower(term: int = 0, leader: str | None = None, quorum: int = 2, **rules: Any) -> Elector:
    """Node n1, in that term, which follows that leader."""
    elector = Elector("n1", MEMBERS, quorum, replace(TIMES, **rules))
    elector.start([(TERM, term)] if term else [], 0.5)
    if leader is not None:
        elector.message(leader, (HEARTBEAT, term))
        assert elector.leader == leader
    elector.effects.clear()
    return elector


def candidate(term: int, **rules: Any) -> Elector:
    """Node n1, which stands in that term."""
    elector = follower(term - 1, **rules)
    elector.timer(0, 0.5)
    elector.message("n2", (SCOUTED, term - 1, True))
    assert (elector.role, elector.term) == (CANDIDATE, term)
    elector.effects.clear()
    return elector


def leader(term: int, **rules: Any) -> Elector:
    """Node n1, which leads that term with n2's support."""
    elector = candidate(term, **rules)
    elector.message("n2", (SUPPORT, term))
    assert elector.role == LEADER
    elector.effects.clear()
    return elector


def told(elector: Elector) -> list[Effect]:
    """What it did, but for lines in its log."""
    found = [effect for effect in elector.effects if effect[0] in (SEND, TIMER, WRITE, BELIEF)]
    found += [(COMPACT, effect[1]) for effect in elector.effects if effect[0] == COMPACT]
    elector.effects.clear()
    return found


def said(elector: Elector, source: str, *message: Any) -> list[Effect]:
    """What it did about a message."""
    elector.message(source, message)
    return told(elector)


# --- scouting


def test_it_waits_and_then_asks_all_whether_they_would_support_it_without_changing_its_term() -> None:
    elector = Elector("n1", MEMBERS, 2, TIMES)
    elector.start([(TERM, 4)], 0.5)
    assert told(elector) == [(TIMER, 0, 8000 + 1500), (BELIEF, FOLLOWER, 4)]
    elector.timer(0, 0.25)
    assert told(elector) == [(SEND, "n2", (SCOUT, 5)), (SEND, "n3", (SCOUT, 5)), (TIMER, 0, 4000)]
    assert (elector.term, elector.role) == (4, FOLLOWER)


def test_it_would_support_a_higher_term_if_it_has_no_leader() -> None:
    assert said(follower(4), "n2", SCOUT, 5) == [(SEND, "n2", (SCOUTED, 4, True))]
    assert said(follower(4), "n2", SCOUT, 4) == [(SEND, "n2", (SCOUTED, 4, False))]
    assert said(follower(4, "n3"), "n2", SCOUT, 5) == [(SEND, "n2", (SCOUTED, 4, False))]
    assert said(candidate(4), "n2", SCOUT, 5) == [(SEND, "n2", (SCOUTED, 4, True))]
    assert said(leader(4), "n2", SCOUT, 5) == [(SEND, "n2", (SCOUTED, 4, False))]


def test_with_a_quorum_that_would_it_stands_in_that_term_and_proposes_itself_to_all() -> None:
    elector = follower(4)
    elector.timer(0, 0.5)
    elector.effects.clear()
    assert said(elector, "n3", SCOUTED, 4, True) == [
        (SEND, "n2", (PROPOSE, 5)),
        (SEND, "n3", (PROPOSE, 5)),
        (TIMER, 0, 4001),
        (BELIEF, CANDIDATE, 5),
        (COMPACT, [(TERM, 5)]),
    ]


def test_the_term_is_durable_before_anybody_hears_of_it() -> None:
    elector = follower(4)
    elector.timer(0, 0.5)
    elector.effects.clear()
    elector.message("n3", (SCOUTED, 4, True))
    assert elector.effects[0][0] == COMPACT


def test_when_all_have_answered_and_too_few_would_it_waits_and_asks_again() -> None:
    elector = follower(4)
    elector.timer(0, 0.5)
    elector.effects.clear()
    assert said(elector, "n2", SCOUTED, 4, False) == []
    assert said(elector, "n3", SCOUTED, 4, False) == [(TIMER, 0, 1500)]
    assert said(elector, "n2", SCOUTED, 4, True) == []  # too late
    elector.timer(0, 0.5)
    assert told(elector)[0] == (SEND, "n2", (SCOUT, 5))


def test_when_too_few_have_answered_in_time_it_waits_and_asks_again() -> None:
    elector = follower(4)
    elector.timer(0, 0.5)
    elector.effects.clear()
    elector.timer(0, 0.75)
    assert told(elector) == [(TIMER, 0, 2250)]
    elector.timer(0, 0.5)
    assert told(elector)[0] == (SEND, "n2", (SCOUT, 5))


def test_the_answer_of_a_node_that_has_gone_counts_no_longer() -> None:
    elector = follower(4, quorum=3)
    elector.timer(0, 0.5)
    elector.message("n2", (SCOUTED, 4, True))
    elector.down("n2", 0.5)
    elector.message("n3", (SCOUTED, 4, True))
    assert elector.role == FOLLOWER


def test_without_scouting_it_stands_at_once() -> None:
    elector = follower(4, scouts=False)
    elector.timer(0, 0.5)
    assert told(elector) == [
        (SEND, "n2", (PROPOSE, 5)),
        (SEND, "n3", (PROPOSE, 5)),
        (TIMER, 0, 4001),
        (BELIEF, CANDIDATE, 5),
        (COMPACT, [(TERM, 5)]),
    ]


# --- proposals


def test_a_proposal_in_a_higher_term_is_supported_by_whoever_has_no_leader() -> None:
    elector = follower(4)
    assert said(elector, "n2", PROPOSE, 5) == [
        (SEND, "n2", (SUPPORT, 5)),
        (TIMER, 0, 20000),
        (BELIEF, FOLLOWER, 5),
        (COMPACT, [(TERM, 5)]),
    ]
    assert (elector.leader, elector.tentative) == (None, "n2")
    assert said(elector, "n3", PROPOSE, 5) == []  # one vote a term
    assert said(elector, "n3", PROPOSE, 6)[0] == (SEND, "n3", (SUPPORT, 6))


def test_a_follower_sticks_to_its_leader_and_a_leader_to_itself() -> None:
    assert said(follower(4, "n3"), "n2", PROPOSE, 9) == []
    assert said(leader(4), "n2", PROPOSE, 9) == []


def test_a_candidate_steps_down_for_a_proposal_in_a_higher_term() -> None:
    elector = candidate(4)
    assert said(elector, "n2", PROPOSE, 4) == []
    assert said(elector, "n2", PROPOSE, 5) == [
        (SEND, "n2", (SUPPORT, 5)),
        (TIMER, 0, 20000),
        (BELIEF, FOLLOWER, 5),
        (COMPACT, [(TERM, 5)]),
    ]


def test_a_candidate_without_a_quorum_in_time_is_a_follower_again_and_its_term_stays_raised() -> None:
    elector = candidate(5)
    elector.timer(0, 0.5)
    assert told(elector) == [(TIMER, 0, 1500), (BELIEF, FOLLOWER, 5)]
    elector.timer(0, 0.5)
    assert told(elector)[0] == (SEND, "n2", (SCOUT, 6))


def test_a_quorum_of_supporters_makes_a_leader_who_tells_all_and_goes_on_telling() -> None:
    elector = candidate(5)
    assert said(elector, "n3", SUPPORT, 4) == []  # of an earlier term
    assert said(elector, "n3", SUPPORT, 5) == [
        (SEND, "n2", (HEARTBEAT, 5)),
        (SEND, "n3", (HEARTBEAT, 5)),
        (TIMER, 0, 2000),
        (BELIEF, LEADER, 5),
    ]
    elector.timer(0, 0.5)
    assert told(elector) == [(SEND, "n2", (HEARTBEAT, 5)), (SEND, "n3", (HEARTBEAT, 5)), (TIMER, 0, 2000)]


def test_a_quorum_of_one_wins_when_the_elections_time_is_over() -> None:
    elector = follower(4, quorum=1)
    elector.timer(0, 0.5)
    assert (BELIEF, CANDIDATE, 5) in told(elector)
    elector.timer(0, 0.5)
    assert (BELIEF, LEADER, 5) in told(elector)


def test_a_quorum_that_cannot_be_had_never_wins() -> None:
    elector = follower(4, quorum=100)
    elector.timer(0, 0.5)
    for node in ("n2", "n3"):
        elector.message(node, (SCOUTED, 4, True))
    assert elector.role == FOLLOWER


def test_a_support_that_comes_late_is_counted_and_one_of_a_higher_term_unseats() -> None:
    elector = leader(5)
    assert said(elector, "n3", SUPPORT, 5) == []
    assert sorted(elector.supporters) == ["n1", "n2", "n3"]
    assert said(elector, "n3", SUPPORT, 7) == [
        (TIMER, 0, 1500),
        (BELIEF, FOLLOWER, 7),
        (SEND, "n2", (CEDE, 7)),
        (SEND, "n3", (CEDE, 7)),
        (COMPACT, [(TERM, 7)]),
    ]


# --- heartbeats


def test_the_heartbeat_of_whom_it_voted_for_makes_it_the_leader() -> None:
    elector = follower(4)
    elector.message("n2", (PROPOSE, 5))
    elector.effects.clear()
    assert said(elector, "n3", HEARTBEAT, 5) == []
    assert said(elector, "n2", HEARTBEAT, 5) == [(TIMER, 0, 20000)]
    assert (elector.leader, elector.tentative) == ("n2", None)


def test_whoever_has_no_leader_follows_and_lends_its_support() -> None:
    assert said(follower(4), "n2", HEARTBEAT, 4) == [(TIMER, 0, 20000), (SEND, "n2", (SUPPORT, 4))]
    assert said(candidate(4), "n2", HEARTBEAT, 4) == [
        (TIMER, 0, 20000),
        (BELIEF, FOLLOWER, 4),
        (SEND, "n2", (SUPPORT, 4)),
    ]


def test_a_leader_of_a_higher_term_is_followed() -> None:
    elector = follower(4, "n3")
    assert said(elector, "n2", HEARTBEAT, 6) == [
        (TIMER, 0, 20000),
        (BELIEF, FOLLOWER, 6),
        (SEND, "n2", (SUPPORT, 6)),
        (COMPACT, [(TERM, 6)]),
    ]
    assert said(elector, "n2", HEARTBEAT, 6) == [(TIMER, 0, 20000)]


def test_a_heartbeat_of_a_lower_term_is_told_so_on_which_its_sender_steps_down_and_cedes() -> None:
    for elector in (follower(6), candidate(6)):
        assert said(elector, "n2", HEARTBEAT, 5) == [(SEND, "n2", (STALE, 6))]
    assert said(leader(6), "n2", HEARTBEAT, 5) == [(SEND, "n2", (HEARTBEAT, 6))]
    stale = leader(5)
    assert said(stale, "n3", STALE, 5) == []
    assert said(stale, "n3", STALE, 6) == [
        (TIMER, 0, 1500),
        (BELIEF, FOLLOWER, 6),
        (SEND, "n2", (CEDE, 6)),
        (SEND, "n3", (CEDE, 6)),
        (COMPACT, [(TERM, 6)]),
    ]


def test_a_leader_follows_one_of_a_higher_term_and_cedes() -> None:
    assert said(leader(5), "n3", HEARTBEAT, 6) == [
        (TIMER, 0, 20000),
        (BELIEF, FOLLOWER, 6),
        (SEND, "n2", (CEDE, 6)),
        (SEND, "n3", (CEDE, 6)),
        (COMPACT, [(TERM, 6)]),
    ]


def test_silence_costs_a_leader_its_follower_who_then_asks_round() -> None:
    for silent in (follower(4, "n2"), follower(4)):
        silent.message("n2", (PROPOSE, 5))  # the second votes for it, the first sticks to it as its leader
        silent.effects.clear()
        silent.timer(0, 0.75)
        assert told(silent) == [(TIMER, 0, 2250)]
        assert (silent.leader, silent.tentative) == (None, None)
        silent.timer(0, 0.5)
        assert told(silent)[0][2][0] == SCOUT


# --- cession and unavailability


def test_a_cession_frees_its_followers_at_once() -> None:
    elector = follower(5, "n2")
    assert said(elector, "n3", CEDE, 6) == []
    assert said(elector, "n2", CEDE, 4) == []
    assert said(elector, "n2", CEDE, 6) == [(TIMER, 0, 1500)]
    assert elector.leader is None
    assert said(candidate(5), "n2", CEDE, 6) == []
    assert said(leader(5), "n2", CEDE, 5) == [(SEND, "n2", (HEARTBEAT, 5))]
    assert said(leader(5), "n2", CEDE, 6) == []


def test_without_cession_nobody_says_or_hears_it() -> None:
    assert said(leader(5, cedes=False), "n3", STALE, 6) == [
        (TIMER, 0, 1500),
        (BELIEF, FOLLOWER, 6),
        (COMPACT, [(TERM, 6)]),
    ]
    assert said(follower(5, "n2", cedes=False), "n2", CEDE, 6) == []


@pytest.mark.parametrize("how", ["gone", "leaves"])
def test_a_leader_that_is_unavailable_is_none(how: str) -> None:
    def unavailable(elector: Elector, node: str) -> list[Effect]:
        if how == "gone":
            elector.down(node, 0.5)
        else:
            elector.message(node, (LEAVE, 5))
        return told(elector)

    elector = follower(5, "n2")
    assert unavailable(elector, "n3") == []
    assert unavailable(elector, "n2") == [(TIMER, 0, 1500)]
    standing = candidate(5)
    standing.quorum = 3
    standing.message("n2", (SUPPORT, 5))
    assert unavailable(standing, "n2") == []
    standing.message("n3", (SUPPORT, 5))
    assert standing.role == CANDIDATE
    leading = leader(5)
    assert unavailable(leading, "n3") == []
    assert unavailable(leading, "n2") == [
        (TIMER, 0, 1500),
        (BELIEF, FOLLOWER, 5),
        (SEND, "n2", (CEDE, 5)),
        (SEND, "n3", (CEDE, 5)),
    ]


def test_a_node_that_turns_up_hears_at_once_who_leads() -> None:
    elector = leader(5)
    elector.up("n3")
    assert told(elector) == [(SEND, "n3", (HEARTBEAT, 5))]
    follower(5).up("n3")


def test_a_process_that_is_told_to_end_says_so() -> None:
    elector = follower(5)
    elector.stop()
    assert told(elector) == [(SEND, "n2", (LEAVE, 5)), (SEND, "n3", (LEAVE, 5))]


# --- restart


def test_a_restart_keeps_only_the_term() -> None:
    disk: list[Any] = [("another record",)]
    elector = follower()
    elector.timer(0, 0.5)
    elector.message("n2", (SCOUTED, 0, True))
    elector.message("n2", (SUPPORT, 1))
    for effect in elector.effects:
        if effect[0] == COMPACT:
            disk = [*effect[1], *filter(effect[2], disk)]
    assert disk == [(TERM, 1), ("another record",)]
    again = Elector("n1", MEMBERS, 2, TIMES)
    again.start(disk, 0.5)
    assert (again.term, again.role, again.leader, again.supporters) == (1, FOLLOWER, None, {})


def test_in_the_ledger_is_the_term_of_the_last_leader_and_no_vote() -> None:
    elector = follower(terms=LEDGER)
    assert not [effect for effect in said(elector, "n2", PROPOSE, 3) if effect[0] == WRITE]
    assert (WRITE, (TERM, 3)) in said(elector, "n2", HEARTBEAT, 3)
    standing = candidate(5, terms=LEDGER)
    assert (WRITE, (TERM, 5)) in said(standing, "n2", SUPPORT, 5)
    again = Elector("n1", MEMBERS, 2, TIMES)
    again.start([(TERM, 3), (TERM, 5)], 0.5)
    assert again.term == 5


# --- the whole


@pytest.mark.parametrize("make", [follower, candidate, leader])
def test_a_replica_that_is_restored_is_what_was_snapshot(make: Any) -> None:
    elector = make(5)
    elector.timer(0, 0.3)
    whole = elector.snapshot()
    hash(whole)
    twin = Elector("n1", MEMBERS, 2, TIMES)
    twin.restore(whole)
    assert twin.snapshot() == whole
    for message in ((PROPOSE, 9), (HEARTBEAT, 9), (SUPPORT, 9), (SCOUTED, 4, True)):
        elector.restore(whole)
        twin.restore(whole)
        assert said(twin, "n2", *message) == said(elector, "n2", *message)
        assert twin.snapshot() == elector.snapshot()


def walk(seed: int, rules: ElectionRules, **more: Any) -> int:
    """How many terms had a leader, before two led one."""
    electors = Electors(Random(seed), rules, **more)
    electors.run(1500)
    return len(electors.led)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("scouts", [True, False])
@pytest.mark.parametrize("cedes", [True, False])
def test_no_two_lead_in_one_term(size: int, scouts: bool, cedes: bool) -> None:
    rules = replace(RULES, scouts=scouts, cedes=cedes)
    assert sum(walk(seed, rules, size=size) for seed in range(40)) > 80


def found(rules: ElectionRules, walks: int = 2000, **more: Any) -> bool:
    """Whether two leaders in one term are met in so many walks."""
    for seed in range(walks):
        try:
            walk(seed, rules, **more)
        except Broken:
            return True
    return False


@pytest.mark.parametrize("mutation", [VOTE_TWICE, FORGET_TERM, COUNT_STALE])
def test_each_rule_that_is_broken_is_found_out(mutation: str) -> None:
    assert found(replace(RULES, mutation=mutation))


def test_terms_out_of_the_ledger_and_quorums_of_one_let_two_lead_in_one_term() -> None:
    assert found(replace(RULES, terms=LEDGER))
    assert found(RULES, quorum=1)
