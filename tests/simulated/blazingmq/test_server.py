"""A node's replica: how a new leader synchronises with the others in both directions, and when it answers."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.simulated.blazingmq.leader import Leader
from clusters.simulated.blazingmq.log import CONFIRM, MESSAGE, POINT, Entry
from clusters.simulated.blazingmq.rules import (
    ACTIVE,
    APPEND,
    CANDIDATE,
    CEDE,
    DATA,
    EVENTUAL,
    FOLLOWER,
    HAVE,
    HEARTBEAT,
    LEADER,
    LEDGER,
    PERSISTED,
    PROPOSE,
    PULL,
    PULLED,
    SCOUTED,
    STATE,
    STRONG,
    SUPPORT,
    TERM,
    ElectionRules,
)
from clusters.simulated.blazingmq.server import ATTACH, PRIMARY, Server
from clusters.simulated.channel import RESUME
from clusters.simulated.fifo import APPLIED, CHECKOUT, DELIVER, ENQUEUE, RESUMED, SETTLE
from clusters.simulated.replica import EXIT, REPLY, SEND, WRITE, Effect

MEMBERS = ("n1", "n2", "n3")
PID = ("n2", 1, 1)
HERE = ("n1", 1, 1)
NOBODY = ("n9", 1, 1)


def message(lease: int, number: int) -> Entry:
    return (MESSAGE, lease, "q", NOBODY, number, b"m%d" % number)


def node(*entries: Entry, term: int = 0, consistency: str = STRONG, quorum: int = 2, terms: str = PERSISTED) -> Server:
    """Node n1 with these records, just started."""
    rules = ElectionRules(initial=1, wait=1, scouting=1, election=1, heartbeat=1, patience=1, terms=terms)
    server = Server("n1", MEMBERS, quorum, rules, consistency)
    server.start([(TERM, term), (DATA, 0, entries)], 0.5)
    server.effects.clear()
    return server


def elected(*entries: Entry, consistency: str = STRONG) -> Server:
    """Node n1 with these records, which has just become leader of term 5 with n2's support."""
    server = node(*entries, term=4, consistency=consistency)
    server.timer(0, 0.5)
    server.message("n2", (SCOUTED, 4, True))
    server.message("n2", (SUPPORT, 5))
    assert server.role == LEADER
    done(server)
    return server


def serving(*entries: Entry, consistency: str = STRONG) -> Server:
    """The same, active with n2 as its follower."""
    server = elected(*entries, consistency=consistency)
    server.message("n2", (STATE, 5, server.log.summary))
    server.message("n2", (HAVE, 5, len(server.log)))
    assert leads(server).active
    done(server)
    return server


def leads(server: Server) -> Leader:
    assert server.leading is not None
    return server.leading


def done(server: Server) -> list[Effect]:
    """What it did: messages of replication, answers, writes and exits."""
    server.flush()
    found = [
        effect
        for effect in server.effects
        if effect[0] in (WRITE, REPLY, EXIT) or (effect[0] == SEND and effect[2][0] >= STATE)
    ]
    server.effects.clear()
    return found


def said(server: Server, source: str, *message: Any) -> list[Effect]:
    server.message(source, message)
    return done(server)


def asked(server: Server, kind: int, corr: int, a: Any, b: Any, pid: Any = PID) -> list[Effect]:
    server.request(pid, (kind, pid, corr, a, b, "q"))
    return done(server)


# --- in both directions


def test_a_follower_tells_whom_it_follows_how_far_it_goes_and_again_upon_a_new_connection() -> None:
    server = node(message(1, 1), message(3, 2), term=4)
    assert said(server, "n2", HEARTBEAT, 5) == [(SEND, "n2", (STATE, 5, ((1, 1), (3, 2))))]
    server.up("n3")
    assert done(server) == []
    server.up("n2")
    assert done(server) == [(SEND, "n2", (STATE, 5, ((1, 1), (3, 2))))]


