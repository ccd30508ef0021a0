"""One order of all operations, or none: literal histories for what a queue promises, and for other objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.model.errors import BadHistory
from chaos.model.history import History
from chaos.model.op import INFO, INVOKE, OK, Op, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.linearizability import planner
from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.counterexample import Counterexample
from checkers.linearizability.from_history import calls_of
from checkers.linearizability.porcupine import models
from checkers.linearizability.verdict import Decision
from checkers.linearizable import Linearizable, _anomaly, _not_before
from checkers.run import check_all
from tests.checkers.histories import Cases, Story, judge, taken_back

CASES = Cases()
case = CASES.add


def result(verdict: Verdict, reason: str, *anomalies: Anomaly, operations: int, **counts: int) -> Result:
    all_counts = {"operations": operations, "objects": 1, "redelivered-after-ack": 0} | counts
    metrics = {"engine": "monitor"} if operations else {}
    return Result("linearizable", verdict, reason, all_counts, anomalies, metrics)


@case(result(Verdict.VALID, "4 operations have a FIFO order (monitor)", operations=4))
def _in_order(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.deliver(17)
    story.deliver(23)


INVERTED = (
    "message 17 was confirmed before 23 was published, yet 23 was consumed first, by process 4, and 17 only then, by "
)
INVERTED += "process 5"


@case(
    result(
        Verdict.INVALID, "no order explains these 4 operations: inversion",
        Anomaly("inversion", INVERTED, tuple(range(8)), {"engine": "monitor", "window": list(range(8))}),
        operations=4,
    )
)  # fmt: skip
def _overtaken(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.deliver(23, process=4)
    story.deliver(17, process=5)


AGAIN = "message 17 was delivered again, to process 11, on a credit granted after its ack had taken effect"


@case(
    result(
        Verdict.INVALID, "no order explains these 3 operations: redelivered-after-ack",
        Anomaly("redelivered-after-ack", AGAIN, (0, 5, 6, 7), {"window": [0, 5, 6, 7]}),
        operations=3, **{"redelivered-after-ack": 1},
    )
)  # fmt: skip
def _again_after_its_ack(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.ack(17)
    story.deliver(17, process=11, redelivered=True)


@case(result(Verdict.VALID, "2 operations have a FIFO order (monitor)", operations=3))
def _again_before_its_ack_is_known(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.ack(17, end=INFO)
    story.deliver(17, process=11, redelivered=True)


@case(result(Verdict.VALID, "7 operations have a FIFO order (monitor)", operations=8), engine="monitor")
def _who_polls_is_handed_no_more_than_it_asked_for(story: Story) -> None:
    """Also where the broker took back from another what it then hands to who polls."""
    for id_ in (17, 18, 19):
        story.publish(id_)
    story.deliver(17, redelivered=False)
    story.deliver(17, process=11, redelivered=True)
    story.deliver(18, process=11, redelivered=False)
    story.deliver(19, process=11, redelivered=False)
    story.deliver(None, process=11)


UNMARKED = "message 17 was delivered to process 11 without a mark after it had been delivered, marked as redelivered, "
UNMARKED += "to process 10"
SWAPPED = "message 23 was confirmed before 29 was published, yet 29 was consumed first, by process 4, and 23 only "
SWAPPED += "then, by process 5"


@case(
    result(
        Verdict.INVALID, "no order explains these 3 operations: not-marked-though-redelivered",
        Anomaly("not-marked-though-redelivered", UNMARKED, (2, 3, 4, 5), {"engine": "monitor", "window": [2, 3, 4, 5]}),
        operations=3,
    )
)  # fmt: skip
def _new_after_it_was_delivered_again(story: Story) -> None:
    story.publish(17)
    story.deliver(17, redelivered=True)
    story.deliver(17, process=11, redelivered=False)


@case(
    result(
        Verdict.INVALID, "no order explains these 7 operations: inversion",
        Anomaly(
            "inversion", SWAPPED, (2, 3, 4, 5, 10, 11, 12, 13),
            {"engine": "monitor", "window": [2, 3, 4, 5, 10, 11, 12, 13]},
        ),
        Anomaly("not-marked-though-redelivered", UNMARKED, (6, 7, 8, 9), {"engine": "monitor", "window": [6, 7, 8, 9]}),
        operations=7,
    )
)  # fmt: skip
def _new_after_it_was_delivered_again_while_others_are_swapped(story: Story) -> None:
    story.publish(17)
    story.publish(23)
    story.publish(29)
    story.deliver(17, redelivered=True)
    story.deliver(17, process=11, redelivered=False)
    story.deliver(29, process=4, redelivered=False)
    story.deliver(23, process=5, redelivered=False)


EARLY = "message 17 was consumed by process 10 before it was published"


@case(
    result(
        Verdict.INVALID, "no order explains these 2 operations: consumed-before-published",
        Anomaly("consumed-before-published", EARLY, (0, 1, 2), {"engine": "monitor", "window": [0, 1, 2]}),
        operations=2,
    )
)  # fmt: skip
def _before_a_publish_without_an_end(story: Story) -> None:
    story.deliver(17)
    story.publish(17, end=None)


@case(result(Verdict.NOT_APPLICABLE, "no operation of a fifo-queue", operations=0, objects=0))
def _nothing(story: Story) -> None:
    story.drain()


@pytest.mark.parametrize("name", CASES)
def test_literal(name: str) -> None:
    told = CASES[name]
    assert judge(Linearizable(), told.history(), told.options) == told.expected


def test_delivery_decides_what_a_second_delivery_is() -> None:
    story = Story()
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.deliver(17, redelivered=True)
    history = story.history()

    def verdict(delivery: str) -> Verdict:
        return judge(Linearizable(), history, {"delivery": delivery}).verdict

    assert [verdict(delivery) for delivery in ("at-least-once", "exactly-once", "at-most-once")] == [
        Verdict.VALID, Verdict.INVALID, Verdict.INVALID
    ]  # fmt: skip


def test_a_delivery_on_a_credit_from_before_the_ack_may_have_been_on_its_way() -> None:
    story = Story()
    story.publish(17)
    story.deliver(17, redelivered=False)
    credit = story.credit(process=11)
    story.ack(17)
    story.end(credit, value=17, redelivered=True)
    assert judge(Linearizable(), story.history()).verdict is Verdict.VALID


def test_every_message_that_comes_after_its_ack_is_counted_and_told() -> None:
    story = Story()
    for message in (17, 23):
        story.publish(message)
        story.deliver(message, redelivered=False)
        story.ack(message)
    story.deliver(17, redelivered=True)
    story.deliver(23, redelivered=True)
    story.deliver(17, "p", redelivered=True)  # not where it was published
    found = judge(Linearizable(), story.history())
    assert found.counts["redelivered-after-ack"] == 2
    assert [anomaly.kind for anomaly in found.anomalies] == ["redelivered-after-ack"] * 2 + ["phantom"]


def test_as_recorded_marks_say_that_it_is_delivered_at_least_once() -> None:
    story = Story()
    story.publish(17)
    story.deliver(17, redelivered=False)
    story.deliver(17, redelivered=False)
    assert judge(Linearizable(), story.history()).verdict is Verdict.VALID
    unmarked = Story()
    unmarked.publish(17)
    unmarked.publish(23)
    unmarked.deliver(23)
    assert judge(Linearizable(), unmarked.history()).anomalies[0].kind == "overtaken"


def unseen(story: Story) -> Story:
    """A message that never comes, and one behind it that does."""
    story.publish(17)
    story.publish(23)
    story.deliver(23, redelivered=False)
    return story


def test_only_a_drain_of_ours_of_that_queue_and_later_shows_what_is_missing() -> None:
    def verdict(story: Story) -> Verdict:
        return judge(Linearizable(), story.history(), {"delivery": "at-least-once"}).verdict

    later = unseen(Story())
    later.drain()
    failed = unseen(Story())
    failed.drain(end=INFO)
    sooner = Story()
    sooner.drain()
    elsewhere = Story()
    elsewhere.drain()
    unseen(elsewhere).publish(5, "p")
    elsewhere.drain("p")
    clients = unseen(Story())
    clients.end(clients.begin(3, "drain", key="q"), detail={"value": []})
    assert [verdict(story) for story in (later, failed, unseen(sooner), elsewhere, clients)] == [
        Verdict.INVALID, Verdict.VALID, Verdict.VALID, Verdict.VALID, Verdict.VALID
    ]  # fmt: skip


def test_delivery_decides_what_a_loss_is() -> None:
    story = Story()
    story.publish(17)
    story.publish(23)
    story.deliver(23, redelivered=False)
    undrained = story.history()
    story.drain()
    drained = story.history()

    def verdict(delivery: str, history: History, **more: int) -> Verdict:
        return judge(Linearizable(), history, {"delivery": delivery, **more}).verdict

    assert verdict("exactly-once", undrained) is Verdict.INVALID
    assert verdict("at-most-once", undrained) is Verdict.VALID
    assert verdict("at-least-once", undrained) is Verdict.VALID, "a consumer may hold it that was not told"
    assert verdict("at-least-once", drained) is Verdict.INVALID
    assert verdict("at-least-once", drained, delivery_limit=20) is Verdict.VALID, "it may have been dropped"


def ops(*rows: tuple[int, OpType, str, Any]) -> History:
    """(process, type, f, value), a row each; completions end the latest invocation of their process."""
    open_: dict[int, int] = {}
    made = []
    for index, (process, type_, f, value) in enumerate(rows):
        op = None if type_ == INVOKE else open_.pop(process)
        if type_ == INVOKE:
            open_[process] = index
        number = value if isinstance(value, int) else None
        detail = None if number is not None or value is None else {"value": value}
        made.append(Op(index=index, time=index, process=process, type=type_, f=f, value=number, detail=detail, op=op))
    return History.from_ops(made)


STALE = ops(
    (0, INVOKE, "write", 1),
    (0, OK, "write", 1),
    (1, INVOKE, "write", 2),
    (1, OK, "write", 2),
    (2, INVOKE, "read", None),
    (2, OK, "read", 1),
)
TOO_FEW_ROWS = [(0, INVOKE, "add", 2), (0, OK, "add", 2), (1, INVOKE, "read", None), (1, OK, "read", 1)]
TOO_FEW = ops(*TOO_FEW_ROWS)


@pytest.mark.parametrize(
    ("engine", "decided"), [("auto", "monitor"), ("monitor", "monitor"), ("porcupine", "porcupine")]
)
def test_a_stale_read(engine: str, decided: str) -> None:
    found = judge(Linearizable(), STALE, {"model": "register", "engine": engine})
    assert found.verdict is Verdict.INVALID
    assert found.anomalies[0].detail["engine"] == decided
    assert found.anomalies[0].detail["window"] == [0, 1, 2, 3, 4, 5]


def test_what_only_a_search_decides() -> None:
    found = judge(Linearizable(), TOO_FEW, {"model": "counter"})
    assert found.verdict is Verdict.INVALID
    assert (found.anomalies[0].kind, found.metrics) == ("no-order", {"engine": "porcupine"})
    assert found.anomalies[0].detail["longest"] == [0, 1]
    assert judge(Linearizable(), TOO_FEW, {"model": "counter", "engine": "monitor"}).verdict is Verdict.UNKNOWN


def test_a_search_is_shrunk_by_searches() -> None:
    more = [(3, INVOKE, "add", 5), (3, OK, "add", 5)]
    found = judge(Linearizable(), ops(*TOO_FEW_ROWS, *more), {"model": "counter"})
    assert found.anomalies[0].detail["window"] == [0, 1, 2, 3]


def test_what_is_told_reaches_whoever_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    decide = planner.decide

    def note(calls: Calls, **told: Any) -> Decision:
        asked.append(told)
        return decide(calls, **told)

    monkeypatch.setattr(planner, "decide", note)
    told = {"model": "register", "initial": "5", "timeout": "3s", "memory": "64MiB", "engine": "auto"}
    history = ops((0, INVOKE, "read", None), (0, OK, "read", 5), (0, INVOKE, "write", 5), (0, OK, "write", 5))
    assert judge(Linearizable(), history, told).verdict is Verdict.VALID
    assert asked == [
        {"model": "register", "search_as": models.register(5), "engine": "auto", "timeout": 3.0, "memory": 64 << 20}
    ]
    asked.clear()
    judge(Linearizable(), STALE, {"model": "register"})
    assert [told["engine"] for told in asked] == ["auto", *["monitor"] * (len(asked) - 1)]
    assert len(asked) > 1


def test_a_drain_of_unknown_outcome_is_unknown() -> None:
    found = judge(Linearizable(), ops((0, INVOKE, "drain", None), (0, INFO, "drain", None)), {"model": "bag"})
    assert (found.verdict, found.reason) == (
        Verdict.UNKNOWN,
        "operation 0 is a drain of unknown outcome, so nobody knows how many elements it took",
    )


@pytest.mark.parametrize(("operations", "window"), [(60, 120), (61, 4)])
def test_a_window_that_nobody_could_look_at_is_what_shows_it(operations: int, window: int) -> None:
    rows = calls([(F.READ, None, 1, 2 * place, 2 * place + 1) for place in range(operations)])
    rows = replace(rows, op=rows.call, end=rows.ret)
    found = _anomaly(rows, Counterexample("it is so", "stale", (3, 5), rows), "monitor")
    assert found.ops == (6, 7, 10, 11)
    assert len(found.detail["window"]) == window


def test_an_initial_value_that_is_a_word() -> None:
    history = ops((0, INVOKE, "read", None), (0, OK, "read", "milk"))
    assert judge(Linearizable(), history, {"model": "register", "initial": "milk"}).verdict is Verdict.VALID
    assert judge(Linearizable(), history, {"model": "register", "initial": "bread"}).verdict is Verdict.INVALID


def test_an_initial_value() -> None:
    history = ops((0, INVOKE, "read", None), (0, OK, "read", 5))
    assert judge(Linearizable(), history, {"model": "register", "initial": "5"}).verdict is Verdict.VALID
    assert judge(Linearizable(), history, {"model": "register", "initial": "6"}).verdict is Verdict.INVALID


def test_a_history_of_others_that_breaks_the_rules_is_refused_and_one_of_ours_unknown() -> None:
    history = ops((0, INVOKE, "cas", 5), (0, OK, "cas", 5))
    told = {"linearizable": {"model": "cas-register"}}
    with pytest.raises(BadHistory, match=r"op 0 \(cas\): its value is 5: \[from to\] was meant"):
        check_all(history, told, strict=True)
    assert check_all(history, told)["linearizable"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("said", "verdict"), [(None, Verdict.VALID), (False, Verdict.INVALID), (True, Verdict.VALID)])
def test_what_nobody_calls_a_first_delivery_may_be_a_repeat(said: bool | None, verdict: Verdict) -> None:
    """The first of a message may have gone to a consumer that was lost, unseen, and a broker need not say so."""
    story = Story()
    for id_ in (1, 2):
        story.publish(id_)
    for id_ in (2, 1):
        story.deliver(id_, redelivered=said)
    assert judge(Linearizable(), story.history(), {"delivery": "at-least-once"}).verdict is verdict


@pytest.mark.parametrize(("elsewhere", "verdict"), [(True, Verdict.VALID), (False, Verdict.INVALID)])
def test_credits_that_no_client_sees_are_allowed_for(elsewhere: bool, verdict: Verdict) -> None:
    story = Story()
    taken_back(story, elsewhere=elsewhere)
    assert judge(Linearizable(), story.history(), {"model": "fifo-queue"}).verdict is verdict


def told(which: Calls) -> str:
    """Calls and returns, in order: "put1( put1) take1( take1)"."""
    ends: dict[Any, str] = {}
    for place in range(len(which)):
        name = f"put{which.arg[place]}" if which.f[place] == F.PUT else f"take{which.out[place]}"
        assert not {which.call[place], which.ret[place]} & set(ends), "two at one moment"
        ends |= {which.call[place]: f"{name}(", which.ret[place]: f"{name})"}
    ends.pop(NEVER, None)
    assert sorted(ends) == list(range(len(ends)))
    return " ".join(ends[at] for at in sorted(ends))


def test_a_delivery_is_called_as_early_as_it_may_have_been_and_all_else_stays_in_order() -> None:
    """Of two on one credit the one that came first is called first."""
    story = Story()
    taken_back(story, elsewhere=True)
    for message in (5, 6):
        story.publish(message)
        story.deliver(message, redelivered=False)
    story.publish(7, end=None)
    before = calls_of(story.history(), "fifo-queue").calls
    published = "put1( put1) put2( put2) put3( put3) put4( put4) take1( take2("
    others = "take1( take2( take4( take1) take2) take1) take2) take4)"
    assert told(before) == (
        f"{published} {others} take3( take3) put5( put5) take5( take5) put6( put6) take6( take6) put7("
    )
    after = _not_before(story.history(), before)
    assert told(after) == (
        f"{published} take3( take5( {others} take6( take3) put5( put5) take5) put6( put6) take6) put7("
    )
    assert after.call.tolist() == sorted(after.call.tolist())
