"""Logs as Jepsen tells of them, by transactions of sends and polls: literal histories, whole results."""

from __future__ import annotations

from typing import Any

from chaos.model.op import FAIL, INFO, OK, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.streams import KINDS
from tests.checkers.histories import MS, Cases, Story

CASES = Cases()
case = CASES.add


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int, int, int],
    kinds: dict[str, int] | None = None, lag: dict[str, Any] | None = None, most_unseen: int = 0,
    allowed: tuple[str, ...] = (),
) -> Result:  # fmt: skip
    """counts: transactions, logs, sent, acknowledged, polled. kinds: how many of each kind of anomaly."""
    names = ("transactions", "logs", "sent", "acknowledged", "polled")
    found = dict(zip(names, counts, strict=True)) | dict.fromkeys(KINDS, 0) | (kinds or {})
    metrics = {
        "worst_realtime_lag": lag or {"time": 0, "lag": 0}, "most_unseen": most_unseen, "allowed": list(allowed)
    }  # fmt: skip
    return Result("streams", verdict, reason, found, anomalies, metrics)


def behind(time: int, process: int, key: str, lag: int) -> dict[str, Any]:
    return {"time": time * MS, "process": process, "key": key, "lag": lag * MS}


def send(story: Story, process: int, *steps: Any, end: OpType = OK) -> int:
    """Sends of (log, value) or (log, value, offset)."""
    asked = [["send", key, value] for key, value, *_ in steps]
    told = [["send", key, [*offset, value] if offset else value] for key, value, *offset in steps]
    return story.did(process, "send", asked, told, end)


def poll(story: Story, process: int, end: OpType = OK, **logs: Any) -> int:
    """A poll of [offset, value] by log."""
    return story.did(process, "poll", [["poll"]], [["poll", logs]], end)


@case(result(Verdict.VALID, "4 values polled as sent", counts=(6, 2, 5, 3, 4), most_unseen=2, lag=behind(4, 9, "x", 0)))
def _well(story: Story) -> None:
    send(story, 0, ("x", 1, 0), ("x", "b", 3))  # offsets may have gaps
    send(story, 0, ("y", 1), end=INFO)
    poll(story, 9, x=[[0, 1], [3, "b"]])
    send(story, 0, ("x", 4, 5))
    poll(story, 9, x=[[5, 4]], y=[[0, 1]])
    story.ask(0, "send", [["send", "x", "never"]])


LOST = Anomaly(
    "lost-write", "2 was sent to x, and never polled, though what comes after it was", (3, 7),
    {"key": "x", "value": 2, "index": 1, "max-read-index": 2, "writer": 3, "max-read": 7},
)  # fmt: skip
SKIPS = Anomaly(
    "int-poll-skip", "in x one transaction polls 1 and then 3, and skips 2", (7,),
    {"key": "x", "values": [1, 3], "delta": 2, "skipped": [2], "op": 7},
)  # fmt: skip
UNSEEN = Anomaly("unseen", "2 was sent to x, and never polled", (3,), {"key": "x", "value": 2, "op": 3})


def lose(story: Story) -> None:
    for offset in range(3):
        send(story, 0, ("x", offset + 1, offset))
    poll(story, 9, x=[[0, 1], [2, 3]])


@case(
    result(
        Verdict.INVALID, "1 lost-write, 1 unseen, 1 int-poll-skip", UNSEEN, LOST, SKIPS, counts=(4, 1, 3, 3, 2),
        kinds={"lost-write": 1, "unseen": 1, "int-poll-skip": 1}, most_unseen=3, lag=behind(6, 9, "x", 0),
    )
)  # fmt: skip
def _lost(story: Story) -> None:
    lose(story)


@case(
    result(
        Verdict.UNKNOWN, "1 unseen, and the history is not whole: killed",
        Anomaly("unseen", "2 was sent to x, and never polled", (3,), {"key": "x", "value": 2, "op": 3}),
        counts=(3, 1, 2, 2, 1), kinds={"unseen": 1}, most_unseen=2, lag=behind(4, 9, "x", 1),
    )
)  # fmt: skip
def _missing_where_the_history_was_cut(story: Story) -> str:
    send(story, 0, ("x", 1, 0))
    send(story, 0, ("x", 2, 1))
    poll(story, 9, x=[[0, 1]])
    return "killed"


