"""What the checker of logs computes cleverly, against the definitions."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model.op import FAIL, INFO, OK
from checkers.logs import visibility
from checkers.logs.cycles import components, cycles, realtime
from checkers.logs.lag import Lag, lags
from checkers.logs.transactions import Transaction, transactions
from checkers.logs.versions import committed, orders, polled
from tests.checkers.histories import Story

KEYS = ("x", "y")
OUTCOMES = st.sampled_from([OK, OK, OK, INFO, FAIL])
SENDS = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 4)), min_size=1, max_size=2)
POLLS = st.dictionaries(st.sampled_from(KEYS), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7)), max_size=2))


@st.composite
def done(draw: st.DrawFn) -> list[Transaction]:
    """What up to four processes did that overlap; every value is sent once, and any may be polled anywhere."""
    story = Story()
    busy: dict[int, tuple[int, list[Any]]] = {}
    value = 0
    for _ in range(draw(st.integers(0, 24))):
        process = draw(st.integers(0, 3))
        if process in busy:
            op, answer = busy.pop(process)
            story.answer(op, answer, draw(OUTCOMES))
            continue
        f = draw(st.sampled_from(["send", "poll", "poll", "txn", "assign", "subscribe"]))
        if f in ("assign", "subscribe"):
            keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
            busy[process] = story.ask(process, f, keys), keys
            continue
        asked: list[Any] = []
        answer = []
        for key, offset in draw(SENDS) if f != "poll" else ():
            asked.append(["send", key, value])
            answer.append(["send", key, value if offset is None else [offset, value]])
            value += 1
        if f != "send":
            asked.append(["poll"])
            answer.append(["poll", {key: [list(pair) for pair in pairs] for key, pairs in draw(POLLS).items()}])
        busy[process] = story.ask(process, f, asked), answer
    return transactions(story.history())


@settings(max_examples=200, deadline=None)
@given(done())
def test_lost_is_what_must_have_been_polled(found: list[Transaction]) -> None:
    seen, sent = polled(found), visibility.writers(found)
    order = orders(found, seen)
    lost = []
    for key in seen:
        places = [(index, value) for index, there in enumerate(order[key].log.values()) for value in there]
        first = {value: min(index for index, other in places if other == value) for _, value in places}
        for value, writer in sent.get(key, {}).items():
            if value in seen[key] or value not in first or not committed(writer, seen):
                continue
            if all(any(first[other] >= index for other in seen[key]) for index, at in places if at == value):
                lost.append((key, value))
    told = [(anomaly.detail["key"], anomaly.detail["value"]) for anomaly in visibility.lost(found, order, seen, sent)]
    assert sorted(told) == sorted(lost)


@settings(max_examples=200, deadline=None)
@given(done())
def test_unseen_is_what_was_acknowledged_and_not_polled(found: list[Transaction]) -> None:
    ok = [one for one in found if one.ok and not one.assigns]
    expected = []
    for end in range(len(ok)):
        sizes = {}
        for key in {key: None for one in ok[: end + 1] for key in one.sends}:
            acked = {value for one in ok[: end + 1] for _, value in one.sends.get(key, [])}
            sizes[key] = len(acked - {value for one in ok[: end + 1] for _, value in one.polls.get(key, [])})
        expected.append((ok[end].time, sizes))
    assert [(time, sizes) for time, sizes, _ in visibility.unseen(found)] == expected


def jepsens_lags(found: list[Transaction]) -> list[Lag]:
    """With a time for each offset of each log, as `jepsen.tests.kafka/realtime-lag` keeps them."""
    expired: dict[str, dict[int, int]] = {}
    for one in found:
        for pairs in (one.sends, one.polls) if one.type is not FAIL else ():
            for key, some in pairs.items():
                for offset in range(max([-1, *(offset for offset, _ in some if offset is not None)]) + 1):
                    expired.setdefault(key, {}).setdefault(offset, one.time)
    at: dict[int, dict[str, int]] = {}
    told = []
    for one in found:
        mine = at.setdefault(one.process, {})
        if one.ok and one.f == "assign":
            at[one.process] = {key: mine.get(key, -1) for key in one.keys}
        elif one.ok and one.f == "subscribe":
            at[one.process] = {}
        elif one.ok and one.f != "send":
            for key, some in one.polls.items():
                mine[key] = max([mine.get(key, -1), *(offset for offset, _ in some if offset is not None)])
            for key, offset in mine.items():
                since = expired.get(key, {}).get(offset + 1, one.begun)
                told.append(Lag(one.begun, one.process, key, max(0, one.begun - since)))
    return told


@settings(max_examples=200, deadline=None)
@given(done())
def test_lags_are_jepsens(found: list[Transaction]) -> None:
    assert list(lags(found)) == jepsens_lags(found)


def reached(graph: list[dict[int, None]]) -> dict[tuple[int, int], None]:
    """All pairs with a path of at least one edge from one to the other."""
    pairs = {(node, other): None for node, others in enumerate(graph) for other in others}
    for middle, node, other in product(range(len(graph)), repeat=3):
        if (node, middle) in pairs and (middle, other) in pairs:
            pairs[node, other] = None
    return pairs


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 5), st.none(), max_size=2), min_size=6, max_size=6))
def test_components_reach_each_other(graph: list[dict[int, None]]) -> None:
    pairs = reached(graph)
    expected = []
    for node in range(len(graph)):
        mutual = [other for other in range(len(graph)) if (node, other) in pairs and (other, node) in pairs]
        if len(mutual) > 1 and mutual[0] == node:
            expected.append(mutual)
    assert sorted(components(graph, range(len(graph)))) == expected


@settings(max_examples=200, deadline=None)
@given(done())
def test_real_time_is_what_ended_before_what_began(found: list[Transaction]) -> None:
    pairs = reached(realtime(found))
    for first, one in enumerate(found):
        for second, other in enumerate(found):
            assert ((first, second) in pairs) == (one.ok and one.row < other.asked)


@settings(max_examples=300, deadline=None)
@given(done(), st.booleans())
def test_cycles_are_cycles_and_none_is_missed(found: list[Transaction], ww_deps: bool) -> None:
    seen, sent = polled(found), visibility.writers(found)
    order = orders(found, seen)
    nodes = [one for one in found if not one.assigns]

    def depends(one: Transaction, other: Transaction) -> dict[str, None]:
        """How the other depends on the one."""
        kinds: dict[str, None] = {}
        for key in KEYS:
            own = [value for value, writer in sent.get(key, {}).items() if writer is one]
            if any(value in own for _, value in other.polls.get(key, [])):
                kinds["wr"] = None
            by_index = order[key].by_index if key in order else []
            for _, value in other.sends.get(key, []) if ww_deps and key in order else ():
                index = order[key].by_value.get(value, 0)
                if index and by_index[index - 1] in own:
                    kinds["ww"] = None
        if one.ok and one.row < other.asked:
            kinds["realtime"] = None
        return kinds if one is not other else {}

    edges = {(one.index, other.index): depends(one, other) for one, other in product(nodes, repeat=2)}
    told = cycles(found, order, sent, ww_deps)
    place = {one.index: at for at, one in enumerate(nodes)}  # what is unknown stands behind what is known
    for anomaly in told:
        round_, steps = anomaly.detail["cycle"], anomaly.detail["steps"]
        assert round_[0] == round_[-1] == max(round_, key=place.__getitem__)
        assert len(set(round_)) == len(round_) - 1 == len(steps)
        for step, pair in zip(steps, pairwise(round_), strict=True):
            assert step["type"] in edges[pair]
        types = {step["type"] for step in steps}
        assert ("realtime" in types) == anomaly.kind.endswith("-realtime")
        assert ("G1c" in anomaly.kind) or "wr" not in types
    graph: list[dict[int, None]] = [
        {second: None for second, other in enumerate(nodes) if edges[one.index, other.index]} for one in nodes
    ]
    pairs = reached(graph)
    assert bool(told) == any((at, at) in pairs for at in range(len(nodes)))
