from __future__ import annotations

from chaos.model.history import History
from results.journey import Step, journey, message_of
from results.timeline import timeline
from tests.results.example import SCRIPT, script, whole_run

WHOLE = whole_run()


def of(history: History, message: int) -> list[Step]:
    return journey(history, timeline(history), message)


def told(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.tone, step.text) for step in steps]


def test_a_lost_message_is_followed_to_the_drain_that_did_not_find_it() -> None:
    assert told(of(WHOLE, 917)) == [
        ("plain", "client 0 publishes message 917 to q1 through n2"),
        ("leader", "n1 holds itself leader of q1 (term 1)"),
        ("fault", "in force since 16.000 s: partition-1 (partition leader: n1 | n2 n3)"),
        ("good", "the broker confirms it through n2 after 6.19 ms: it promises to keep it"),
        ("leader", "n2 becomes leader of q1 in term 2, after n1"),
        ("fault", "comes into force: kill-1 (kill: n2)"),
        ("fault", f"n2 ends: killed {SCRIPT}"),
        ("leader", "n3 becomes leader of q1 in term 3, after n2"),
        ("fault", "comes into force: pause-1 (pause: n3)"),
        ("fault", "comes into force: partition-2 (partition halves: n3 | n1 n2)"),
        ("leader", "n1 becomes leader of q1 in term 4, after n3"),
        ("plain", "every fault is undone"),
        ("plain", "every node serves again"),
        ("bad", "q1 was read until nothing was left, and the message had never come: it is lost"),
    ]


def test_the_steps_name_their_ops_and_come_in_order() -> None:
    steps = of(WHOLE, 917)
    assert [step.time for step in steps] == sorted(step.time for step in steps)
    named = [WHOLE[step.index] for step in steps if step.index is not None]
    assert [(op.f, str(op.type), op.value) for op in named] == [
        ("publish", "invoke", 917),
        ("publish", "ok", 917),
        ("serve", "ok", None),
        ("drain", "ok", None),
    ]


def test_two_leaders_at_once_are_pointed_out() -> None:
    message = next(
        op.value for op in WHOLE if op.f == "publish" and op.type == 0 and op.time > 19.2e9 and op.value is not None
    )
    assert ("bad", "so 2 nodes hold themselves leader at once") in told(of(WHOLE, message))


def test_a_delivered_message_ends_with_its_delivery() -> None:
    assert told(of(WHOLE, 1))[-4:-3] == [("good", "it is delivered to client 4 through n2")]


def test_a_cut_history_ends_in_doubt() -> None:
    cut = script().history("it ends after 9000 ops without its end marker", until=40)
    assert told(of(cut, 917))[-1] == ("plain", "the history was cut off here: it may have been delivered later")


def test_without_a_complete_drain_it_may_still_be_there() -> None:
    short = script().history(until=54)
    assert told(of(short, 917))[-1] == ("plain", "q1 was not read to its end: it may still be there")


def test_a_message_that_is_not_there_has_no_journey() -> None:
    assert of(WHOLE, 10**9) == []
    assert message_of(WHOLE, (10**9,)) is None
    assert message_of(WHOLE, ()) is None