TAIL = Anomaly("unseen", "2 was sent to x, and never polled", (3,), {"key": "x", "value": 2, "op": 3})


@case(
    result(
        Verdict.INVALID, "1 unseen", TAIL, counts=(3, 1, 2, 2, 1), kinds={"unseen": 1}, most_unseen=2,
        lag=behind(4, 9, "x", 1),
    )
)  # fmt: skip
def _an_unseen_tail(story: Story) -> None:
    send(story, 0, ("x", 1, 0))
    send(story, 0, ("x", 2, 1))
    poll(story, 9, x=[[0, 1]])


@case(result(Verdict.VALID, "1 value polled as sent", counts=(6, 1, 4, 1, 1), most_unseen=1, lag=behind(10, 9, "x", 0)))
def _nobody_knows(story: Story) -> None:
    send(story, 0, ("x", 9, 5), end=FAIL)  # so it is not there
    send(story, 1, ("x", 8, 1), end=INFO)  # nor is this, as far as anybody knows
    send(story, 2, ("x", 7), end=INFO)
    poll(story, 8, FAIL, x=[[0, 7], [1, 1]])  # 7 is there, and may not have been committed; and 1 is sent only later
    send(story, 3, ("x", 1, 1))
    poll(story, 9, x=[[1, 1]])


BY_ANOTHER = Anomaly(
    "lost-write", "1 was sent to x, and never polled, though what comes after it was", (1, 5),
    {"key": "x", "value": 1, "index": 0, "max-read-index": 2, "writer": 1, "max-read": 5},
)  # fmt: skip
NEVER = Anomaly("unseen", "1 was sent to x, and never polled", (1,), {"key": "x", "value": 1, "op": 1})
MOVED = Anomaly(
    "duplicate", "x holds 1 at offsets 0, 3", (1, 3), {"key": "x", "value": 1, "count": 2, "offsets": [0, 3]}
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 lost-write, 1 unseen, 1 duplicate", NEVER, MOVED, BY_ANOTHER, counts=(3, 1, 2, 2, 1),
        kinds={"lost-write": 1, "unseen": 1, "duplicate": 1}, most_unseen=2, lag=behind(4, 9, "x", 0),
    )
)  # fmt: skip
def _polled_only_by_one_that_failed(story: Story) -> None:
    send(story, 0, ("x", 1, 0), ("x", 2, 4))
    poll(story, 8, FAIL, x=[[3, 1]])
    poll(story, 9, x=[[4, 2]])


TWO = Anomaly(
    "inconsistent-offsets", "x holds 1 and 2 at offset 0", (1, 3),
    {"key": "x", "offset": 0, "index": 0, "values": [1, 2]},
)  # fmt: skip
TWICE = Anomaly(
    "duplicate", "x holds 2 at offsets 0, 4", (3, 5), {"key": "x", "value": 2, "count": 2, "offsets": [0, 4]}
)  # fmt: skip
PHANTOM = Anomaly("unexpected", "7 is polled from x, and nobody sent it", (5,), {"op": 5, "key": "x", "value": 7})


@case(
    result(
        Verdict.INVALID, "1 unexpected, 1 inconsistent-offsets, 1 duplicate", TWO, TWICE, PHANTOM,
        counts=(3, 1, 2, 2, 3), kinds={"unexpected": 1, "inconsistent-offsets": 1, "duplicate": 1},
        most_unseen=2, lag=behind(4, 9, "x", 0),
    )
)  # fmt: skip
def _logs_that_contradict_themselves(story: Story) -> None:
    send(story, 0, ("x", 1, 0))
    send(story, 1, ("x", 2, 0))
    poll(story, 9, x=[[0, 1], [4, 2], [5, 7]])


