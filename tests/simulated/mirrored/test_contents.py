"""What a mirrored queue holds: order, consumers, acknowledgements; against a plain model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.simulated.mirrored.contents import Contents

A, B = (("n1", 1, 1), 1), (("n2", 1, 1), 1)


def filled(number: int) -> Contents:
    contents = Contents()
    for one in range(1, number + 1):
        contents.publish(one, b"%d" % one)
    contents.lead()
    return contents


def test_consumers_are_served_in_turn_as_far_as_their_prefetch_goes() -> None:
    contents = filled(5)
    contents.consume(A, 2)
    contents.consume(B, 1)
    assert {key: [stored[0] for _, stored in items] for key, items in contents.deliveries.items()} == {
        A: [1, 2],
        B: [3],
    }
    assert contents.settle(B, (1, 9)) == ((3,), (9,))
    assert [stored[0] for _, stored in contents.deliveries[B]] == [3, 4]
    assert list(contents.messages) == [1, 2, 4, 5]


def test_what_a_cancelled_consumer_held_is_ready_again_in_its_place() -> None:
    contents = filled(4)
    contents.consume(A, 1)
    assert contents.get(B) == (1, (2, b"2", 1))
    contents.cancel([A])
    assert list(contents.ready) == [1, 3, 4]
    contents.cancel([B])
    assert list(contents.ready) == [1, 2, 3, 4]
    assert [count for _, _, count in contents.messages.values()] == [2, 2, 1, 1]


def test_a_mirror_passes_over_acknowledgements_of_what_it_never_had_and_takes_older_messages_in_at_the_head() -> None:
    contents = Contents()
    contents.publish(7, b"7")
    contents.drop((3, 4))
    contents.add([(5, b"5", 0), (6, b"6", 0)])
    assert list(contents.messages) == [5, 6, 7]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["publish", "get", "consume", "settle", "cancel"]), max_size=60))
def test_every_message_is_ready_or_held_by_one_consumer_and_a_snapshot_says_all(acts: list[str]) -> None:
    contents = Contents()
    contents.lead()
    published, gone, tag = 0, 0, 0
    for act in acts:
        keys = list(contents.consumers)
        if act == "publish":
            published += 1
            contents.publish(published, b"%d" % published)
        elif act == "get":
            tag += 1
            contents.get((A[0], tag))
        elif act == "consume":
            tag += 1
            contents.consume((B[0], tag), 1 + tag % 3)
        elif keys and act == "settle":
            key = keys[published % len(keys)]
            done, missing = contents.settle(key, tuple(contents.consumers[key].checked)[:1])
            gone += len(done)
            assert missing == ()
        elif keys:
            contents.cancel(keys[:1])
        held = [number for consumer in contents.consumers.values() for number in consumer.checked.values()]
        assert sorted([*held, *contents.ready]) == list(contents.messages)
        assert list(contents.ready) == sorted(contents.ready)
        assert len(contents.messages) == published - gone
        copy = Contents()
        copy.restore(contents.snapshot())
        assert copy.snapshot() == contents.snapshot()


def test_what_is_given_back_takes_its_old_place_and_goes_to_the_next() -> None:
    contents = filled(3)
    contents.consume(A, 2)
    contents.deliveries.clear()
    assert contents.requeue(A, (2, 9)) == (9,)
    # at once to the same consumer again, which has a credit for it
    assert {key: [(number, stored[0]) for number, stored in items] for key, items in contents.deliveries.items()} == {
        A: [(3, 2)]
    }
    assert contents.requeue(B, (1,)) == (1,)
    polled = contents.get(B)
    assert polled is not None
    assert polled[1][0] == 3
    assert contents.requeue(B, (1,)) == ()
    assert list(contents.ready) == [3]
    assert contents.requeue(B, (1,)) == (1,)
