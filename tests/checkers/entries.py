"""Logs as our own workload records them: what is appended and read, literal histories, whole results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.model.op import CONTROLLER, CORRUPT, FAIL, INFO, OK, OpType
from chaos.model.verdict import Anomaly, Result, Verdict
from checkers.streams import KINDS
from tests.checkers.histories import MS, Cases, Story

CASES = Cases()
case = CASES.add
TOLD: dict[str, tuple[Callable[[Story], None], str, tuple[str, ...]]] = {}

N1, N2 = 9, 8  # readers, each of its node
NODES = {N1: "n1", N2: "n2", 19: "n1", 18: "n2"}


def result(
    verdict: Verdict, reason: str, *anomalies: Anomaly, counts: tuple[int, int, int, int],
    kinds: dict[str, int] | None = None, lag: tuple[int, int, str, int] | None = None, most_unseen: int = 1,
) -> Result:  # fmt: skip
    """counts: transactions, sent, acknowledged, polled. lag: since, process, log, ms."""
    transactions, sent, acknowledged, polled = counts
    found = {"transactions": transactions, "logs": 1, "sent": sent, "acknowledged": acknowledged, "polled": polled}
    behind: dict[str, Any] = {"time": 0, "lag": 0}
    if lag:
        behind = {"time": lag[0] * MS, "process": lag[1], "key": lag[2], "lag": lag[3] * MS}
    metrics = {"worst_realtime_lag": behind, "most_unseen": most_unseen, "allowed": []}
    counted = found | dict.fromkeys(KINDS, 0) | (kinds or {})
    return Result("streams", verdict, reason, counted, anomalies, metrics)


def append(story: Story, id_: int, end: OpType | None = OK, process: int = 0, offset: int | None = None) -> int:
    """One that ends at once, or never (None)."""
    op = story.begin(process, "publish", key="x", value=id_)
    if end is not None:
        story.end(op, end, detail=None if offset is None else {"offset": offset})
    return op


def seek(story: Story, process: int, start: int | str) -> int:
    op = story.begin(process, "seek", key="x", node=NODES[process], detail={"from": start})
    return story.end(op, detail={"from": start})


def read(story: Story, process: int, offset: int, id_: int | None, **columns: Any) -> int:
    detail = {"offset": offset} | columns.pop("detail", {})
    op = story.credit("x", process, node=NODES[process])
    return story.end(op, value=id_, detail=detail, **columns)


def begin_drain(story: Story) -> int:
    return story.begin(CONTROLLER, "drain", key="x")


def drained(story: Story, *readers: int, end: OpType = OK, holds: tuple[int, ...] = ()) -> None:
    """Each reader is handed these from offset 0 on."""
    op = begin_drain(story)
    for process in readers:
        seek(story, process, "first")
        for offset, id_ in enumerate(holds):
            read(story, process, offset, id_)
    story.end(op, end)


@case(result(Verdict.VALID, "3 values polled as sent", counts=(11, 4, 2, 3), lag=(2, N1, "x", 3)))
def _ours_well(story: Story) -> None:
    append(story, 1)
    seek(story, N1, "first")
    read(story, N1, 0, 1)  # 5
    append(story, 2, INFO)
    append(story, 3, FAIL)
    append(story, 4, offset=2)
    drained(story, 19, 18, holds=(1, 2, 4))


LOST = Anomaly(
    "lost-write", "2 was confirmed, and x, read from its beginning to its end, does not hold it", (2, 3),
    {"key": "x", "value": 2, "nodes": ["n1"]},
)  # fmt: skip
UNSEEN = Anomaly("unseen", "2 was confirmed by x, and never read", (2, 3), {"key": "x", "value": 2})


@case(
    result(
        Verdict.INVALID, "1 lost-write, 1 unseen", LOST, UNSEEN, counts=(3, 2, 2, 1),
        kinds={"lost-write": 1, "unseen": 1}, most_unseen=2, lag=(5, 19, "x", 3),
    )
)  # fmt: skip
def _ours_lost(story: Story) -> None:
    append(story, 1)
    append(story, 2)
    drained(story, 19, holds=(1,))


@case(
    result(
        Verdict.UNKNOWN, "1 unseen, and nobody read all that there is", UNSEEN, counts=(3, 2, 2, 1),
        kinds={"unseen": 1}, most_unseen=2, lag=(5, 19, "x", 3),
    )
)  # fmt: skip
def _ours_missing_where_not_all_was_read(story: Story) -> None:
    append(story, 1)
    append(story, 2)
    drained(story, 19, holds=(1,), end=INFO)


@case(
    result(
        Verdict.UNKNOWN, "1 unseen, and the history is not whole: killed",
        Anomaly("unseen", "2 was confirmed by x, and never read", (2, 3), {"key": "x", "value": 2}),
        counts=(3, 2, 2, 1), kinds={"unseen": 1}, most_unseen=2, lag=(4, N1, "x", 3),
    )
)  # fmt: skip
def _ours_cut(story: Story) -> str:
    append(story, 1)
    append(story, 2)
    seek(story, N1, "first")
    read(story, N1, 0, 1)
    return "killed"


def told(reason: str, *messages: str) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """Decorates what writes a history: the reason of its verdict, and what its anomalies say, with their ops."""

    def keep(write: Callable[[Story], None]) -> Callable[[Story], None]:
        TOLD[write.__name__.strip("_")] = (write, reason, messages)
        return write

    return keep


@told(
    "1 lost-write, 1 poll-skip",
    "lost-write: 2 was read at offset 1, and x, read from its beginning to its end, does not hold it as n2 has it",
)
def _one_replica_lacks_what_another_hands_out(story: Story) -> None:
    for id_ in (1, 2, 3):
        append(story, id_, INFO)  # nobody knows; but what is read is there
    op = begin_drain(story)
    for process, holds in ((19, (1, 2, 3)), (18, (1, None, 3))):
        seek(story, process, "next")
        for offset, held in enumerate(holds):
            if held is not None:
                read(story, process, offset, held)
    append(story, 4, INFO)  # behind the end that n2 was read to
    read(story, 19, 3, 4)
    story.end(op)


@told(
    "2 lost-write, 1 inconsistent-offsets, 1 nonmonotonic-send",
    "lost-write: 1 was read at offset 0, and x, read from its beginning to its end, does not hold it",
    "lost-write: 2 was read at offset 1, and x, read from its beginning to its end, does not hold it",
)
def _read_once_and_gone(story: Story) -> None:
    append(story, 1, INFO)
    append(story, 2)
    append(story, 3)
    seek(story, N1, "first")
    read(story, N1, 0, 1)
    read(story, N1, 1, 2)
    drained(story, 19, 18, holds=(3,))


@told("1 unexpected", "unexpected: x holds 5, which nobody appended there, at offset 0")
def _of_nobody(story: Story) -> None:
    seek(story, N1, "first")
    read(story, N1, 0, 5)


@told("1 unexpected", "unexpected: x holds a message that is corrupt at offset 1")
def _damaged(story: Story) -> None:
    append(story, 1)
    append(story, 2)
    seek(story, N1, "first")
    read(story, N1, 0, 1)
    read(story, N1, 1, None, error=CORRUPT, detail={"what": "cut to 7 bytes"})
    seek(story, N2, 1)  # that another is handed it whole is no second value
    read(story, N2, 1, 2)


@told("1 inconsistent-offsets", "inconsistent-offsets: x holds 1 and 2 at offset 0")
def _two_values_at_one_offset(story: Story) -> None:
    append(story, 1, INFO)
    append(story, 2, INFO)
    for process, id_ in ((N1, 1), (N2, 2), (19, 2)):
        seek(story, process, 0)
        read(story, process, 0, id_)


@told("1 inconsistent-offsets, 2 duplicate")
def _another_value_than_was_confirmed_there(story: Story) -> None:
    append(story, 1, offset=0)
    append(story, 2, offset=1)
    seek(story, N1, "next")
    read(story, N1, 0, 2)
    seek(story, N1, "next")
    read(story, N1, 2, 1)


@told("1 duplicate", "duplicate: x holds 2 at offsets 0, 2")
def _twice(story: Story) -> None:
    append(story, 1)
    append(story, 2)
    seek(story, N1, "first")
    for offset, id_ in enumerate((2, 1, 2)):  # nor does it say that they are out of order
        read(story, N1, offset, id_)


@told("1 G1a", "G1a: 1 is read from x, and its append failed")
def _there_although_it_failed(story: Story) -> None:
    append(story, 1, FAIL)
    seek(story, N1, "first")
    read(story, N1, 0, 1)


@told(
    "2 poll-skip",
    "poll-skip: process 8 asked for offset 0 of x, and is handed offset 1, and skips 0",
    "poll-skip: process 8 was at offset 1 of x, and is handed offset 3, and skips 2",
)
def _skips(story: Story) -> None:
    for id_ in (1, 2, 3, 4):
        append(story, id_)
    seek(story, N1, "first")
    for offset in range(4):
        read(story, N1, offset, offset + 1)
    seek(story, N2, "first")
    read(story, N2, 1, 2)
    read(story, N2, 3, 4)
    seek(story, N2, 4)  # offsets may have gaps: nobody knows of anything at 4
    append(story, 5)
    read(story, N2, 5, 5)
    seek(story, 18, "next")  # who asks for what comes next cannot be said to skip
    read(story, 18, 2, 3)
    read(story, 19, 5, 5)  # nor who was never seen to ask


@told(
    "2 nonmonotonic-poll",
    "nonmonotonic-poll: process 9 was at offset 1 of x, and is handed offset 1, which is no later",
    "nonmonotonic-poll: process 9 asked for offset 2 of x, and is handed offset 0, which is no later",
)
def _goes_back(story: Story) -> None:
    append(story, 1)
    append(story, 2)
    seek(story, N1, "first")
    read(story, N1, 0, 1)
    read(story, N1, 1, 2)
    read(story, N1, 1, 2)
    seek(story, N1, 2)
    read(story, N1, 0, 1)
    seek(story, N1, "first")  # to go back is its own wish
    read(story, N1, 0, 1)
    read(story, N1, 1, 2)


@told(
    "1 nonmonotonic-send",
    "nonmonotonic-send: process 0 appended 1 to x and then 2, which lies before it: offsets 2 and 1",
)
def _out_of_order(story: Story) -> None:
    first = story.begin(0, "publish", key="x", value=1)
    second = story.begin(0, "publish", key="x", value=2)
    story.end(second)  # confirms may come in any order
    story.end(first)
    append(story, 3, process=1)
    append(story, 4, process=0)
    seek(story, N1, "first")
    for offset, id_ in enumerate((3, 2, 1, 4)):
        read(story, N1, offset, id_)


@told("nothing was polled")
def _nobody_reads(story: Story) -> None:
    append(story, 1, INFO)
    seek(story, N1, "first")