ABORTED = Anomaly(
    "G1a", "1 is polled from x, and its send failed", (1, 3), {"key": "x", "value": 1, "writer": 1, "reader": 3}
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 G1a", ABORTED, counts=(6, 1, 2, 1, 2), kinds={"G1a": 1}, most_unseen=1,
        lag=behind(2, 9, "x", 0),
    )
)  # fmt: skip
def _of_a_send_that_failed(story: Story) -> None:
    send(story, 0, ("x", 1, 7), end=FAIL)
    poll(story, 9, x=[[0, 1]])
    poll(story, 8, FAIL, x=[[0, 1]])
    send(story, 0, ("x", 2), end=FAIL)
    send(story, 0, ("x", 2))  # tried again
    poll(story, 9, x=[[1, 2]])


OWN = Anomaly(
    "precommitted-read", "a transaction polls 1 from x, which it sends itself", (1,),
    {"op": 1, "key": "x", "value": 1},
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 precommitted-read", OWN, counts=(1, 1, 1, 1, 1), kinds={"precommitted-read": 1},
        lag=behind(0, 0, "x", 0),
    )
)  # fmt: skip
def _a_transaction_polls_its_own(story: Story) -> None:
    story.did(0, "txn", [["send", "x", 1], ["poll"]], [["send", "x", [0, 1]], ["poll", {"x": [[0, 1]]}]])


MOVES = (
    Anomaly(
        "poll-skip", "process 9 polls 4 of x after 1, and skips 2, 3", (5, 7),
        {"key": "x", "delta": 3, "skipped": [2, 3], "ops": [5, 7]},
    ),
    Anomaly(
        "nonmonotonic-poll", "process 9 polls 1 of x after 4, which is no later", (7, 9),
        {"key": "x", "values": [4, 1], "delta": -3, "ops": [7, 9]},
    ),
    Anomaly(
        "poll-skip", "process 9 polls 4 of x after 1, and skips 2, 3", (9, 15),
        {"key": "x", "delta": 3, "skipped": [2, 3], "ops": [9, 15]},
    ),
)  # fmt: skip


def jump(story: Story, f: str) -> None:
    send(story, 0, ("x", 1, 0), ("x", 2, 1), ("x", 3, 2), ("x", 4, 3), ("y", 1, 0))
    poll(story, 8, x=[[0, 1], [1, 2], [2, 3], [3, 4]], y=[[0, 1]])
    poll(story, 9, x=[[0, 1]])
    poll(story, 9, x=[[3, 4]])
    poll(story, 9, x=[[0, 1]])
    story.did(9, f, ["x"])  # leaves it where it is
    story.did(9, f, ["y"], end=FAIL)
    poll(story, 9, FAIL, x=[[3, 4]])  # does not take it anywhere
    poll(story, 9, x=[])
    poll(story, 9, x=[[1, 2]])
    story.did(9, f, ["y"], end=INFO)  # and this takes x from it
    poll(story, 9, x=[[0, 1]])


JUMPED = {"poll-skip": 2, "nonmonotonic-poll": 1}


@case(
    result(
        Verdict.INVALID, "2 poll-skip, 1 nonmonotonic-poll", *MOVES, counts=(9, 2, 5, 5, 5), kinds=JUMPED,
        most_unseen=5, lag=behind(4, 9, "x", 3),
    )
)  # fmt: skip
def _readers_that_jump(story: Story) -> None:
    jump(story, "assign")


@case(
    result(
        Verdict.VALID, "5 values polled as sent", counts=(9, 2, 5, 5, 5), kinds=JUMPED, most_unseen=5,
        lag=behind(22, 9, "x", 21), allowed=("poll-skip", "nonmonotonic-poll"),
    )
)  # fmt: skip
def _subscribers_may_jump(story: Story) -> None:
    jump(story, "subscribe")


