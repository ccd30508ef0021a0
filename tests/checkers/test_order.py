"""First in, first out: literal histories, a reference by definition, and a correct queue that is never found wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, OK, Op
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.linearizable import Linearizable
from checkers.order import Order
from tests.checkers.histories import Cases, Story, judge, taken_back

CASES = Cases()
case = CASES.add


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, **counts: int) -> Result:
    zero = dict.fromkeys(("messages", "pairs", "overtaken", "excused", "redelivered"), 0)
    return Result("order", verdict, reason, zero | counts, anomalies)


def swapped(*ops: int) -> Anomaly:
    said = "message 1 was first delivered from q after message 2, which its producer published later"
    return Anomaly("overtaken", said, ops)


NOTHING_KNOWN = "no two deliveries whose order is known"


@case(result(Verdict.VALID, "3 pairs of deliveries in order", messages=3, pairs=3))
def _in_order(story: Story) -> None:
    for id_ in (1, 2, 3):
        story.publish(id_)
    for id_ in (1, 2, 3):
        story.deliver(id_, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 5, 6, 7), messages=2, pairs=1, overtaken=1))
def _swapped_on_one_channel(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    one, other = story.credit(), story.credit()  # both open: only the channel's own order tells
    story.end(one, value=2, redelivered=False)
    story.end(other, value=1, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 5, 6, 7), messages=2, pairs=1, overtaken=1))
def _swapped_across_consumers(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(2, process=10, redelivered=False)
    story.deliver(1, process=11, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2))
def _across_consumers_at_the_same_time(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    one, other = story.credit(process=10), story.credit(process=11)
    story.end(other, value=2, redelivered=False)
    story.end(one, value=1, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2))
def _of_two_producers(story: Story) -> None:
    story.publish(1, process=0)
    story.publish(2, process=1)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2))
def _of_two_channels_of_a_producer(story: Story) -> None:
    story.publish(1, channel=0)
    story.publish(2, channel=1)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2))
def _in_two_queues(story: Story) -> None:
    story.publish(1, "a")
    story.publish(2, "b")
    story.deliver(2, "b", redelivered=False)
    story.deliver(1, "a", redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2, redelivered=1))
def _late_but_marked_as_redelivered(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=True)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=2, redelivered=2))
def _the_broker_does_not_say(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(2)
    story.deliver(1)


@case(result(Verdict.VALID, "1 pair of deliveries in order", messages=2, pairs=1))
def _the_second_delivery_may_be_late(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(1, redelivered=False)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 6, 8, 9), messages=2, overtaken=1))
def _overtaken_by_one_that_came_again(story: Story) -> None:
    """Message 2 was first seen elsewhere; on this channel it came again, and still before message 1."""
    story.publish(1)
    story.publish(2)
    elsewhere, one, other = story.credit(process=11), story.credit(), story.credit()
    story.end(elsewhere, value=2, redelivered=False)
    story.end(one, value=2, redelivered=True)
    story.end(other, value=1, redelivered=False)


@case(result(Verdict.VALID, "3 pairs of deliveries in order", messages=4, pairs=3))
def _a_broker_that_took_back_grants_credits_that_nobody_sees(story: Story) -> None:
    taken_back(story, elsewhere=True)


THREE = Anomaly(
    "overtaken",
    "message 3 was first delivered from q after message 4, which its producer published later",
    (4, 6, 15, 16, 17),
)


@case(result(Verdict.INVALID, "1 of 4 messages overtaken", THREE, messages=4, pairs=4, overtaken=1))
def _one_that_took_nothing_back_does_not(story: Story) -> None:
    taken_back(story, elsewhere=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=1))
def _a_failed_publish_has_no_place(story: Story) -> None:
    story.publish(1, end=FAIL)
    story.publish(2)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)


@case(result(Verdict.VALID, "1 pair of deliveries in order", messages=2, pairs=1, excused=1))
def _late_after_a_dropped_channel(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    lost = story.credit(process=9)
    story.deliver(2, redelivered=False)
    story.end(lost, INFO)
    story.deliver(1, redelivered=False)


@case(result(Verdict.VALID, "1 pair of deliveries in order", messages=2, pairs=1, excused=1))
def _late_after_a_closed_channel(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.credit(process=9)
    story.deliver(2, redelivered=False)
    story.close(9)
    story.deliver(1, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 5, 8, 9), messages=2, pairs=1, overtaken=1))
def _a_credit_granted_after_the_overtaking_explains_nothing(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(2, redelivered=False)
    lost = story.credit(process=9)
    story.end(lost, INFO)
    story.deliver(1, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 6, 7, 8), messages=2, pairs=1, overtaken=1))
def _a_drop_after_the_late_delivery_explains_nothing(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    lost = story.credit(process=9)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)
    story.end(lost, INFO)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 6, 8, 9), messages=2, pairs=1, overtaken=1))
def _a_drop_of_another_queue_explains_nothing(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    lost = story.credit("other", process=9)
    story.deliver(2, redelivered=False)
    story.end(lost, INFO)
    story.deliver(1, redelivered=False)


@case(result(Verdict.INVALID, "1 of 2 messages overtaken", swapped(0, 2, 7, 8, 9), messages=2, pairs=1, overtaken=1))
def _answered_credits_explain_nothing(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.end(story.credit(process=9), FAIL)
    story.deliver(2, redelivered=False)
    story.deliver(1, redelivered=False)


@case(
    result(
        Verdict.INVALID, "1 of 3 messages overtaken",
        Anomaly(
            "overtaken",
            "message 2 was first delivered from q after message 3, which its producer published later",
            (2, 4, 8, 12, 13),
        ),
        messages=3, pairs=3, overtaken=1, excused=1
    )
)  # fmt: skip
def _one_credit_explains_one_message(story: Story) -> None:
    for id_ in (1, 2, 3):
        story.publish(id_)
    lost = story.credit(process=9)
    story.deliver(3, redelivered=False)
    story.end(lost, INFO)
    story.deliver(1, redelivered=False)
    story.deliver(2, redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN, messages=1))
def _a_delivery_from_the_wrong_queue_has_no_place(story: Story) -> None:
    story.publish(1)
    story.publish(2)
    story.deliver(2, redelivered=False)
    story.deliver(1, "other", redelivered=False)


@case(result(Verdict.NOT_APPLICABLE, NOTHING_KNOWN))
def _nothing(story: Story) -> None:
    story.deliver(None)
    story.deliver(9)


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    case = CASES[name]
    assert judge(Order(), case.history(), case.options) == case.expected


def _taken_back(ops: list[Op]) -> set[int]:
    """Which deliveries were taken back: those of a message that was handed out twice while who had it first was there
    and had not settled it."""
    came = [op for op in ops if op.f == "consume" and op.type is OK and op.value is not None]

    def over(one: Op) -> int:
        ends = (
            op.index for op in ops if (op.process, op.channel) == (one.process, one.channel)
            and (op.f == "close" or (op.f == "ack" and op.type is OK and op.value == one.value))
        )  # fmt: skip
        return min(ends, default=len(ops))

    twice = [
        (one, two) for one in came for two in came
        if (one.key, one.value) == (two.key, two.value) and one.index < two.index < over(one)
    ]  # fmt: skip
    return {op.index for pair in twice for op in pair}


def _granted(ops: list[Op], took: Op, taken_back: set[int]) -> int:
    """The credit that a delivery was taken on at the earliest: as many before its own as were taken back before it."""
    lane = (took.process, took.channel, took.key)
    mine = [op for op in ops if op.f == "consume" and (op.process, op.channel, op.key) == lane]
    credits_ = [op.index for op in mine if op.type is INVOKE]
    if any(op.type is OK and op.value is None and op.error is None for op in mine):  # it polls
        return credits_[credits_.index(took.op or 0)]
    back = sum(op.index in taken_back for op in mine if op.type is OK and op.index < took.index)
    return credits_[max(credits_.index(took.op or 0) - back, 0)]


def by_definition(history: History) -> dict[str, int]:
    """The counts straight from the module's text: every pair, and the largest matching by augmenting paths."""
    ops = list(history)
    ends = {op.op: op for op in ops if op.op is not None}
    published = {
        op.value: op for op in ops if op.f == "publish" and op.type is INVOKE
        and not (op.index in ends and ends[op.index].type is FAIL)
    }  # fmt: skip
    came = [
        op for op in ops if op.f == "consume" and op.type is OK and op.value in published
        and published[op.value].key == op.key
    ]  # fmt: skip
    firsts = {op.value: op for op in reversed(came)}
    credits_ = [
        (op.key, op.index, ends[op.index].index) for op in ops
        if op.f == "consume" and op.type is INVOKE and op.index in ends and ends[op.index].type is INFO
    ]  # fmt: skip

    def same_producer(a: int | None, b: int | None) -> bool:
        one, other = published[a], published[b]
        return (one.key, one.process, one.channel) == (other.key, other.process, other.channel)

    taken_back = _taken_back(ops)
    pairs, suspects = 0, []
    for id_, op in firsts.items():
        if op.redelivered is not False:
            continue
        granted = _granted(ops, op, taken_back)
        rivals = [other for other in came if other.value != id_ and same_producer(id_, other.value)]
        before = [
            other for other in rivals
            if other.index < granted
            or (other.index < op.index and (other.process, other.channel) == (op.process, op.channel))
        ]  # fmt: skip
        pairs += len({other.value for other in before if other is firsts[other.value]})
        later = [other for other in rivals if published[other.value].index > published[id_].index]
        if any(other in later for other in before):
            suspects.append((op, min(other.index for other in later)))

    partner: dict[int, int] = {}

    def augment(suspect: int, tried: set[int]) -> bool:
        op, deadline = suspects[suspect]
        for place, (key, granted, dropped) in enumerate(credits_):
            if key == op.key and granted < deadline and dropped < op.index and place not in tried:
                tried.add(place)
                if place not in partner or augment(partner[place], tried):
                    partner[place] = suspect
                    return True
        return False

    excused = sum(augment(suspect, set()) for suspect in range(len(suspects)))
    return {
        "messages": len(firsts),
        "pairs": pairs,
        "overtaken": len(suspects) - excused,
        "excused": excused,
        "redelivered": sum(op.redelivered is not False for op in firsts.values()),
    }