def test_a_leader_whose_copy_is_the_most_advanced_pushes_what_others_lack_and_is_then_active() -> None:
    one, two, point = message(1, 1), message(1, 2), (POINT, 5)
    server = elected(one, two)
    assert said(server, "n2", STATE, 5, ((1, 1),)) == [
        (SEND, "n2", (APPEND, 5, 1, (two, point))),
        (WRITE, (DATA, 2, (point,))),
    ]
    assert not leads(server).active
    assert said(server, "n2", HAVE, 5, 3) == [(SEND, "n2", (ACTIVE, 5))]
    assert leads(server).active
    assert said(server, "n3", STATE, 5, ()) == [
        (SEND, "n3", (APPEND, 5, 0, (one, two, point))),
        (SEND, "n3", (ACTIVE, 5)),
    ]


def test_a_leader_that_is_behind_pulls_what_the_most_advanced_copy_has_more() -> None:
    one, two, three, stale, point = message(1, 1), message(1, 2), message(3, 3), message(2, 9), (POINT, 5)
    server = elected(one, stale)
    assert said(server, "n2", STATE, 5, ((1, 2), (3, 3))) == [(SEND, "n2", (PULL, 5, 1))]
    assert said(server, "n3", STATE, 5, ((1, 1),)) == []
    assert said(server, "n2", PULLED, 5, 1, (two, three)) == [
        (WRITE, (DATA, 1, (two, three))),
        (SEND, "n2", (APPEND, 5, 3, (point,))),
        (SEND, "n3", (APPEND, 5, 1, (two, three, point))),
        (WRITE, (DATA, 3, (point,))),
    ]
    assert server.log.records == [one, two, three, point]


def test_what_a_follower_has_beside_its_leader_is_dropped() -> None:
    one, stale, fresh = message(1, 1), message(1, 2), message(5, 3)
    server = node(one, stale, term=4)
    server.message("n2", (HEARTBEAT, 5))
    done(server)
    assert said(server, "n2", APPEND, 5, 1, (fresh,)) == [
        (WRITE, (DATA, 1, (fresh,))),
        (SEND, "n2", (HAVE, 5, 2)),
    ]
    assert server.log.records == [one, fresh]


def test_whoever_is_pulled_from_may_be_lost_and_another_is_asked() -> None:
    server = elected()
    server.message("n2", (STATE, 5, ((3, 3),)))
    server.message("n3", (STATE, 5, ((3, 2),)))
    done(server)
    server.down("n2", 0.5)
    assert server.role == FOLLOWER  # that was its quorum too
    assert server.leading is None
    again = elected()
    again.message("n3", (SUPPORT, 5))
    again.message("n2", (STATE, 5, ((3, 3),)))
    again.message("n3", (STATE, 5, ((3, 2),)))
    done(again)
    again.down("n2", 0.5)
    assert done(again) == [(SEND, "n3", (PULL, 5, 0))]


def test_a_follower_gives_what_it_is_asked_for_and_hears_no_lower_term_than_its_own() -> None:
    one, two = message(1, 1), message(1, 2)
    server = node(one, two, term=4)
    server.message("n2", (HEARTBEAT, 5))
    done(server)
    assert said(server, "n2", PULL, 5, 1) == [(SEND, "n2", (PULLED, 5, 1, (two,)))]
    assert said(server, "n3", APPEND, 5, 0, ()) == []  # not whom it follows
    server.timer(0, 0.5)  # silence
    assert said(server, "n2", APPEND, 5, 2, (message(5, 3),))[-1] == (SEND, "n2", (HAVE, 5, 3))
    server.message("n3", (PROPOSE, 6))
    assert said(server, "n2", APPEND, 5, 3, (message(5, 4),)) == []


def test_a_follower_that_has_missed_something_says_so() -> None:
    server = node(message(1, 1), term=4)
    server.message("n2", (HEARTBEAT, 5))
    done(server)
    assert said(server, "n2", APPEND, 5, 3, (message(5, 4),)) == [(SEND, "n2", (STATE, 5, ((1, 1),)))]