WENT_BACK = Anomaly(
    "nonmonotonic-send", "process 0 sent 2 to x and then 1, which is no later there", (1, 3),
    {"key": "x", "values": [2, 1], "delta": -1, "ops": [1, 3]},
)  # fmt: skip
INSIDE = Anomaly(
    "int-nonmonotonic-send", "in y one transaction sends 2 and then 1, which is no later", (5,),
    {"key": "y", "values": [2, 1], "delta": -2, "op": 5},
)  # fmt: skip
POLLED = Anomaly(
    "int-nonmonotonic-poll", "in y one transaction polls 3 and then 3, which is no later", (9,),
    {"key": "y", "values": [3, 3], "delta": 0, "op": 9},
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 nonmonotonic-send, 1 int-nonmonotonic-poll, 1 int-nonmonotonic-send",
        WENT_BACK, INSIDE, POLLED, counts=(6, 2, 5, 3, 5),
        kinds={"nonmonotonic-send": 1, "int-nonmonotonic-poll": 1, "int-nonmonotonic-send": 1},
        most_unseen=3, lag=behind(8, 9, "x", 0),
    )
)  # fmt: skip
def _going_back(story: Story) -> None:
    send(story, 0, ("x", 2, 1), end=INFO)
    send(story, 0, ("x", 1, 0))
    send(story, 1, ("y", 2, 2), ("y", 1, 0))
    send(story, 2, ("y", 3), end=INFO)
    story.did(9, "poll", [["poll"], ["poll"]], [
        ["poll", {"x": [[0, 1], [1, 2]], "y": [[0, 1], [1, 3]]}], ["poll", {"y": [[1, 3], [2, 2]]}]
    ])  # fmt: skip
    send(story, 0, ("x", 2, 1), end=FAIL)


@case(
    result(
        Verdict.VALID, "3 values polled as sent", counts=(3, 1, 3, 2, 3), kinds={"int-send-skip": 1}, most_unseen=2,
        lag=behind(4, 9, "x", 0), allowed=("int-send-skip",),
    )
)  # fmt: skip
def _others_may_come_between(story: Story) -> None:
    send(story, 0, ("x", 1, 0), ("x", 3, 2))
    send(story, 1, ("x", 2, 1), end=INFO)
    poll(story, 9, x=[[0, 1], [1, 2], [2, 3]])


@case(
    result(
        Verdict.VALID, "3 values polled as sent", counts=(3, 1, 3, 3, 3), most_unseen=3, lag=behind(2, 8, "x", 1)
    )
)  # fmt: skip
def _a_log_that_was_rebalanced(story: Story) -> None:
    send(story, 0, ("x", 1, 0), ("x", 2, 1), ("x", 3, 2))
    poll(story, 8, x=[[0, 1], [1, 2]])
    asked = story.ask(9, "poll", [["poll"]])
    moved = {"value": [["poll", {"x": [[0, 1], [2, 3]]}]], "rebalance-log": [{"keys": ["x"]}]}
    story.end(asked, OK, detail=moved)


def circle(story: Story) -> None:
    first = story.ask(0, "txn", [["send", "x", 1], ["poll"]])
    second = story.ask(1, "txn", [["send", "y", 1], ["send", "x", 2], ["poll"]])
    story.answer(first, [["send", "x", [0, 1]], ["poll", {"y": [[0, 1]], "x": [[1, 2]]}]])
    story.answer(second, [["send", "y", [0, 1]], ["send", "x", [1, 2]], ["poll", {"x": [[0, 1]]}]])


CYCLE = Anomaly(
    "G1c", "#2 polls 2 of x, which #3 sent; #3 polls 1 of x, which #2 sent", (2, 3),
    {
        "type": "G1c",
        "cycle": [3, 2, 3],
        "steps": [
            {"type": "wr", "key": "x", "value": 2, "a-mop-index": 1, "b-mop-index": 1},
            {"type": "wr", "key": "x", "value": 1, "a-mop-index": 0, "b-mop-index": 2},
        ],
    },
)  # fmt: skip
CIRCLE: dict[str, Any] = {"counts": (2, 2, 3, 3, 3), "kinds": {"G1c": 1}, "most_unseen": 1}


@case(result(Verdict.INVALID, "1 G1c", CYCLE, **CIRCLE, lag=behind(0, 0, "x", 0)))
def _two_poll_each_other(story: Story) -> None:
    circle(story)


@case(
    result(Verdict.VALID, "3 values polled as sent", **CIRCLE, lag=behind(0, 0, "x", 0), allowed=("G1c",)), ww_deps=True
)
def _where_offsets_order_transactions(story: Story) -> None:
    circle(story)