def anything(random: Random, size: int) -> History:
    """Publishes and deliveries in any order at all."""
    story = Story()
    queues = "ab" if random.random() < 0.3 else "a"
    for id_ in range(1, size + 1):
        outcome = random.choice([OK, OK, OK, INFO, FAIL, None])
        story.publish(id_, random.choice(queues), outcome, random.randrange(2), channel=random.randrange(6) // 5)
    open_: list[int] = []
    for _ in range(size * 4):
        if not open_ or random.random() < 0.5:
            open_.append(
                story.credit(random.choice(queues), 10 + random.randrange(3), channel=random.randrange(6) // 5)
            )
        else:
            op = open_.pop(random.randrange(len(open_)))
            if random.random() < 0.25:
                story.end(op, random.choice([INFO, INFO, INFO, FAIL]))
            else:
                story.end(
                    op, value=random.randint(1, size + 1), redelivered=random.choice([False, False, False, True, None])
                )
    return story.history()


@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_agrees_with_the_definition(random: Random, size: int) -> None:
    history = anything(random, size)
    said = judge(Order(), history)
    assert said.counts == by_definition(history)
    assert (said.verdict is Verdict.INVALID) == (said.counts["overtaken"] > 0) == bool(said.anomalies)


class CorrectQueue:
    """A queue that keeps its promise, between clients whose messages take their time on the way.

    A channel's deliveries travel in order. A channel that drops gives back what it holds, to the front, in order. With
    `honest` marks, a broker marks what it has handed out before, and may notice a drop long before or after the client
    does. Without, it never marks anything, and then the client is the first to know.
    """

    def __init__(self, random: Random, honest: bool) -> None:
        self.random = random
        self.honest = honest
        self.story = Story()
        self.ready: list[tuple[int, int, bool]] = []  # (place in the queue, id, handed out before)
        self.places = 0
        self.sending: dict[int, list[int]] = {0: [], 1: []}  # by producer: published, not yet in the queue
        self.next_id = 1
        self.consumers: list[dict[str, Any]] = []
        self.numbers = 10

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self.random.choice(
                [
                    self.publish,
                    self.publish,
                    self.enqueue,
                    self.enqueue,
                    self.join,
                    self.hand_out,
                    self.hand_out,
                    self.arrive,
                    self.arrive,
                    self.arrive,
                    self.ack,
                    self.drop,
                    self.leave,
                ]
            )()
        return self.story.history()

    def publish(self) -> None:
        producer = self.random.randrange(2)
        self.story.publish(self.next_id, end=self.random.choice([OK, None, INFO]), process=producer)
        self.sending[producer].append(self.next_id)
        self.next_id += 1

    def enqueue(self) -> None:
        sending = self.sending[self.random.randrange(2)]
        if sending:
            self.ready.append((self.places, sending.pop(0), False))
            self.places += 1

    def join(self) -> None:
        if sum(not consumer["gone"] for consumer in self.consumers) < 3:
            number, self.numbers = self.numbers, self.numbers + 1
            credits_ = [self.story.credit(process=number) for _ in range(self.random.randint(1, 3))]
            self.consumers.append(
                {"number": number, "credits": credits_, "held": [], "way": [], "seen": [], "room": len(credits_),
                 "dropped": False, "gone": False}
            )  # fmt: skip

    def one(self, *states: str) -> dict[str, Any] | None:
        some = [consumer for consumer in self.consumers if not any(consumer[state] for state in states)]
        return self.random.choice(some) if some else None

    def hand_out(self) -> None:
        consumer = self.one("dropped")
        if consumer and consumer["room"] and self.ready:
            self.ready.sort()
            place, id_, before = self.ready.pop(0)
            consumer["room"] -= 1
            consumer["held"].append((place, id_, True))
            consumer["way"].append((id_, before))

    def arrive(self) -> None:
        consumer = self.one("gone")
        if consumer and consumer["way"]:
            id_, before = consumer["way"].pop(0)
            self.story.end(consumer["credits"].pop(0), value=id_, redelivered=before and self.honest)
            consumer["seen"].append(id_)

    def ack(self) -> None:
        consumer = self.one("gone", "dropped")
        if consumer and consumer["seen"]:
            id_ = consumer["seen"].pop(self.random.randrange(len(consumer["seen"])))
            consumer["held"] = [entry for entry in consumer["held"] if entry[1] != id_]
            self.story.ack(id_, process=consumer["number"])
            consumer["credits"].append(self.story.credit(process=consumer["number"]))
            consumer["room"] += 1

    def drop(self) -> None:
        """The broker gives a consumer up."""
        consumer = self.one("dropped")
        if consumer and (self.honest or consumer["gone"]):
            consumer["dropped"] = True
            self.ready += consumer["held"]

    def leave(self) -> None:
        """The client gives up."""
        consumer = self.one("gone")
        if consumer and self.random.random() < 0.5:
            consumer["gone"] = True
            for credit in consumer["credits"]:
                self.story.end(credit, INFO)
            self.story.close(consumer["number"])


@given(st.integers(0, 2**32), st.booleans(), st.integers(20, 300))
def test_a_correct_queue_is_never_found_wrong(seed: int, honest: bool, steps: int) -> None:
    assert judge(Order(), CorrectQueue(Random(seed), honest).run(steps)).verdict is not Verdict.INVALID


@given(st.integers(2, 20), st.data())
def test_a_planted_swap_is_caught(size: int, data: st.DataObject) -> None:
    early = data.draw(st.integers(0, size - 2))
    late = data.draw(st.integers(early + 1, size - 1))
    ids = list(range(size))
    ids.insert(late, ids.pop(early))  # one message comes late
    story = Story()
    for id_ in range(size):
        story.publish(id_)
    credits_ = [story.credit() for _ in range(3)]
    for id_ in ids:
        story.end(credits_.pop(0), value=id_, redelivered=False)
        credits_.append(story.credit())
    said = judge(Order(), story.history())
    assert (said.counts["overtaken"], [a.ops[0] for a in said.anomalies]) == (1, [2 * early])


def test_the_runs_of_the_correct_queue_are_worth_something() -> None:
    total: dict[str, int] = {}
    for seed in range(40):
        for name, count in judge(Order(), CorrectQueue(Random(seed), seed % 2 == 0).run(300)).counts.items():
            total[name] = total.get(name, 0) + count
    assert total["pairs"] > 300
    assert total["excused"] > 0
    assert total["redelivered"] > 0


@pytest.mark.parametrize(("elsewhere", "verdict"), [(True, Verdict.VALID), (False, Verdict.INVALID)])
def test_nor_is_there_a_cycle(elsewhere: bool, verdict: Verdict) -> None:
    story = Story()
    taken_back(story, elsewhere=elsewhere)
    assert judge(Linearizable(), story.history(), {"model": "fifo-queue"}).verdict is verdict