# --- answers


def test_strong_consistency_acknowledges_and_delivers_with_copies_on_a_majority() -> None:
    server = serving()
    assert asked(server, CHECKOUT, 1, 7, 10) == [(REPLY, PID, (APPLIED, "q", [(1, True)]))]
    record = (MESSAGE, 5, "q", PID, 1, b"m")
    assert asked(server, ENQUEUE, 2, 1, b"m") == [
        (WRITE, (DATA, 1, (record,))),
        (SEND, "n2", (APPEND, 5, 1, (record,))),
    ]
    assert said(server, "n2", HAVE, 5, 2) == [
        (REPLY, PID, (APPLIED, "q", [(2, True)])),
        (REPLY, PID, (DELIVER, "q", 7, [(1, (1, b"m", 0))])),
    ]


def test_eventual_consistency_acknowledges_at_once_also_when_nobody_is_there() -> None:
    server = serving(consistency=EVENTUAL)
    for other in ("n2", "n3"):
        server.down(other, 0.5)
    assert server.role == FOLLOWER  # and it is the primary still
    record = (MESSAGE, 5, "q", PID, 1, b"m")
    assert asked(server, ENQUEUE, 2, 1, b"m")[:2] == [
        (WRITE, (DATA, 1, (record,))),
        (REPLY, PID, (APPLIED, "q", [(2, True)])),
    ]


def test_a_publish_that_comes_again_is_acknowledged_and_is_there_once() -> None:
    for consistency in (STRONG, EVENTUAL):
        server = serving((MESSAGE, 1, "q", PID, 1, b"m"), consistency=consistency)
        length = len(server.log)
        assert asked(server, ENQUEUE, 9, 1, b"m") == [(REPLY, PID, (APPLIED, "q", [(9, True)]))]
        assert len(server.log) == length
    server = serving()
    asked(server, ENQUEUE, 1, 1, b"m")
    assert asked(server, ENQUEUE, 1, 1, b"m") == []
    answers = [effect[2] for effect in said(server, "n2", HAVE, 5, 2) if effect[0] == REPLY]
    assert answers == [(APPLIED, "q", [(1, True), (1, True)])]
    assert leads(server).queues["q"].ready_count == 1


def test_that_a_message_was_consumed_is_told_to_followers_and_nobody_waits_for_it() -> None:
    server = serving(message(1, 1))
    asked(server, CHECKOUT, 1, 7, 10)
    record = (CONFIRM, 5, "q", (0,))
    assert asked(server, SETTLE, 2, 7, (1,)) == [
        (WRITE, (DATA, 2, (record,))),
        (SEND, "n2", (APPEND, 5, 2, (record,))),
        (REPLY, PID, (APPLIED, "q", [(2, True)])),
    ]
    assert list(server.log.left()) == []


def test_a_new_leader_hands_out_what_was_not_consumed_and_it_may_have_been_handed_out_before() -> None:
    server = serving(message(1, 1), message(1, 2), (CONFIRM, 1, "q", (0,)))
    delivered = [effect for effect in asked(server, CHECKOUT, 1, 7, 10) if effect[0] == REPLY][-1]
    assert delivered == (REPLY, PID, (DELIVER, "q", 7, [(1, (1, b"m2", 1))]))


def test_a_consumer_that_comes_to_a_new_leader_goes_on_with_its_own_numbers() -> None:
    server = serving(message(1, 1))
    delivered = [effect for effect in asked(server, RESUME, 0, 7, (31, 10)) if effect[0] == REPLY][-1]
    assert delivered == (REPLY, PID, (DELIVER, "q", 7, [(31, (0, b"m1", 1))]))
    asked(server, SETTLE, 1, 7, (1,))  # what it held of the leader before
    assert leads(server).queues["q"].unacked_count == 1
    assert asked(server, RESUME, 0, 7, (31, 10)) == [(REPLY, PID, (RESUMED, "q", 7, [(31, (0, b"m1", 1))], 32))]


