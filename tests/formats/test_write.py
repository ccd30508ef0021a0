"""What is written reads back the same, op by op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos import formats
from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op

VALUES = st.one_of(
    st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.lists(st.integers(0, 9), max_size=3), st.booleans(),
    st.text(st.characters(codec="ascii", min_codepoint=32), min_size=1), st.integers(2**63, 2**70),
    st.sampled_from(["null", "nil", "true", "false", "a word ", '"quoted"', ""]),
)  # fmt: skip
NAMES = st.sampled_from(["read", "write", "cas", "enqueue", "start-partition"])


@st.composite
def histories(draw: st.DrawFn) -> History:
    ops: list[Op] = []
    open_: dict[int, Op] = {}
    keyed = draw(st.booleans())
    pipelined = draw(st.booleans())
    for index in range(draw(st.integers(0, 12))):
        process = draw(st.integers(0, 2))
        value: Any = draw(VALUES)
        whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) < value < 2**63
        more: dict[str, Any] = {
            "value": value if whole else None,
            "detail": None if whole or value is None else {"value": value},
            "error": draw(st.sampled_from([None, "timed-out", "no, really: 5%", "null", "nil", ' said "no" ', '"no"'])),
        }
        at: dict[str, Any] = {"index": index, "time": index * 7}
        begun = next((op for op in open_.values() if op.process == process), None)
        if begun is not None and (not pipelined or draw(st.booleans())):
            del open_[begun.index]
            type_ = draw(st.sampled_from([OK, FAIL, INFO]))
            op = Op(**at, process=process, type=type_, f=begun.f, key=begun.key, op=begun.index, **more)
        elif draw(st.integers(0, 9)) == 0:
            op = Op(**at, process=NEMESIS, type=INFO, f="start-partition", **more)
        else:
            key = draw(st.sampled_from(["k", "7", "nil", "true"])) if keyed else None
            op = Op(**at, process=process, type=INVOKE, f=draw(NAMES), key=key, **more)
            open_[index] = op
        ops.append(op)
    return History.from_ops(ops)


@pytest.mark.parametrize("format_", ["edn", "jsonl", "csv", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(history=histories())
def test_what_is_written_reads_back(tmp_path: Path, format_: str, history: History) -> None:
    path = tmp_path / f"history.{format_}"
    formats.save(history, path)
    assert list(formats.load(path)) == list(history)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    history = History.from_ops([])
    with pytest.raises(BadInput, match="format log is only read"):
        formats.save(history, tmp_path / "x.log")
    with pytest.raises(BadInput, match="only parquet can say that the history is not whole"):
        formats.save(History.from_ops([], "it ends early"), tmp_path / "x.edn")
    assert list(tmp_path.iterdir()) == []


def test_a_rebalance_log_is_a_field_of_its_own_for_jepsen(tmp_path: Path) -> None:
    moved = [{"keys": ["x"]}]
    said = [["poll", {"x": [[0, 1]]}]]
    ops = [
        Op(index=0, time=0, process=0, type=INVOKE, f="poll", detail={"value": [["poll"]]}),
        Op(index=1, time=1, process=0, type=OK, f="poll", detail={"value": said, "rebalance-log": moved}, op=0),
    ]
    history = History.from_ops(ops)
    for format_ in ("edn", "jsonl", "csv"):
        path = tmp_path / f"history.{format_}"
        formats.save(history, path)
        assert list(formats.load(path)) == ops, format_
    assert (tmp_path / "history.edn").read_text().splitlines()[1] == (
        '{:process 0, :type :ok, :f :poll, :value [[:poll {"x" [[0 1]]}]], :time 1, :index 1, '
        ':rebalance-log [{"keys" ["x"]}]}'
    )
