from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters.simulated.fifo import (
    CHECKOUT,
    DEQUEUE,
    DOWN,
    ENQUEUE,
    NODE_DOWN,
    NODE_UP,
    NOOP,
    NOT_ENQUEUED,
    OK,
    RETURN,
    SETTLE,
    Fifo,
)
from clusters.simulated.replica import Pid

P: Pid = ("n1", 1, 1)
C: Pid = ("n2", 1, 1)
D: Pid = ("n3", 1, 1)

Command = tuple[Any, ...]


def enqueue(sequence: int, pid: Pid = P) -> Command:
    return (ENQUEUE, pid, sequence, sequence, f"m{sequence}")


def checkout(pid: Pid, prefetch: int) -> Command:
    return (CHECKOUT, pid, 0, 1, prefetch)


def applied(*commands: Command, limit: int = 0, single_active: bool = False) -> tuple[Fifo, list[Any], list[Any]]:
    """The queue after the commands, as its leader; answers as (pid, corr, answer), deliveries as (pid, number, body,
    returns)."""
    fifo = Fifo(limit, single_active=single_active)
    fifo.leading = True
    answers, deliveries = [], []
    for index, command in enumerate(commands, start=1):
        fifo.apply(index, command)
        answers += [(pid, corr, answer) for pid, items in fifo.replies.items() for corr, answer in items]
        deliveries += [
            (pid, number, body, count)
            for (pid, _), items in fifo.deliveries.items()
            for number, (_, body, count) in items
        ]
        fifo.replies, fifo.deliveries = {}, {}
    return fifo, answers, deliveries


def test_first_in_first_out_as_far_as_the_prefetch_goes() -> None:
    fifo, answers, deliveries = applied(enqueue(1), enqueue(2), enqueue(3), checkout(C, 2), (SETTLE, C, 1, 1, (1,)))
    assert deliveries == [(C, 1, "m1", 0), (C, 2, "m2", 0), (C, 3, "m3", 0)]
    assert answers == [(P, 1, OK), (P, 2, OK), (P, 3, OK), (C, 0, OK), (C, 1, OK)]
    assert (fifo.ready_count, fifo.unacked_count) == (0, 2)


def test_consumers_are_served_in_turn() -> None:
    _, _, deliveries = applied(checkout(C, 2), checkout(D, 2), *[enqueue(number) for number in (1, 2, 3, 4)])
    assert [pid for pid, *_ in deliveries] == [C, D, C, D]


def test_an_enqueue_that_comes_again_is_taken_once_and_one_after_a_gap_is_refused() -> None:
    fifo, answers, _ = applied(enqueue(1), enqueue(1), enqueue(3), enqueue(2), enqueue(3))
    assert answers == [(P, 1, OK), (P, 1, OK), (P, 3, NOT_ENQUEUED), (P, 2, OK), (P, 3, OK)]
    assert [body for _, body, _ in fifo.ready] == ["m1", "m2", "m3"]


def test_returned_messages_go_ahead_of_others_and_say_how_often_they_were_returned() -> None:
    _, _, deliveries = applied(enqueue(1), enqueue(2), checkout(C, 1), (RETURN, C, 9, 1, (1,)))
    assert deliveries == [(C, 1, "m1", 0), (C, 2, "m1", 1)]


def test_an_ack_of_what_is_not_held_any_more_says_so() -> None:
    _, answers, _ = applied(
        enqueue(1), checkout(C, 5), (NODE_DOWN, None, 0, "n2", None), (SETTLE, C, 7, 1, (1,)), (SETTLE, D, 8, 1, (1,))
    )
    assert answers[-2:] == [(C, 7, (1,)), (D, 8, (1,))]


def test_a_consumer_that_ends_gives_its_messages_to_the_next() -> None:
    fifo, _, deliveries = applied(checkout(C, 5), enqueue(1), checkout(D, 5), (DOWN, C, 0, None, None))
    assert deliveries == [(C, 1, "m1", 0), (D, 1, "m1", 1)]
    assert fifo.pids() == [P, D]


def test_a_suspected_node_loses_its_messages_and_is_served_again_when_it_is_back() -> None:
    fifo, _, deliveries = applied(
        checkout(C, 5), enqueue(1), (NODE_DOWN, None, 0, "n2", None), (NODE_UP, None, 0, "n2", None)
    )
    assert deliveries == [(C, 1, "m1", 0), (C, 2, "m1", 1)]
    assert fifo.unacked_count == 1


def test_polling_takes_one_message_and_asking_again_gives_the_same() -> None:
    fifo, answers, _ = applied(
        (DEQUEUE, C, 1, 11, None),
        enqueue(1),
        enqueue(2),
        (DEQUEUE, C, 2, 12, None),
        (DEQUEUE, C, 2, 12, None),
        (SETTLE, C, 3, 12, (1,)),
    )
    assert [answer for pid, _, answer in answers if pid == C] == [None, (1, (2, "m1", 0)), (1, (2, "m1", 0)), OK]
    assert (fifo.ready_count, fifo.unacked_count) == (1, 0)


