"""What the words and values of a history are as operations on a model."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.model.errors import BadHistory, BadInput
from chaos.model.history import NONE, History
from chaos.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op, OpType
from checkers.linearizability.calls import NEVER, F
from checkers.linearizability.from_history import OPERATIONS, Prepared, calls_of
from checkers.linearizability.verdict import Refused

Said = tuple[int, OpType, str, Any]


def history(*said: Said, key: str | None = None, error: str | None = None) -> History:
    """(process, type, f, value) a row, at ranks 0, 1, ...; completions end their process's last invocation."""
    open_: dict[int, int] = {}
    ops = []
    for index, (process, type_, f, value) in enumerate(said):
        op = None
        if type_ is INVOKE:
            open_[process] = index
        elif process >= 0:
            op = open_.pop(process)
        whole = isinstance(value, int) and not isinstance(value, bool)
        ops.append(
            Op(
                index=index, time=index, process=process, type=type_, f=f, key=key, op=op,
                value=value if whole else None, detail=None if whole or value is None else {"value": value},
                error=error if type_ is FAIL else None,
            )
        )  # fmt: skip
    return History.from_ops(ops)


def done(process: int, f: str, asked: Any, answer: Any, type_: OpType = OK) -> tuple[Said, Said]:
    return (process, INVOKE, f, asked), (process, type_, f, answer)


def rows(found: Prepared) -> list[tuple[Any, ...]]:
    """(f, arg, out, call, ret) of each, None for nothing and never."""
    calls = found.calls

    def said(number: int) -> Any:
        return None if number == NONE else found.value(number)

    columns = (calls.f, calls.arg, calls.out, calls.call, calls.ret)
    return [
        (F(f).name, said(arg), found.value(out) if f == F.READ else said(out), call, None if ret == NEVER else ret)
        for f, arg, out, call, ret in zip(*(column.tolist() for column in columns), strict=True)
    ]


def test_a_register() -> None:
    story = history(
        *done(0, "write", 5, 5), *done(1, "read", None, 5), *done(1, "read", None, None), *done(2, "write", 6, 6, FAIL),
        *done(2, "read", None, None, FAIL), *done(3, "write", "seven", None, INFO), (4, INVOKE, "read", None),
        (NEMESIS, INFO, "start", None),
    )  # fmt: skip
    assert rows(calls_of(story, "register")) == [
        ("WRITE", 5, None, 0, 1),
        ("READ", None, 5, 2, 3),
        ("READ", None, None, 4, 5),
        ("WRITE", "seven", None, 10, None),
    ]


def test_a_cas_register() -> None:
    story = history(
        *done(0, "cas", [1, 2], [1, 2]), *done(1, "cas", [2, 3], None, INFO), *done(2, "cas", [7, 8], None, FAIL)
    )
    known = [("CAS", 1, 2, 0, 1), ("CAS", 2, 3, 2, None)]
    assert rows(calls_of(story, "cas-register")) == known
    refused = [("CAS_REFUSED", 7, 8, 4, 5)]
    assert [row[:2] for row in rows(calls_of(story, "cas-register", refused_cas=True))] == [
        row[:2] for row in known + refused
    ]


def test_an_initial_value_is_what_was_there_before_and_a_read_of_nil_then_says_nothing() -> None:
    story = history(*done(0, "read", None, 0), *done(1, "read", None, None), *done(0, "write", 1, 1))
    assert rows(calls_of(story, "register", initial=0)) == [("READ", None, 0, 0, 1), ("WRITE", 1, None, 4, 5)]
    again = history(*done(0, "read", None, 0), *done(1, "cas", [0, 0], None))
    assert calls_of(again, "cas-register", initial=0).search_as.parameters == (0,)


def test_texts_by_key() -> None:
    story = history(
        *done(0, "put", "a", "a"),
        *done(1, "append", "b", "b"),
        *done(2, "get", None, "ab"),
        *done(2, "get", None, ""),
        key="k",
    )
    found = calls_of(story, "key-value")
    assert rows(found) == [
        ("WRITE", "a", None, 0, 1), ("APPEND", "b", None, 2, 3), ("READ", None, "ab", 4, 5), ("READ", None, "", 6, 7)
    ]  # fmt: skip
    assert found.keys == ("k",)
    assert found.search_as.name == "key-value"


def test_transactions() -> None:
    story = history(
        *done(0, "txn", [["w", "x", 1]], [["w", "x", 1]]), *done(1, "txn", [["r", "x", None]], [["r", "x", 1]])
    )
    assert [(row[0], row[3], row[4]) for row in rows(calls_of(story, "multi-register"))] == [
        ("TXN", 0, 1),
        ("TXN", 2, 3),
    ]


@pytest.mark.parametrize("model", ["mutex", "reentrant-lock", "fenced-lock"])
def test_locks(model: str) -> None:
    story = history(
        *done(0, "acquire", None, 33), *done(1, "try-lock", None, False), *done(2, "try", None, None, FAIL),
        *done(0, "release", None, None), *done(1, "lock", None, None, INFO), *done(3, "acquire", None, None, FAIL),
    )  # fmt: skip
    assert [(row[0], *row[2:]) for row in rows(calls_of(story, model))] == [
        ("ACQUIRE", 33, 0, 1),
        ("TRY", None, 2, 3),
        ("TRY", None, 4, 5),
        ("RELEASE", None, 6, 7),
        ("ACQUIRE", None, 8, None),
    ]


