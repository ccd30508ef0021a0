"""What the words and values of a history are as operations on a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chaos.model.errors import BadHistory, BadInput
from chaos.model.history import NONE, History
from chaos.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op, OpType
from checkers.linearizability.calls import NEVER, F
from checkers.linearizability.from_history import OPERATIONS, Prepared, calls_of
from checkers.linearizability.operations import FIRST_WORD, Words
from checkers.linearizability.porcupine import models
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


def by_key(*operations: tuple[str, Said, Said]) -> History:
    """Operations one after the other, each of an object of its own name."""
    ops: list[Op] = []
    for key, begun, ended in operations:
        ops += [replace(op, key=key, index=len(ops) + place, time=0) for place, op in enumerate(history(begun, ended))]
    return History.from_ops(
        [op if op.op is None else replace(op, op=place - 1) for place, op in enumerate(ops)]
    )  # fmt: skip


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


def test_a_cas_that_failed_with_an_error_says_nothing_about_the_register() -> None:
    story = history(*done(0, "cas", [1, 2], None, FAIL), *done(1, "write", 5, 5, FAIL), error="timeout")
    assert rows(calls_of(story, "cas-register", refused_cas=True)) == []
    story = history(*done(0, "cas", [1, 2], None, FAIL), *done(1, "write", 5, 5, FAIL), *done(2, "read", None, 1, FAIL))
    assert rows(calls_of(story, "cas-register", refused_cas=True)) == [("CAS_REFUSED", 1, None, 0, 1)]


def test_what_a_register_holds_at_first_may_be_written_too() -> None:
    story = history(*done(0, "write", 0, 0), *done(1, "read", None, 0))
    found = calls_of(story, "register", initial=0)
    assert (rows(found), found.search_as.parameters) == ([("WRITE", 0, None, 0, 1), ("READ", None, 0, 2, 3)], (0,))
    never = calls_of(history(*done(0, "write", 1, 1), *done(1, "cas", [0, 1], None)), "cas-register", initial=0)
    assert never.calls.arg.tolist() == [1, NONE]
    assert never.search_as == models.cas_register()


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


def test_texts_that_are_read_in_vain_or_emptied() -> None:
    story = history(
        *done(0, "put", "a", "a", FAIL), *done(0, "put", "", None, INFO), *done(1, "get", None, None, INFO),
        *done(1, "get", None, None), *done(2, "put", ["x"], None),
    )  # fmt: skip
    found = calls_of(story, "key-value")
    assert rows(found) == [("WRITE", "", None, 2, None), ("READ", None, "", 6, 7), ("WRITE", '["x"]', None, 8, 9)]
    assert found.calls.out.tolist() == [NONE] * 3
    assert found.search_as.table == (b"", b'["x"]')


def table(found: Prepared) -> list[list[int]]:
    """The steps of each transaction, as the search has them."""
    cells = [np.frombuffer(found.search_as.table[place], "<i8").tolist() for place in found.calls.arg]
    return [[NONE if number == NONE else number for number in row] for row in cells]


READ, WRITE = 0, 1


def test_what_a_transaction_says() -> None:
    story = history(
        *done(0, "txn", [["w", "x", 5], ["r", "y", None]], [["w", "x", 5], ["r", "y", 7]]),
        *done(0, "txn", [["w", "x", 6]], None),
        *done(1, "txn", [["w", "x", 8], ["r", "y", None]], None, INFO),
        *done(2, "txn", [["w", "x", 9]], None, FAIL),
        *done(2, "txn", [["r", "y", None]], [["r", "y", None]]),
    )
    found = calls_of(story, "multi-register")
    assert table(found) == [[WRITE, 0, 5, READ, 1, 7], [WRITE, 0, 6], [WRITE, 0, 8], [READ, 1, NONE]]
    assert (found.calls.ret == NEVER).tolist() == [False, False, True, False]
    begun = calls_of(story, "multi-register", initial={"y": 3})
    assert table(begun)[3] == []
    assert begun.search_as.parameters == (1, 3)


def test_reads_and_writes_of_keys_are_transactions_of_one_step_on_one_object() -> None:
    story = by_key(("x", *done(0, "write", 5, 5)), ("y", *done(0, "write", 6, 6)), ("x", *done(1, "read", None, 5)))
    found = calls_of(story, "multi-register")
    assert table(found) == [[WRITE, 0, 5], [WRITE, 1, 6], [READ, 0, 5]]
    assert found.keys == (None,)
    apart = by_key(("x", *done(0, "txn", [["w", 0, 1]], None)), ("y", *done(0, "txn", [["w", 0, 1]], None)))
    assert calls_of(apart, "multi-register").keys == ("x", "y")


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


@pytest.mark.parametrize(("model", "late"), [("mutex", 3), ("fenced-lock", 3), ("reentrant-lock", None)])
def test_a_release_that_was_given_up_is_over_then(model: str, late: int | None) -> None:
    """Unless somebody was refused, or the process may hold the lock more than once."""
    given_up = (
        *done(0, "acquire", None, 33),
        *done(0, "release", None, None, INFO),
        *done(0, "acquire", None, 34),
        *done(0, "release", None, None, INFO),
    )
    releases = [row[3:] for row in rows(calls_of(history(*given_up), model)) if row[0] == "RELEASE"]
    assert releases == [(2, late), (6, None if late is None else 7)]
    refused = history(*given_up, *done(1, "try", None, None, FAIL))
    assert [row[3:] for row in rows(calls_of(refused, model)) if row[0] == "RELEASE"] == [(2, None), (6, None)]


@pytest.mark.parametrize(
    "said",
    [
        # nobody knows whether it was held
        (*done(0, "acquire", None, None, INFO), *done(0, "release", None, None, INFO)),
        # the second may be the one that took effect
        (*done(0, "acquire", None, 1), *done(0, "release", None, None, INFO), *done(0, "release", None, None)),
        # nobody knows when it was given up
        (*done(0, "acquire", None, 1), (0, INVOKE, "release", None)),
    ],
)
def test_a_release_that_may_be_another_stays_in_doubt(said: tuple[Said, ...]) -> None:
    assert next(row[4] for row in rows(calls_of(history(*said), "mutex")) if row[0] == "RELEASE") is None


def test_a_try_that_was_not_refused_acquires() -> None:
    story = history(*done(0, "try", None, 7), *done(0, "release", 5, 5), *done(1, "try", 8, None, INFO))
    found = calls_of(story, "fenced-lock")
    assert rows(found) == [("ACQUIRE", None, 7, 0, 1), ("RELEASE", None, None, 2, 3), ("ACQUIRE", None, None, 4, None)]


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


def test_a_put_that_failed_since_it_was_empty_did_not_happen() -> None:
    assert rows(calls_of(history(*done(1, "enqueue", 5, 5, FAIL), error="exhausted"), "bag")) == []


@pytest.mark.parametrize("error", ["corrupt", "foreign"])
def test_what_was_damaged_or_is_not_ours_took_nobody_knows_what(error: str) -> None:
    ops = list(history(*done(0, "consume", None, 5), *done(1, "consume", None, 6)))
    ops[1] = replace(ops[1], error=error)
    assert rows(calls_of(History.from_ops(ops), "fifo-queue")) == [
        ("TAKE", None, None, 0, None), ("TAKE", None, 6, 2, 3)
    ]  # fmt: skip


def test_what_others_put_may_come_twice_and_what_they_drain_may_be_nothing() -> None:
    story = history(*done(0, "enqueue", 5, 5), *done(0, "enqueue", 5, 5), *done(0, "drain", None, None))
    assert [row[:3] for row in rows(calls_of(story, "bag"))] == [("PUT", 5, None), ("PUT", 5, None)]


def test_a_set_that_is_asked_in_vain() -> None:
    story = history(
        *done(0, "add", 1, 1, FAIL), *done(1, "contains", 1, False), *done(1, "contains", 2, None, INFO),
        *done(1, "read", None, None), *done(2, "read", None, [2, 1]), *done(3, "read", None, [1, 2]),
        *done(3, "read", None, None, INFO),
    )  # fmt: skip
    found = calls_of(story, "set")
    assert [row[:3] for row in rows(found)] == [("CONTAINS", 1, 0), ("READ", None, 0), ("READ", None, 0)]


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


def test_a_counter_that_is_read_in_vain() -> None:
    story = history(
        *done(0, "add", 5, 5, FAIL), *done(0, "add", 6, None, INFO), *done(1, "read", None, None, INFO),
        *done(1, "read", None, None), *done(1, "read", None, 10),
    )  # fmt: skip
    found = calls_of(story, "counter", initial=10)
    assert rows(found) == [("ADD", 6, None, 2, None), ("READ", None, 10, 8, 9)]
    assert found.search_as == models.counter(10)


def test_a_log_that_is_asked_in_vain() -> None:
    story = history(
        *done(0, "append", 9, 9, FAIL), *done(0, "append", 8, None, INFO), *done(1, "fetch", 0, None, INFO),
        *done(1, "append", 7, 0),
    )  # fmt: skip
    assert rows(calls_of(story, "log")) == [("APPEND", 8, None, 2, None), ("APPEND", 7, 0, 6, 7)]


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
        ("cas-register", done(0, "cas", [1, None], None), "op 0 (cas): its value is [1, null]: [from to] was meant"),
        ("multi-register", done(0, "txn", [["w", "x"]], None), "steps such as [[:r x 1] [:w y 2]] were meant"),
        ("multi-register", done(0, "txn", [["w", "x", None]], None), "steps such as [[:r x 1] [:w y 2]] were meant"),
        ("multi-register", done(0, "txn", [["q", "x", 1]], None), "steps such as [[:r x 1] [:w y 2]] were meant"),
        ("set", done(0, "add", None, None), "op 0 (add): it names no member"),
        ("log", done(0, "append", None, 0), "op 0 (append): it appends no value"),
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


def test_a_short_name_of_a_model() -> None:
    assert calls_of(History.from_ops([]), "lock").model == "mutex"


def test_an_initial_value_of_what_holds_nothing_at_first() -> None:
    with pytest.raises(BadInput, match="a bag holds nothing at first: an initial value is for registers and counters"):
        calls_of(History.from_ops([]), "bag", initial=5)


def test_values_that_are_no_numbers_are_the_same_where_they_say_the_same() -> None:
    story = history(*done(0, "write", {"a": 1, "b": True}, None), *done(1, "read", None, {"b": True, "a": 1}))
    arg, out = calls_of(story, "register").calls.arg[0], calls_of(story, "register").calls.out[1]
    assert arg == out >= FIRST_WORD
    truth = history(*done(0, "write", True, None), *done(0, "write", 1, None), *done(0, "write", NONE + 1, None))
    assert [row[1] for row in rows(calls_of(truth, "register"))] == [True, 1, NONE + 1]
    assert calls_of(truth, "register").calls.arg.tolist() == [FIRST_WORD, 1, NONE + 1]


def test_numbers_that_others_stand_for_are_told_from_these() -> None:
    story = history(
        *done(0, "write", "milk", None), *done(0, "write", FIRST_WORD, None), *done(0, "read", None, FIRST_WORD + 1),
        *done(0, "write", 7, None),
    )  # fmt: skip
    found = calls_of(story, "register")
    assert len({*found.calls.arg.tolist(), *found.calls.out.tolist()} - {NONE}) == 4
    assert [row[1] for row in rows(found)] == ["milk", FIRST_WORD, None, 7]
    assert rows(found)[2][2] == FIRST_WORD + 1


@pytest.mark.parametrize("large", [2**63, -(2**63), 10**30])
def test_numbers_beyond_64_bits_stand_for_themselves(large: int) -> None:
    pair = history(*done(0, "cas", [large, 1], None))
    assert calls_of(pair, "cas-register").calls.arg.tolist() == [FIRST_WORD]


def test_the_order_of_keys_in_a_map_says_nothing() -> None:
    words = Words()
    assert words.number({"a": [1], "b": None}) == words.number({"b": None, "a": [1]}) == FIRST_WORD


def test_errors_may_be_keywords() -> None:
    empty = history(*done(1, "dequeue", None, None, FAIL), error=":empty")
    assert rows(calls_of(empty, "bag")) == [("TAKE", None, None, 0, 1)]


def test_what_is_still_open_has_no_error() -> None:
    story = history((0, INVOKE, "dequeue", None), *done(1, "dequeue", None, None, FAIL), error="empty")
    assert rows(calls_of(story, "bag")) == [("TAKE", None, None, 0, None), ("TAKE", None, None, 1, 2)]


def test_what_others_do_beside_is_no_operation() -> None:
    story = history(
        (0, INVOKE, "open", None), (0, OK, "open", None), *done(0, "ack", 5, None), (NEMESIS, INVOKE, "write", 7),
        *done(0, "write", 5, 5),
    )  # fmt: skip
    assert rows(calls_of(story, "register")) == [("WRITE", 5, None, 5, 6)]


def test_keys_are_objects() -> None:
    story = by_key(("x", *done(0, "write", 5, 5)), ("y", *done(0, "write", 5, 5)), ("x", *done(1, "read", None, 5)))
    found = calls_of(story, "register")
    assert (found.calls.key.tolist(), found.keys) == ([0, 1, 0], ("x", "y"))


def test_channels_are_of_their_process_and_some_operations_have_none() -> None:
    ops = list(
        history(
            *done(0, "enqueue", 1, 1), *done(1, "enqueue", 2, 2), *done(0, "enqueue", 3, 3),
            *done(2, "dequeue", None, 1), *done(2, "drain", None, [2, 3]),
        )
    )  # fmt: skip
    told = [replace(op, channel=5 if op.process < 2 else None) for op in ops]
    channel = calls_of(History.from_ops(told), "bag").calls.channel.tolist()
    assert channel[0] == channel[2]
    assert channel[4] == channel[5]
    assert len({channel[0], channel[1], channel[4], -1}) == 4
    assert channel[3] == -1
    assert calls_of(History.from_ops(ops), "bag").calls.channel.tolist() == [-1, -1, -1, -1, 0, 0]


def test_a_drain_spreads_its_takes_in_its_own_time_and_order() -> None:
    story = history(
        *done(0, "enqueue", 1, 1), (1, INVOKE, "drain", None), (2, INVOKE, "drain", None), (1, OK, "drain", [1, 2]),
        (3, INVOKE, "dequeue", None), (2, OK, "drain", [3, 4, 5]),
    )  # fmt: skip
    calls = calls_of(story, "fifo-queue").calls
    assert calls.out.tolist() == [NONE, 1, 2, 3, 4, 5, NONE]
    assert (np.diff(calls.call) > 0).all()
    first, second = calls.select(np.array([1, 2])), calls.select(np.array([3, 4, 5]))
    assert first.ret.max() < calls.call[6] < second.ret.min()
    assert second.call.max() < first.ret.min()
    assert (calls.ret > calls.call).all()
    assert [len(set(some.channel.tolist())) for some in (first, second)] == [1, 1]
    assert -1 < first.channel[0] != second.channel[0] > -1


def test_an_unknown_model() -> None:
    with pytest.raises(BadInput, match=r"model 'regster': did you mean 'register'\?"):
        calls_of(History.from_ops([]), "regster")
