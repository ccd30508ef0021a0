"""Every model against all orders tried, on small random histories; and what a decision is made of."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from chaos.model.errors import BadInput
from chaos.model.history import NONE
from checkers.linearizability.calls import NEVER, Calls, F, calls
from checkers.linearizability.porcupine import build, models, search
from checkers.linearizability.verdict import Decision, Violation
from tests.linearizability.porcupine import reference

LISTS = ((1,), (2,), (1, 2), (1, 1, 2))
WORDS = ("a", "bb", "ab", "abb", "aa", "bba", "")
TRANSACTIONS = (
    (("write", 0, 1), ("write", 1, 1)),
    (("write", 0, 2),),
    (("read", 0, 1), ("read", 1, 1)),
    (("read", 0, 2), ("write", 1, 2)),
    (("read", 1, NONE),),
    (("read", 0, 5),),
    (("read", 1, 2), ("read", 0, 2)),
)
PAIRS = {
    "register": (models.register(), reference.register()),
    "register from 1": (models.register(1), reference.register(1)),
    "cas-register": (models.cas_register(), reference.cas_register()),
    "cas-register from 2": (models.cas_register(2), reference.cas_register(2)),
    "multi-register": (models.multi_register(TRANSACTIONS, {0: 5}), reference.multi_register(TRANSACTIONS, {0: 5})),
    "key-value": (models.key_value(WORDS), reference.key_value(WORDS)),
    "mutex": (models.mutex(), reference.lock(1, False, False)),
    "reentrant-lock": (models.reentrant_lock(), reference.lock(0, True, False)),
    "reentrant-lock of 2": (models.reentrant_lock(2), reference.lock(2, True, False)),
    "reentrant-lock of 2, fenced": (models.reentrant_lock(2, fenced=True), reference.lock(2, True, True)),
    "fenced-lock": (models.fenced_lock(), reference.lock(1, True, True)),
    "fifo-queue": (models.fifo_queue(), reference.fifo_queue()),
    "bag": (models.bag(), reference.bag()),
    "set": (models.set_(), reference.set_()),
    "set, read whole": (models.set_(LISTS), reference.set_(LISTS)),
    "counter": (models.counter(), reference.counter()),
    "counter from 3": (models.counter(3), reference.counter(3)),
    "log": (models.log(), reference.log()),
    "subset-register": (models.subset_register(LISTS), reference.subset_register(LISTS)),
}


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("name", PAIRS)
def test_a_model_agrees_with_all_orders_tried(name: str) -> None:
    model, thing = PAIRS[name]
    draw = random.Random(name)
    verdicts: Counter[bool] = Counter()
    for number in range(400):
        history = reference.random_history(thing, draw, 1 + draw.randrange(8))
        expected = reference.linearizable(history, thing)
        found = search(history, model)
        assert found.valid is expected, (number, history, found)
        assert search(history, model, explain=False).valid is expected, (number, history)
        verdicts[expected] += 1
        if found.violation:
            check_prefix(history, thing, found)
    assert min(verdicts[True], verdicts[False]) >= 20, verdicts


def check_prefix(history: Calls, thing: reference.Object, found: Decision) -> None:
    """The longest prefix can be followed step by step; what is said to be stuck is not in it."""
    states = {thing.start}
    for row in found.longest:
        op = reference.op(history, row)
        after = {state for before in states for state in thing.step(before, op)}
        states = after | states if op.unknown else after
        assert states
    assert found.violation
    (stuck,) = found.violation.rows
    assert stuck not in found.longest
    assert history.ret[stuck] != NEVER


@pytest.mark.usefixtures("binary")
def test_a_decision_whole() -> None:
    history = calls([(F.PUT, 1, None, 0, 1), (F.PUT, 2, None, 2, 3), (F.TAKE, None, 2, 4, 5), (F.TAKE, None, 1, 6, 7)])
    sentence = "in no order can take -> 2 take effect: the longest takes 2 of 4 operations, and ends at [1 2]"
    assert search(history, "fifo-queue") == Decision(
        False, "porcupine", sentence, Violation("no-order", (2,), sentence), (0, 1)
    )
    assert search(history, "bag") == Decision(True, "porcupine", "Porcupine found an order of all 4 operations")
    bare = "no order explains these operations"
    assert search(history, "fifo-queue", explain=False) == Decision(
        False, "porcupine", bare, Violation("no-order", (), bare)
    )


@pytest.mark.usefixtures("binary")
def test_of_several_keys_that_fail_the_smallest_is_shown_and_rows_are_the_histories_own() -> None:
    wrong = [(F.READ, None, 9, 0, 1), (F.READ, None, 9, 2, 3), (F.READ, None, 9, 4, 5)]
    mute = (F.READ, None, None, 0, None)
    history = calls([mute, wrong[0], wrong[1], mute, wrong[2]], keys=[7, 7, 7, 7, 3])
    order = [int(place) for place in history.op]
    found = search(history, "register")
    assert found.violation
    assert [order[row] for row in found.violation.rows] == [4]


@pytest.mark.usefixtures("binary")
def test_nothing_is_linearizable() -> None:
    assert search(calls([]), "bag").valid is True


@pytest.mark.parametrize(
    ("rows", "model", "line"),
    [
        ([(F.PUT, 1, None, 0, 1)], "fifo", "no model 'fifo': did you mean 'fifo-queue'?"),
        (
            [(F.READ, None, 1, 0, 1), (F.PUT, 1, None, 2, 3)],
            "register",
            "op 1: the model register takes no put (it takes read, write)",
        ),
        ([(F.WRITE, 1, None, 4, 3)], "register", "op 0: this write returns before it is called"),
        (
            [(F.CAS, 1, None, 4, None)],
            "cas-register",
            "op 0: a cas needs its new value in `out`, also where it is unknown",
        ),
        (
            [(F.READ, None, 2, 0, 1)],
            models.key_value(["a", "b"]),
            "op 0: this read names none of the 2 entries of the model's table",
        ),
        (
            [(F.APPEND, None, None, 0, 1)],
            models.key_value(["a", "b"]),
            "op 0: this append names none of the 2 entries of the model's table",
        ),
    ],
)
def test_what_no_model_takes_is_one_line(
    rows: list[tuple[F, int | None, int | None, int, int | None]], model: str | models.Model, line: str
) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(line)}$"):
        search(calls(rows), model)


def test_both_sides_number_operations_alike() -> None:
    source = (build.SOURCES / "search" / "call.go").read_text()
    block = re.search(r"Read F = iota\n(.*?)\)", source, re.DOTALL)
    assert block
    names = ["Read", *block[1].split()]
    assert names == [f.name.title().replace("_", "") for f in F]


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("model", ["fifo-queue", "bag", "log", "counter"])
def test_long_histories_of_one_client(model: str) -> None:
    """Deep states: a queue of thousands, emptied; and the same with its last answer wrong."""
    n = 4000
    up: list[tuple[F, int | None, int | None]] = []
    if model == "log":
        up += [(F.APPEND, 100 + i, i) for i in range(n)]
        up += [(F.FETCH, i, 100 + i) for i in range(n)]
    elif model == "counter":
        up += [(F.ADD, 1, None) for _ in range(n)]
        up += [(F.READ, None, n) for _ in range(n)]
    else:
        up += [(F.PUT, i, None) for i in range(n)]
        up += [(F.TAKE, None, i) for i in range(n)]
    history = calls([(f, arg, out, 2 * i, 2 * i + 1) for i, (f, arg, out) in enumerate(up)])
    assert search(history, model).valid is True
    history.out[-1] = n + 7
    found = search(history, model)
    assert found.violation
    assert found.violation.rows == (2 * n - 1,)
    assert found.longest == tuple(np.arange(2 * n - 1))