FUTURE = Anomaly(
    "G1c-realtime", "#1 polls 1 of x, which #3 sent; #3 began when #1 had ended", (1, 3),
    {
        "type": "G1c-realtime",
        "cycle": [3, 1, 3],
        "steps": [
            {"type": "wr", "key": "x", "value": 1, "a-mop-index": 0, "b-mop-index": 0},
            {"type": "realtime"},
        ],
    },
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 G1c-realtime", FUTURE, counts=(2, 1, 1, 1, 1), kinds={"G1c-realtime": 1},
        lag=behind(0, 9, "x", 0),
    )
)  # fmt: skip
def _a_poll_of_what_is_sent_later(story: Story) -> None:
    poll(story, 9, x=[[0, 1]])
    send(story, 0, ("x", 1, 0))


@case(result(Verdict.VALID, "1 value polled as sent", counts=(3, 1, 1, 1, 1), most_unseen=1, lag=behind(4, 9, "x", 0)))
def _a_poll_that_may_have_ended_later(story: Story) -> None:
    poll(story, 8, INFO, x=[[0, 1]])
    send(story, 0, ("x", 1, 0))
    poll(story, 9, x=[[0, 1]])


BACKWARDS = Anomaly(
    "nonmonotonic-send", "process 0 sent 1 to x and then 2, which is no later there", (1, 3),
    {"key": "x", "values": [1, 2], "delta": -1, "ops": [1, 3]},
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 nonmonotonic-send", BACKWARDS, counts=(3, 1, 2, 2, 2),
        kinds={"nonmonotonic-send": 1, "G0-realtime": 1}, most_unseen=2, lag=behind(4, 9, "x", 0),
        allowed=("G0-realtime",),
    ),
    ww_deps=True,
)  # fmt: skip
def _offsets_against_time(story: Story) -> None:
    send(story, 0, ("x", 1, 1))
    send(story, 0, ("x", 2, 0))
    poll(story, 9, x=[[0, 2], [1, 1]])


def late(story: Story) -> None:
    send(story, 0, ("x", 1, 0))
    send(story, 0, ("x", 2, 1))
    story.at(6 * MS)
    poll(story, 9, x=[[0, 1]])
    poll(story, 9, x=[[1, 2]])


LATE = Anomaly(
    "max_lag", "a poll of process 9 is 3ms behind the end of x, of 2ms at most", (5,), behind(6, 9, "x", 3)
)  # fmt: skip


@case(
    result(
        Verdict.INVALID, "1 max_lag", LATE, counts=(4, 1, 2, 2, 2), kinds={"max_lag": 1}, most_unseen=2,
        lag=behind(6, 9, "x", 3),
    ),
    max_lag="2ms",
)  # fmt: skip
def _behind_the_end(story: Story) -> None:
    late(story)


@case(
    result(Verdict.VALID, "2 values polled as sent", counts=(4, 1, 2, 2, 2), most_unseen=2, lag=behind(6, 9, "x", 3)),
    max_lag="3ms",
)  # fmt: skip
def _as_far_behind_as_it_may_be(story: Story) -> None:
    late(story)


@case(result(Verdict.UNKNOWN, "nothing was polled", counts=(2, 1, 1, 0, 0)))
def _nothing_is_polled(story: Story) -> None:
    send(story, 0, ("x", 1), end=INFO)
    poll(story, 9)


@case(result(Verdict.NOT_APPLICABLE, "no operations on logs", counts=(0, 0, 0, 0, 0)))
def _ours(story: Story) -> None:
    story.publish(1)


@case(result(Verdict.NOT_APPLICABLE, "no operations on logs", counts=(0, 0, 0, 0, 0)))
def _a_queue(story: Story) -> None:
    story.did(0, "send", 1)
    story.did(0, "poll", answer=1)


@case(result(Verdict.NOT_APPLICABLE, "no operations on logs", counts=(0, 0, 0, 0, 0)))
def _registers(story: Story) -> None:
    story.did(0, "txn", [["r", "x", None]], [["r", "x", 1]])
