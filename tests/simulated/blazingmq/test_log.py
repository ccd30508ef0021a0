"""Logs of leaders and followers: where two meet, against looking at every record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.simulated.blazingmq.log import CONFIRM, MESSAGE, POINT, Entry, Log, advance, common

PID = ("n1", 1, 1)


def log(*leases: int) -> Log:
    """A record of each lease, in order."""
    made = Log()
    made.put(0, [(POINT, lease) for lease in leases])
    return made


def test_the_summary_says_where_each_lease_ends() -> None:
    assert log(1, 1, 3, 3, 3).summary == ((1, 2), (3, 5))
    assert log().summary == ()
    assert (log(1, 3).lease, log().lease) == (3, 0)


def test_two_logs_are_the_same_up_to_where_leases_differ_or_one_ends() -> None:
    for mine, yours, same in (
        ((), (), 0),
        ((), (1,), 0),
        ((1, 1), (1, 1, 1), 2),
        ((1, 1), (1, 1, 2), 2),
        ((1, 1, 1), (1, 2), 1),  # two of the first leader's did not reach the second
        ((1, 2), (1, 3), 1),
        ((2,), (3,), 0),
    ):
        assert common(log(*mine).summary, log(*yours).summary) == same
        assert common(log(*yours).summary, log(*mine).summary) == same


def test_the_later_lease_is_the_more_advanced_and_then_the_longer_log() -> None:
    assert advance(log(1, 2).summary) > advance(log(1, 1, 1, 1).summary) > advance(log(1, 1).summary) > advance(())


def test_what_is_put_at_a_place_replaces_all_that_was_there() -> None:
    mine = log(1, 1, 1, 2)
    mine.put(2, [(POINT, 3)])
    assert mine.records == [(POINT, 1), (POINT, 1), (POINT, 3)]
    assert mine.summary == ((1, 2), (3, 3))
    mine.put(0, [])
    assert mine.records == []
    assert not mine.summary


def test_what_is_left_are_the_messages_that_were_not_consumed() -> None:
    records: list[Entry] = [(MESSAGE, 1, "q", PID, number, b"%d" % number) for number in range(3)]
    mine = Log()
    mine.put(0, [*records, (CONFIRM, 1, "q", (0, 2)), (POINT, 2)])
    assert list(mine.left()) == [(1, records[1])]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_logs_of_one_history_meet_where_their_records_do(data: st.DataObject) -> None:
    """Leaders one after the other, each of which begins with somebody's log and writes some more; nodes copy any part
    of what a leader has."""
    logs = [Log() for _ in range(3)]
    number = 0
    for lease in range(1, data.draw(st.integers(1, 6)) + 1):
        leader = data.draw(st.integers(0, 2))
        for _ in range(data.draw(st.integers(0, 3))):
            number += 1
            logs[leader].append((MESSAGE, lease, "q", PID, number, b""))
        for other in data.draw(st.lists(st.integers(0, 2), max_size=2)):
            if other != leader:
                place = common(logs[other].summary, logs[leader].summary)
                end = data.draw(st.integers(place, len(logs[leader])))
                logs[other].put(place, logs[leader].records[place:end])
    for mine in logs:
        for yours in logs:
            brute = 0
            while brute < min(len(mine), len(yours)) and mine.records[brute] == yours.records[brute]:
                brute += 1
            assert common(mine.summary, yours.summary) == brute
