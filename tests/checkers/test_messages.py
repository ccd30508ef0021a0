"""Histories in, whole results out: every kind of finding of `messages`, with the innocent case beside it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import CORRUPT, FAIL, FOREIGN, INFO, OK
from chaos.model.verdict import ANOMALIES_KEPT, Anomaly, Result, Verdict
from checkers.messages import Messages
from tests.checkers.histories import Cases, Story, judge

NUMBERS = ["attempts", "confirmed", "failed", "unknown", "delivered", "deliveries", "acked", "recovered", "missing"]
KINDS = ["lost", "duplicated", "unexpected", "undead", "corrupted", "foreign", "misrouted", "redelivered-after-ack"]
ALL = NUMBERS + KINDS


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, most: int | None = None, **counts: int) -> Result:
    """A result whose other counts are zero. `most` deliveries of one message: twice where there are repeats."""
    named = {name.replace("_", "-"): count for name, count in counts.items()}
    again = counts.get("deliveries", 0) > counts.get("delivered", 0) > 0
    most = (min(1, counts.get("delivered", 0)) + again) if most is None else most
    return Result("messages", verdict, reason, dict.fromkeys(ALL, 0) | named, anomalies, {"most_deliveries": most})


CASES = Cases()
case = CASES.add


@case(result(Verdict.VALID, "none lost of 1 confirmed", attempts=1, confirmed=1, delivered=1, deliveries=1, acked=1))
def _delivered(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.ack(1)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 lost (2 confirmed of 2 published)",
        Anomaly("lost", "message 2 was confirmed and never delivered, though q was drained completely", (2, 3, 6)),
        attempts=2, confirmed=2, delivered=1, deliveries=1, lost=1,
    )
)  # fmt: skip
def _lost(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(1)
    story.drain()


@case(
    result(Verdict.VALID, "none lost of 1 confirmed", attempts=1, confirmed=1, lost=1),
    delivery="at-most-once",
)
def _lost_at_most_once(story: Story) -> None:
    story.publish(1)
    story.drain()


@case(
    result(
        Verdict.UNKNOWN,
        "no complete drain of q (2 unacked); 1 of 1 confirmed messages were not seen",
        attempts=1, confirmed=1, missing=1,
    )
)  # fmt: skip
def _not_drained(story: Story) -> None:
    story.publish(1)
    story.drain(end=INFO, error="2 unacked")


@case(
    result(
        Verdict.UNKNOWN,
        "no complete drain of q; 0 of 1 confirmed messages were not seen",
        attempts=1, confirmed=1, delivered=1, deliveries=1,
    )
)  # fmt: skip
def _no_drain_at_all(story: Story) -> None:
    story.publish(1)
    story.deliver(1)


@case(
    result(
        Verdict.INVALID,
        "1 lost (2 confirmed of 2 published)",
        Anomaly("lost", "message 1 was confirmed and never delivered, though q was drained completely", (0, 1, 4)),
        attempts=2, confirmed=2, lost=1, missing=1,
    )
)  # fmt: skip
def _drained_only_here(story: Story) -> None:
    story.publish(1)
    story.publish(2, "other")
    story.drain()


@case(
    result(
        Verdict.UNKNOWN,
        "the history is cut (killed); 1 of 1 confirmed messages were not seen",
        attempts=1, confirmed=1, missing=1,
    )
)  # fmt: skip
def _cut(story: Story) -> str:
    story.publish(1)
    story.drain()
    return "killed"


@case(
    result(
        Verdict.UNKNOWN,
        "some were confirmed only after the drain; 1 of 1 confirmed messages were not seen",
        attempts=1, confirmed=1, missing=1,
    )
)  # fmt: skip
def _confirmed_after_the_drain(story: Story) -> None:
    op = story.begin(0, "publish", key="q", value=1)
    story.drain()
    story.end(op)


@case(result(Verdict.NOT_APPLICABLE, "nothing was published"))
def _nothing(story: Story) -> None:
    story.deliver(None)
    story.drain()


@case(
    result(
        Verdict.VALID, "none lost of 0 confirmed",
        attempts=3, failed=1, unknown=2, recovered=1, delivered=1, deliveries=1
    )
)  # fmt: skip
def _unknown_and_failed(story: Story) -> None:
    story.publish(1, end=INFO)
    story.publish(2, end=None)
    story.publish(3, end=FAIL, error="returned")
    story.deliver(2)
    story.drain()


@case(
    result(
        Verdict.VALID, "none lost of 1 confirmed", attempts=1, confirmed=1, delivered=1, deliveries=2, duplicated=1
    )
)  # fmt: skip
def _duplicated_at_least_once(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.deliver(1, redelivered=True)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 duplicated (1 confirmed of 1 published)",
        Anomaly("duplicated", "message 1 was delivered from q 2 times", (0, 3, 5)),
        attempts=1, confirmed=1, delivered=1, deliveries=2, duplicated=1,
    ),
    delivery="exactly-once",
)  # fmt: skip
def _duplicated_exactly_once(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.deliver(1, redelivered=True)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 unexpected (0 confirmed of 0 published)",
        Anomaly("unexpected", "message 7 was delivered from q, and nobody published it in this run", (1,)),
        deliveries=1, unexpected=1,
    )
)  # fmt: skip
def _unexpected(story: Story) -> None:
    story.deliver(7)


@case(
    result(
        Verdict.INVALID,
        "1 undead (0 confirmed of 1 published)",
        Anomaly("undead", "message 1 was delivered from q although its publish had failed (returned)", (0, 1, 3)),
        attempts=1, failed=1, delivered=1, deliveries=1, undead=1,
    )
)  # fmt: skip
def _undead(story: Story) -> None:
    op = story.begin(0, "publish", key="q", value=1)
    story.end(op, FAIL, error="returned")
    story.deliver(1)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 lost, 1 corrupted, 1 foreign (1 confirmed of 1 published)",
        Anomaly("lost", "message 1 was confirmed and never delivered, though q was drained completely", (0, 1, 6)),
        Anomaly("corrupted", "a message delivered from q did not match its checksum (bad sum)", (3,)),
        Anomaly("foreign", "a message delivered from q is not one of this run", (5,)),
        attempts=1, confirmed=1, lost=1, corrupted=1, foreign=1,
    )
)  # fmt: skip
def _corrupted_and_foreign(story: Story) -> None:
    story.publish(1)
    story.deliver(1, error=CORRUPT, detail={"what": "bad sum"})
    story.deliver(9, error=FOREIGN)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 lost, 1 misrouted (1 confirmed of 1 published)",
        Anomaly("misrouted", "message 1 was published to q and delivered from other", (0, 1, 3)),
        Anomaly("lost", "message 1 was confirmed and never delivered, though q was drained completely", (0, 1, 4)),
        attempts=1, confirmed=1, deliveries=1, lost=1, misrouted=1,
    )
)  # fmt: skip
def _misrouted(story: Story) -> None:
    story.publish(1)
    story.deliver(1, "other")
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 misrouted (0 confirmed of 0 published)",
        Anomaly("misrouted", "message 1 was published to q and delivered from other", (1,)),
        deliveries=1, misrouted=1,
    )
)  # fmt: skip
def _misrouted_by_its_own_account(story: Story) -> None:
    story.deliver(1, "other", detail={"queue": "q"})


@case(
    result(
        Verdict.INVALID,
        "1 redelivered-after-ack (1 confirmed of 1 published)",
        Anomaly(
            "redelivered-after-ack", "message 1 was delivered from q again after its ack had taken effect", (0, 5, 6, 7)
        ),
        attempts=1, confirmed=1, delivered=1, deliveries=2, acked=1, duplicated=1, redelivered_after_ack=1,
    )
)  # fmt: skip
def _redelivered_after_ack(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.ack(1)
    story.deliver(1)
    story.drain()


@case(
    result(
        Verdict.VALID, "none lost of 1 confirmed",
        attempts=1, confirmed=1, delivered=1, deliveries=2, acked=1, duplicated=1,
    )
)  # fmt: skip
def _already_on_its_way_when_acked(story: Story) -> None:
    story.publish(1)
    credit = story.credit(process=11)
    story.deliver(1)
    story.ack(1)
    story.end(credit, value=1)
    story.drain()


@case(
    result(
        Verdict.VALID, "none lost of 1 confirmed",
        attempts=1, confirmed=1, delivered=1, deliveries=2, duplicated=1,
    )
)  # fmt: skip
def _redelivered_after_an_ack_of_unknown_fate(story: Story) -> None:
    story.publish(1)
    story.deliver(1)
    story.ack(1, end=INFO)
    story.deliver(1)
    story.drain()


@case(
    result(
        Verdict.VALID, "none lost of 2 confirmed",
        attempts=2, confirmed=2, delivered=2, deliveries=3, acked=1, duplicated=1,
    )
)  # fmt: skip
def _acked_in_another_queue(story: Story) -> None:
    story.publish(1)
    story.publish(2, "other")
    story.deliver(1)
    story.deliver(2, "other")
    story.ack(1, "other")
    story.ack(2, "other")
    story.deliver(1)
    story.drain()
    story.drain("other")


@case(
    result(
        Verdict.UNKNOWN,
        "the delivery limit may have dropped messages; 1 of 1 confirmed messages were not seen",
        attempts=1, confirmed=1, missing=1,
    ),
    delivery_limit=2,
)  # fmt: skip
def _maybe_dropped_by_the_delivery_limit(story: Story) -> None:
    story.publish(1)
    for process in (10, 11):
        story.end(story.credit(process=process), INFO)
    story.drain()


@case(
    result(
        Verdict.INVALID,
        "1 lost (1 confirmed of 1 published)",
        Anomaly("lost", "message 1 was confirmed and never delivered, though q was drained completely", (2, 3, 10)),
        attempts=1, confirmed=1, lost=1,
    ),
    delivery_limit=2,
)  # fmt: skip
def _too_few_connections_for_the_delivery_limit(story: Story) -> None:
    story.end(story.credit(process=9), INFO)  # gone before the message came
    story.publish(1)
    story.end(story.credit("other", process=11), INFO)
    for _ in range(2):  # one connection, however often it asks
        story.end(story.credit(process=10), INFO)
    story.drain()


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Messages(), case.history(), case.options) == case.expected


def test_an_id_used_twice_is_a_bad_history() -> None:
    story = Story()
    story.publish(1)
    story.publish(1)
    with pytest.raises(BadHistory, match=r"op 2: message id 1 was already used by op 0; ids are unique per attempt"):
        judge(Messages(), story.history())


def test_a_publish_without_an_id_is_a_bad_history() -> None:
    story = Story()
    story.begin(0, "publish", key="q")
    with pytest.raises(BadHistory, match="op 0: a publish without a message id"):
        judge(Messages(), story.history())


def test_many_of_one_kind_hide_no_other() -> None:
    story = Story()
    for id_ in range(30, 0, -1):  # ids against the order of time: the first told are the first that happened
        story.publish(id_)
    for id_ in range(100, 112):
        story.deliver(id_)
    story.drain()
    told = judge(Messages(), story.history()).anomalies
    assert Counter(anomaly.kind for anomaly in told) == {"lost": ANOMALIES_KEPT, "unexpected": ANOMALIES_KEPT}
    assert [anomaly.ops[0] for anomaly in told if anomaly.kind == "lost"] == list(range(0, 20, 2))
    assert list(told) == sorted(told, key=lambda anomaly: (anomaly.ops, anomaly.kind))


QUEUES = ("a", "b")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(QUEUES), st.sampled_from([OK, FAIL, INFO, None])),
        st.tuples(st.just("deliver"), st.sampled_from(QUEUES), st.integers(1, 6)),
        st.tuples(st.just("ack"), st.sampled_from(QUEUES), st.integers(1, 6)),
        st.tuples(st.just("drain"), st.sampled_from(QUEUES), st.sampled_from([OK, INFO])),
    ),
    max_size=25,
)


def tell(steps: list[Any]) -> History:
    story, next_id = Story(), 1
    homes = dict(enumerate((queue for kind, queue, _ in steps if kind == "publish"), 1))
    for kind, queue, what in steps:
        if kind == "publish":
            story.publish(next_id, queue, what)
            next_id += 1
        elif kind == "deliver":
            home = homes.get(what, queue)
            story.deliver(what, queue, detail={"queue": home} if home != queue else None)
        elif kind == "ack":
            story.ack(what, queue)
        else:
            story.drain(queue, what)
    return story.history()


def by_hand(history: History) -> dict[str, int]:
    """The counts by their definitions, one op at a time."""
    ops = list(history)
    ends = {op.op: op for op in ops if op.op is not None}
    found: Counter[str] = Counter()
    homes = {op.value: op for op in ops if op.f == "publish" and op.op is None}
    came = [op for op in ops if op.f == "consume" and op.type is OK]
    for op in came:
        begun = homes.get(op.value)
        if begun is None:
            found["unexpected"] += 1
        elif begun.key != op.key:
            found["misrouted"] += 1
        else:
            end = ends.get(begun.index)
            found["undead"] += end is not None and end.type is FAIL
            acks = [a.index for a in ops if a.f == "ack" and a.type is OK and (a.key, a.value) == (op.key, op.value)]
            found["redelivered-after-ack"] += any(ack < (op.op or 0) for ack in acks)
    for id_, begun in homes.items():
        end = ends.get(begun.index)
        mine = [op for op in came if (op.key, op.value) == (begun.key, id_)]
        outcome = {OK: "confirmed", FAIL: "failed"}.get(end.type, "unknown") if end else "unknown"
        found[outcome] += 1
        found["attempts"] += 1
        found["delivered"] += bool(mine)
        found["duplicated"] += len(mine) > 1
        found["recovered"] += outcome == "unknown" and bool(mine)
        found["acked"] += any(op.f == "ack" and op.type is OK and (op.key, op.value) == (begun.key, id_) for op in ops)
        if outcome == "confirmed" and end and not mine:
            drained = any(
                op.f == "drain" and op.type is OK and op.key == begun.key and op.index > end.index for op in ops
            )
            found["lost" if drained else "missing"] += 1
    found["deliveries"] = len(came)
    return {name: found[name] for name in ALL}


@given(STEPS)
def test_counts_agree_with_their_definitions(steps: list[Any]) -> None:
    history = tell(steps)
    said = judge(Messages(), history)
    expected = by_hand(history)
    assert said.counts == expected
    bad = sum(expected[kind] for kind in ("lost", "unexpected", "undead", "misrouted", "redelivered-after-ack"))
    assert (said.verdict is Verdict.INVALID) == (bad > 0)
    if said.verdict is Verdict.VALID:
        assert expected["missing"] == 0
