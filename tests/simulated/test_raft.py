from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.simulated.fifo import ENQUEUE, Fifo
from clusters.simulated.quorum.replica import QuorumReplica
from clusters.simulated.raft.log import ENTRIES, META, SNAPSHOT
from clusters.simulated.raft.machine import MEMBERS
from clusters.simulated.raft.rules import APPEND, APPENDED, ASK, ASKED, ELECTION_TIMER, VOTE, VOTED, Rules
from clusters.simulated.replica import BELIEF, COMPACT, SEND, SYNC, WRITE, Effect
from tests.simulated.raft_group import PID, Broken, Group

RULES = Rules(election=1000, hurry=10, heartbeat=100, snapshot=1000)


def live_through(seed: int, size: int, changes: bool = False) -> None:
    group = Group(Random(seed), size, changes=changes)
    for _ in range(12):
        group.run(100)
        if seed % 2:
            group.storm()
    group.settle()
    group.check_confirmed()


@given(seed=st.integers(0, 2**32), size=st.sampled_from([3, 3, 5]))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_the_invariants_hold_and_afterwards_the_group_settles(seed: int, size: int) -> None:
    live_through(seed, size)


@given(seed=st.integers(0, 2**32), size=st.sampled_from([2, 3, 4, 5]))
@settings(max_examples=100, deadline=None)
def test_they_hold_while_members_leave_and_join_and_leaders_give_way(seed: int, size: int) -> None:
    live_through(seed, size, changes=True)


@pytest.mark.long
@pytest.mark.parametrize("changes", [False, True])
def test_thousands_of_schedules_hold(changes: bool) -> None:
    for seed in range(5000):
        live_through(seed, 3 + seed % 3 if changes else 3, changes)


def test_the_schedules_go_deep_enough_to_mean_something() -> None:
    groups = [Group(Random(seed)) for seed in range(10)]
    for group in groups:
        group.run(1500)
    assert sum(len(group.leaders) for group in groups) > 30
    assert sum(len(group.committed) for group in groups) > 100
    assert sum(member.replica.log.base > 0 for group in groups for member in group.members.values()) > 5


def test_with_members_that_come_and_go_too() -> None:
    groups = [Group(Random(seed), 4, changes=True) for seed in range(30)]
    for group in groups:
        group.run(3000)
    changes = [command[3] for group in groups for command in group.committed.values() if command[0] == MEMBERS]
    assert len(changes) > 50
    assert {len(members) for members in changes} == {1, 2, 3, 4}
    ways = [(group, term, to) for group in groups for term, to in group.given_way.items()]
    assert sum(group.leaders.get(term + 1) == to for group, term, to in ways) > 2


@pytest.mark.parametrize(
    ("mutation", "broken"),
    [
        ("confirm-before-commit", "confirmed and lost"),
        ("no-fsync", "leader completeness|state machine safety|confirmed and lost|election safety|log matching"),
        ("vote-twice", "election safety"),
        ("ignore-log-up-to-date", "leader completeness"),
        ("serve-after-losing-majority", "state machine safety|leader completeness|confirmed and lost"),
    ],
)
def test_a_rule_switched_off_breaks_an_invariant(mutation: str, broken: str) -> None:
    def search() -> None:
        for seed in range(300):
            group = Group(Random(seed), 3, mutation)
            group.run(1500)
            group.check_confirmed()

    with pytest.raises(Broken, match=broken):
        search()


def test_many_changes_at_once_break_an_invariant() -> None:
    def search() -> None:
        for seed in range(100):
            group = Group(Random(seed), 4, "many-changes-at-once", changes=True)
            group.run(1500)
            group.check_confirmed()

    with pytest.raises(Broken, match=r"election safety|leader completeness|state machine safety|confirmed and lost"):
        search()


def test_a_new_replica_under_an_old_name_that_knows_nothing_breaks_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "reached", lambda self, leader: (0, 0))

    def search() -> None:
        for seed in range(320, 1000):  # one in some hundreds shows it
            live_through(seed, 2 + seed % 2, changes=True)

    with pytest.raises(Broken, match=r"election safety|leader completeness|state machine safety|confirmed and lost"):
        search()