@pytest.mark.parametrize("model", ["fifo-queue", "bag"])
def test_queues(model: str) -> None:
    story = history(
        *done(0, "enqueue", 1, 1), *done(0, "enqueue", 2, None, INFO), *done(0, "enqueue", 3, None, FAIL),
        *done(1, "dequeue", None, 1), *done(1, "dequeue", None, None), *done(2, "dequeue", None, None, INFO),
        *done(3, "drain", None, [2, 4]),
    )  # fmt: skip
    found = calls_of(story, model)
    assert [row[:3] for row in rows(found)] == [
        ("PUT", 1, None), ("PUT", 2, None), ("TAKE", None, 1), ("TAKE", None, None), ("TAKE", None, None),
        ("TAKE", None, 2), ("TAKE", None, 4),
    ]  # fmt: skip
    known = (found.calls.ret != NEVER).tolist()
    assert known == [True, False, True, True, False, True, True]
    drained = found.calls.channel.tolist()[-2:]
    assert drained[0] == drained[1] >= 0, "in their order"


def test_a_failure_that_says_empty_is_an_empty_answer() -> None:
    empty = history(*done(1, "dequeue", None, None, FAIL), error="empty")
    assert rows(calls_of(empty, "fifo-queue")) == [("TAKE", None, None, 0, 1)]
    assert rows(calls_of(history(*done(1, "dequeue", None, None, FAIL)), "fifo-queue")) == []


def test_sets() -> None:
    story = history(
        *done(0, "add", 1, 1),
        *done(0, "remove", 1, None, INFO),
        *done(1, "contains", 1, True),
        *done(1, "read", None, [1, 2]),
    )
    found = calls_of(story, "set")
    assert [row[:3] for row in rows(found)] == [
        ("ADD", 1, None), ("REMOVE", 1, None), ("CONTAINS", 1, 1), ("READ", None, 0)
    ]  # fmt: skip


def test_counters() -> None:
    story = history(
        *done(0, "add", 5, 5), *done(0, "increment", None, None), *done(0, "decrement", 2, 2), *done(1, "read", None, 4)
    )
    assert [row[:3] for row in rows(calls_of(story, "counter"))] == [
        ("ADD", 5, None), ("ADD", 1, None), ("ADD", -2, None), ("READ", None, 4)
    ]  # fmt: skip


def test_logs() -> None:
    story = history(
        *done(0, "append", 9, [0, 9]),
        *done(1, "fetch", 0, 9),
        *done(1, "poll", None, [0, 9]),
        *done(1, "read", 1, None),
    )
    assert [row[:3] for row in rows(calls_of(story, "log"))] == [
        ("APPEND", 9, 0), ("FETCH", 0, 9), ("FETCH", 0, 9), ("FETCH", 1, None)
    ]  # fmt: skip


def test_every_model_has_words() -> None:
    for model in OPERATIONS:
        assert len(calls_of(History.from_ops([]), model).calls) == 0


@pytest.mark.parametrize(
    ("model", "said", "problem"),
    [
        ("register", done(0, "pop", None, 1), "op 0: 'pop' is nothing that a register does"),
        ("register", done(0, "write", None, None), "op 0 (write): it writes nil"),
        ("cas-register", done(0, "cas", [1], [1]), "op 0 (cas): its value is [1]: [from to] was meant"),
        ("multi-register", done(0, "txn", [["q", "x", 1]], None), "steps such as [[:r x 1] [:w y 2]] were meant"),
        ("set", done(0, "contains", 1, 5), "op 0 (contains): its answer is 5: true or false was meant"),
        ("set", done(0, "read", None, 5), "op 0 (read): its answer is 5: all members were meant"),
        ("counter", done(0, "add", "x", "x"), 'op 0 (add): it counts in "x"'),
        ("fifo-queue", done(0, "enqueue", None, None), "op 0 (enqueue): it puts no value"),
        ("log", done(0, "fetch", None, 5), "it fetches from no offset"),
        (
            "fifo-queue",
            (*done(0, "publish", 7, 7), *done(1, "publish", 7, 7)),
            "op 2 (publish): 7 was published already, by op 0; values are unique per attempt",
        ),
    ],
)
def test_what_a_model_has_no_words_for_names_the_op(model: str, said: tuple[Said, ...], problem: str) -> None:
    with pytest.raises(BadHistory) as refused:
        calls_of(history(*said), model)
    assert problem in str(refused.value)


def test_a_drain_that_nobody_knows_about_is_refused() -> None:
    with pytest.raises(Refused, match="operation 0 is a drain of unknown outcome"):
        calls_of(history(*done(0, "drain", None, None, INFO)), "bag")


def test_an_unknown_model() -> None:
    with pytest.raises(BadInput, match=r"model 'regster': did you mean 'register'\?"):
        calls_of(History.from_ops([]), "regster")