def test_the_consumers_of_a_node_that_is_lost_are_gone_until_they_come_again() -> None:
    server = serving(message(1, 1))
    asked(server, RESUME, 0, 7, (1, 10))
    server.message("n3", (SUPPORT, 5))
    server.down("n2", 0.5)
    assert leads(server).queues["q"].ready_count == 1


def test_channels_are_told_who_serves() -> None:
    server = node(term=4)
    server.request(HERE, (ATTACH, HERE))
    assert done(server) == [(REPLY, HERE, (PRIMARY, None, 0))]
    server.message("n2", (HEARTBEAT, 5))
    assert (REPLY, HERE, (PRIMARY, None, 5)) in done(server)
    assert said(server, "n2", ACTIVE, 5) == [(REPLY, HERE, (PRIMARY, "n2", 5))]
    server.timer(0, 0.5)  # its leader is silent: nobody else serves
    assert done(server) == []


# --- leadership lost


def test_a_primary_serves_on_without_its_leadership_and_exits_when_it_is_succeeded() -> None:
    server = serving()
    server.down("n2", 0.5)
    assert server.role == FOLLOWER
    assert leads(server).active
    server.message("n3", (PROPOSE, 6))
    assert leads(server).active
    server.message("n3", (HEARTBEAT, 6))
    server.flush()
    assert server.effects[-1] == (EXIT, 11, "leader-primary divergence: n3 leads term 6")


def test_a_leader_tells_all_that_it_cedes_before_its_process_exits() -> None:
    server = serving()
    server.message("n3", (HEARTBEAT, 6))
    server.flush()
    kinds = [effect[0] if effect[0] == EXIT else effect[2][0] for effect in server.effects if effect[0] in (SEND, EXIT)]
    assert kinds[-3:] == [CEDE, CEDE, EXIT]


def test_a_leader_that_was_never_active_follows_and_does_not_exit() -> None:
    server = elected()
    assert not [effect for effect in said(server, "n3", HEARTBEAT, 6) if effect[0] == EXIT]
    assert server.leading is None


def test_a_primary_that_is_elected_again_synchronises_again() -> None:
    server = serving()
    server.down("n2", 0.5)
    server.timer(0, 0.5)
    server.message("n3", (SCOUTED, 5, True))
    server.message("n3", (SUPPORT, 6))
    assert (leads(server).term, leads(server).active) == (6, False)
    server.message("n3", (STATE, 6, ()))
    server.message("n3", (HAVE, 6, 2))
    assert leads(server).active


def test_a_term_that_a_record_tells_of_is_not_forgotten() -> None:
    assert node(message(7, 1), term=4, terms=LEDGER).term == 7


# --- the whole


def candidate() -> Server:
    server = node(message(1, 1), term=4)
    server.timer(0, 0.5)
    server.message("n2", (SCOUTED, 4, True))
    assert server.role == CANDIDATE
    return server


def busy() -> Server:
    server = serving(message(1, 1), message(1, 2))
    asked(server, CHECKOUT, 1, 7, 1)
    asked(server, ENQUEUE, 2, 1, b"m")
    server.request(HERE, (ATTACH, HERE))
    return server


def pulling() -> Server:
    server = elected()
    server.message("n2", (STATE, 5, ((3, 3),)))
    return server


@pytest.mark.parametrize("make", [node, candidate, elected, pulling, serving, busy])
def test_a_replica_that_is_restored_is_what_was_snapshot(make: Any) -> None:
    server = make()
    whole = server.snapshot()
    hash(whole)
    twin = node()
    twin.restore(whole)
    assert twin.snapshot() == whole
    for source, *what in (
        ("n2", HAVE, 5, 4), ("n3", STATE, 5, ()), ("n2", PULLED, 5, 0, (message(3, 1),)), ("n3", HEARTBEAT, 9),
    ):  # fmt: skip
        server.restore(whole)
        twin.restore(whole)
        assert said(twin, source, *what) == said(server, source, *what)
        assert twin.snapshot() == server.snapshot()