@given(seed=st.integers(0, 2**32), changes=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_replica_restored_from_its_snapshot_goes_on_as_the_original(seed: int, changes: bool) -> None:
    group = Group(Random(seed), changes=changes)
    group.run(400)
    for member in group.members.values():
        original = member.replica
        state = original.snapshot()
        copy = QuorumReplica(member.name, member.born, Fifo(), group.rules)
        copy.since = original.since
        copy.restore(state)
        assert hash(copy.snapshot()) == hash(state)
        assert copy.snapshot() == state
        for source, target, message in group.flying:
            if target == member.name:
                original.message(source, message)
                copy.message(source, message)
        original.timer(ELECTION_TIMER, 0.5)
        copy.timer(ELECTION_TIMER, 0.5)
        assert copy.effects == original.effects
        assert copy.snapshot() == original.snapshot()


def start(name: str = "n1", rules: Rules = RULES) -> QuorumReplica:
    replica = QuorumReplica(name, ["n1", "n2", "n3"], Fifo(), rules)
    replica.start([], 0.5)
    replica.effects.clear()
    return replica


def taken(replica: QuorumReplica, *tags: int) -> list[Effect]:
    replica.flush()
    effects, replica.effects = replica.effects, []
    return [effect for effect in effects if effect[0] in tags]


def elected() -> QuorumReplica:
    replica = start()
    replica.timer(ELECTION_TIMER, 0.5)
    replica.message("n2", (ASKED, 0, True))
    replica.synced((0, 0, 1))
    replica.message("n2", (VOTED, 1, True))
    return replica


def test_an_election_asks_first_and_tells_nobody_of_a_term_that_is_not_durable() -> None:
    replica = start()
    replica.timer(ELECTION_TIMER, 0.5)
    assert taken(replica, SEND, BELIEF) == [
        (BELIEF, "pre-vote", 0),
        (SEND, "n2", (ASK, 0, 0, 0)),
        (SEND, "n3", (ASK, 0, 0, 0)),
    ]
    replica.message("n2", (ASKED, 0, True))
    assert taken(replica, SEND, BELIEF, WRITE, SYNC) == [
        (BELIEF, "candidate", 1),
        (WRITE, (0, 1, "n1")),
        (SYNC, (0, 0, 1)),
    ]
    replica.synced((0, 0, 1))
    assert taken(replica, SEND) == [(SEND, "n2", (VOTE, 1, 0, 0)), (SEND, "n3", (VOTE, 1, 0, 0))]
    replica.message("n3", (VOTED, 1, True))
    noop = (1, (0, None, 0, None, None))
    assert taken(replica, SEND, BELIEF) == [
        (BELIEF, "leader", 1),
        (SEND, "n2", (APPEND, 1, 0, 0, [noop], 0)),
        (SEND, "n3", (APPEND, 1, 0, 0, [noop], 0)),
    ]


def test_a_vote_is_given_once_a_term_and_only_when_it_is_durable() -> None:
    replica = start()
    replica.message("n2", (VOTE, 1, 0, 0))
    assert taken(replica, SEND) == []
    replica.synced((0, 0, 2))
    assert taken(replica, SEND) == [(SEND, "n2", (VOTED, 1, True))]
    replica.message("n3", (VOTE, 1, 5, 1))
    assert taken(replica, SEND) == [(SEND, "n3", (VOTED, 1, False))]


def test_an_entry_is_committed_when_a_majority_has_synced_it_the_leader_counting_as_one() -> None:
    replica = elected()
    replica.message("n2", (APPENDED, 1, True, 1))
    assert replica.commit == 0  # one of three: the leader's own sync is not there yet
    replica.synced((1, 0, 1))
    assert replica.commit == 1


def test_a_follower_acknowledges_what_it_has_synced_and_not_before() -> None:
    replica = start()
    entry = (1, (ENQUEUE, PID, 1, 1, b"m"))
    replica.message("n2", (APPEND, 1, 0, 0, [entry], 0))
    assert taken(replica, SEND) == []
    replica.synced((1, 0, 1))
    assert taken(replica, SEND) == [(SEND, "n2", (APPENDED, 1, True, 1))]


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    replica = start()
    old = (1, (ENQUEUE, PID, 1, 1, b"m"))
    replica.message("n2", (APPEND, 1, 0, 0, [old], 0))
    replica.synced((1, 0, 1))
    replica.timer(ELECTION_TIMER, 0.5)
    replica.message("n3", (ASKED, 1, True))
    replica.synced((1, 0, 2))
    replica.message("n3", (VOTED, 2, True))
    replica.message("n3", (APPENDED, 2, True, 1))
    assert replica.commit == 0
    replica.message("n3", (APPENDED, 2, True, 2))
    replica.synced((2, 0, 2))
    assert replica.commit == 2


def test_a_living_leader_answers_a_pre_vote_by_asserting_itself() -> None:
    replica = elected()
    taken(replica)
    replica.message("n3", (ASK, 1, 0, 0))
    assert [effect[2][0] for effect in taken(replica, SEND)] == [APPEND]
    assert replica.role == "leader"


def test_while_a_sync_is_under_way_requests_gather_and_then_travel_together() -> None:
    replica = elected()
    replica.synced((1, 0, 1))
    replica.message("n2", (APPENDED, 1, True, 1))
    taken(replica)
    for number in (1, 2, 3):
        replica.request(PID, (ENQUEUE, PID, number, number, b"m"))
        taken(replica)
    replica.synced((2, 0, 1))
    sent = [effect[2] for effect in taken(replica, SEND) if effect[1] == "n2"]
    assert [(message[2], len(message[4])) for message in sent] == [(2, 2)]


def test_a_member_that_was_killed_syncs_what_it_finds_before_it_acknowledges_it() -> None:
    replica = QuorumReplica("n1", ["n1", "n2", "n3"], Fifo(), RULES)
    entry = (2, (ENQUEUE, PID, 1, 1, b"m"))
    replica.start([(META, 2, "n2"), (ENTRIES, 1, [entry])], 0.5)
    assert taken(replica, SYNC) == [(SYNC, (1, 0, 1))]
    replica.message("n2", (APPEND, 2, 1, 2, [], 0))
    assert taken(replica, SEND) == []
    replica.synced((1, 0, 1))
    assert taken(replica, SEND) == [(SEND, "n2", (APPENDED, 2, True, 0)), (SEND, "n2", (APPENDED, 2, True, 1))]


def test_a_snapshot_takes_the_place_of_the_records_that_it_covers_and_of_no_others() -> None:
    replica = start(rules=Rules(election=1000, hurry=10, heartbeat=100, snapshot=2))
    entries = [(1, (ENQUEUE, PID, number, number, b"m")) for number in (1, 2, 3)]
    replica.message("n2", (APPEND, 1, 0, 0, entries[:2], 0))
    replica.message("n2", (APPEND, 1, 2, 1, entries[2:], 2))
    effects = taken(replica, WRITE, COMPACT)
    (_, records, keep), writes = effects[-1], [effect[1] for effect in effects[:-1]]
    assert [record[:3] for record in records] == [(SNAPSHOT, 2, 1)]
    assert list(filter(keep, writes)) == [(META, 1, None), (ENTRIES, 3, entries[2:])]