def test_a_message_returned_more_often_than_the_limit_is_dropped() -> None:
    returns = [(RETURN, C, 9, 1, (number,)) for number in (1, 2, 3)]
    fifo, _, deliveries = applied(enqueue(1), checkout(C, 1), *returns, limit=2)
    assert [count for *_, count in deliveries] == [0, 1, 2]
    assert (fifo.ready_count, fifo.unacked_count, fifo.dropped) == (0, 0, 1)


def test_a_follower_applies_the_same_and_says_nothing() -> None:
    commands = [enqueue(1), checkout(C, 1), enqueue(2), (SETTLE, C, 1, 1, (1,))]
    leader, _, _ = applied(*commands)
    follower = Fifo()
    for index, command in enumerate(commands, start=1):
        follower.apply(index, command)
    assert follower.snapshot() == leader.snapshot()
    assert (follower.replies, follower.deliveries, follower.monitors) == ({}, {}, [])


PIDS = st.sampled_from([P, C, D])
COMMANDS = st.one_of(
    st.builds(lambda pid, sequence: enqueue(sequence, pid), PIDS, st.integers(1, 6)),
    st.builds(checkout, PIDS, st.integers(0, 3)),
    st.builds(
        lambda kind, pid, numbers: (kind, pid, 0, 1, tuple(numbers)),
        st.sampled_from([SETTLE, RETURN]),
        PIDS,
        st.lists(st.integers(1, 5), max_size=3, unique=True),
    ),
    st.builds(lambda pid, tag: (DEQUEUE, pid, 0, tag, None), PIDS, st.integers(10, 12)),
    st.builds(lambda pid: (DOWN, pid, 0, None, None), PIDS),
    st.builds(lambda kind, node: (kind, None, 0, node, None), st.sampled_from([NODE_DOWN, NODE_UP]), st.just("n2")),
    st.just((NOOP, None, 0, None, None)),
)


@given(st.lists(COMMANDS, max_size=60), st.integers(0, 60))
def test_no_message_is_lost_or_doubled_and_a_snapshot_changes_nothing(commands: list[Command], cut: int) -> None:
    fifo = Fifo()
    accepted, settled = 0, 0
    for index, command in enumerate(commands, start=1):
        if index == cut:
            again = Fifo()
            again.restore(fifo.snapshot())
            assert again.snapshot() == fifo.snapshot()
            fifo = again
        before = fifo.ready_count + fifo.unacked_count
        fifo.apply(index, command)
        after = fifo.ready_count + fifo.unacked_count
        if command[0] == ENQUEUE:
            accepted += after - before
            assert after - before in (0, 1)
        elif command[0] == SETTLE:
            settled += before - after
            assert 0 <= before - after <= len(command[4])
        else:
            assert after == before
        held = [stored for consumer in fifo.consumers.values() for stored in consumer.checked.values()]
        indices = [stored[0] for stored in [*fifo.ready, *fifo.returned, *held]]
        assert len(indices) == len(dict.fromkeys(indices)) == accepted - settled
        waiting = [
            c
            for c in fifo.consumers.values()
            if c.up and not c.once and (not c.prefetch or len(c.checked) < c.prefetch)
        ]
        assert not (waiting and fifo.ready_count)


def test_of_single_active_consumers_the_first_is_served_until_it_ends() -> None:
    fifo, _, deliveries = applied(
        checkout(C, 1), checkout(D, 5), enqueue(1), enqueue(2), (DOWN, C, 0, None, None), enqueue(3), single_active=True
    )
    assert deliveries == [(C, 1, "m1", 0), (D, 1, "m1", 1), (D, 2, "m2", 0), (D, 3, "m3", 0)]
    assert fifo.active == (D, 1)


def test_a_single_active_consumer_out_of_reach_gives_way_and_stands_by_when_it_is_back() -> None:
    fifo, _, deliveries = applied(
        checkout(C, 5), checkout(D, 5), enqueue(1),
        (NODE_DOWN, None, 0, "n2", None), (NODE_UP, None, 0, "n2", None), enqueue(2),
        single_active=True,
    )  # fmt: skip
    assert deliveries == [(C, 1, "m1", 0), (D, 1, "m1", 1), (D, 2, "m2", 0)]
    again = Fifo(single_active=True)
    again.restore(fifo.snapshot())
    assert (again.snapshot(), again.active) == (fifo.snapshot(), (D, 1))


def test_a_single_active_consumer_out_of_reach_is_served_again_when_there_is_no_other() -> None:
    _, _, deliveries = applied(
        checkout(C, 5), (NODE_DOWN, None, 0, "n2", None), enqueue(1), (NODE_UP, None, 0, "n2", None), single_active=True
    )
    assert deliveries == [(C, 1, "m1", 0)]
