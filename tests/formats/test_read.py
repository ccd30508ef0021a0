"""Files of others, as they are written, and what becomes of their ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos import formats
from chaos.model.errors import BadHistory, BadInput
from chaos.model.history import NONE


def read(tmp_path: Path, name: str, text: str | bytes, format_: str | None = None) -> list[tuple[Any, ...]]:
    """(index, process, type, f, key, value, op) of each op; `value` out of the detail where it is no number."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    history = formats.load(path, format_)
    return [
        (
            op.index, op.process, str(op.type), op.f, op.key,
            op.value if op.value is not None else (op.detail or {}).get("value"), op.op,
        )
        for op in history
    ]  # fmt: skip


JEPSEN = """\
{:process 0, :type :invoke, :f :cas, :value [1 2], :time 10, :index 0}
{:process 1, :type :invoke, :f :read, :value nil, :time 11, :index 1}
{:process 0, :type :fail, :f :cas, :value [1 2], :time 12, :index 2}
{:process :nemesis, :type :info, :f :start-partition, :value :majority, :time 13, :index 3}
{:process 1, :type :ok, :f :read, :value 3, :time 14, :index 4}
"""
SAID = [
    (0, 0, "invoke", "cas", None, [1, 2], None),
    (1, 1, "invoke", "read", None, None, None),
    (2, 0, "fail", "cas", None, [1, 2], 0),
    (3, -1, "info", "start-partition", None, "majority", None),
    (4, 1, "ok", "read", None, 3, 1),
]


def test_jepsens_edn(tmp_path: Path) -> None:
    assert read(tmp_path, "history.edn", JEPSEN) == SAID


def test_a_vector_of_maps_over_several_lines(tmp_path: Path) -> None:
    assert read(tmp_path, "history.edn", f"[{JEPSEN}]") == SAID
    assert read(tmp_path, "history.edn", "[" + JEPSEN.replace(", :f", ",\n :f") + "]") == SAID


def test_json_lines(tmp_path: Path) -> None:
    text = """\
{"process": 0, "type": "invoke", "f": "cas", "value": [1, 2]}
{"process": 1, "type": "invoke", "f": "read", "value": null}
{"process": 0, "type": "fail", "f": "cas", "value": [1, 2]}
{"process": "nemesis", "type": "info", "f": "start-partition", "value": "majority"}
{"process": 1, "type": "ok", "f": "read", "value": 3}
"""
    assert read(tmp_path, "history.jsonl", text) == SAID


def test_independent_keys(tmp_path: Path) -> None:
    text = """\
{:process 0, :type :invoke, :f :write, :value [7 1]}
{:process 1, :type :invoke, :f :cas, :value ["k" [1 2]]}
{:process 0, :type :ok, :f :write, :value [7 1]}
{:process 1, :type :ok, :f :cas, :value ["k" [1 2]]}
"""
    assert read(tmp_path, "history.edn", text) == [
        (0, 0, "invoke", "write", "7", 1, None),
        (1, 1, "invoke", "cas", "k", [1, 2], None),
        (2, 0, "ok", "write", "7", 1, 0),
        (3, 1, "ok", "cas", "k", [1, 2], 1),
    ]


def test_logs(tmp_path: Path) -> None:
    text = """\
INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:write\t3
INFO  jepsen.util - 0\t:ok\t:write\t3
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:info\t:read\t:timed-out
"""
    assert read(tmp_path, "etcd.log", text) == [
        (0, 0, "invoke", "write", None, 3, None),
        (1, 0, "ok", "write", None, 3, 0),
        (2, 1, "invoke", "read", None, None, None),
        (3, 1, "info", "read", None, None, 2),
    ]


def test_a_line_of_csv_is_an_operation_where_it_says_when_it_ended(tmp_path: Path) -> None:
    text = "process;f;value;start;end\n0;write;1;0;10\n1;write;2;5;\n2;read;1;10;20\n"
    assert read(tmp_path, "mine.csv", text) == [
        (0, 0, "invoke", "write", None, 1, None),
        (1, 1, "invoke", "write", None, 2, None),
        (2, 2, "invoke", "read", None, 1, None),
        (3, 0, "ok", "write", None, 1, 0),
        (4, 2, "ok", "read", None, 1, 2),
    ]


def test_a_format_may_be_named(tmp_path: Path) -> None:
    assert read(tmp_path, "history", JEPSEN, "edn") == SAID


def test_whole_numbers_beyond_64_bits_and_other_values_are_kept_as_they_are(tmp_path: Path) -> None:
    text = '{"process": 0, "type": "invoke", "f": "write", "value": 123456789012345678901234567890}\n'
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    history = formats.load(path)
    assert history.value.tolist() == [NONE]
    assert history.detail(0) == {"value": 123456789012345678901234567890}


INVOKED = '{"process": 0, "type": "invoke", "f": "read", "index": 0, "time": 5}\n'


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("h.jsonl", INVOKED + '{"process": 1, "type": "ok", "f": "read", "index": 1, "time": 6}\n', "line 2: op 1: "),
        (
            "h.jsonl",
            INVOKED + '{"process": 0, "type": "ok", "f": "read", "index": 1, "time": 6}\n'
            '{"process": 0, "type": "ok", "f": "read", "index": 2, "time": 7}\n',
            "line 3: op 2: ",
        ),
        ("h.jsonl", INVOKED + '{"process": 1, "type": "invoke", "f": "read", "index": 1, "time": 4}\n'
         '{"process": 1, "type": "ok", "f": "read", "index": 2, "time": 3}\n', "line 3: op 2: "),
        ("h.jsonl", INVOKED + INVOKED, "line 2: op 0: "),
        ("h.jsonl", INVOKED + "{", "line 2: "),
        ("h.jsonl", '{"process": 0, "type": "done", "f": "read"}\n', "line 1: type \"done\": "),
        ("h.jsonl", '{"process": 0, "type": "ok"}\n', "line 1: it has no f"),
        ("h.jsonl", "[1]\n", "line 1: "),
        ("h.edn", JEPSEN + "{:process 0, :type", "line 6: not EDN: "),
        ("h.edn", "[" + JEPSEN, "the file is cut off: the bracket of line 1"),
        ("h.edn", JEPSEN + "}", "line 6: "),
        ("h.edn", b"\x00\x01\xff\xfe" * 50, "line 1: "),
        ("h.csv", "process,f,value,start,end\n0,read,1,10,5\n", "line 2: column 'end': 5 is before its start, 10"),
        ("h.csv", "process,f,value\n0,read,1\n", "line 1: there is no column 'type'"),
        ("h.csv", "", "line 1: there is no line with the names of the columns"),
        ("h.log", "nothing of the kind\n", "no line holds an op"),
        ("h.parquet", b"PAR1", "not a"),
    ],
)  # fmt: skip
def test_what_breaks_the_rules_is_refused_in_a_line_that_says_where(
    tmp_path: Path, name: str, text: str | bytes, problem: str
) -> None:
    with pytest.raises(BadHistory) as refused:
        read(tmp_path, name, text)
    said = str(refused.value)
    assert said.startswith(str(tmp_path / name))
    assert problem in said, said
    assert "\n" not in said


def test_a_format_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"format 'json': did you mean 'jsonl'\?"):
        formats.load(tmp_path / "x", "json")
    with pytest.raises(BadInput, match=r"what format is it\? Its name ends in none of"):
        formats.load(tmp_path / "x.xyz")
    with pytest.raises(BadHistory, match="cannot be read: No such file or directory"):
        formats.load(tmp_path / "x.edn")
    with pytest.raises(BadHistory, match="cannot be read: Is a directory"):
        formats.load(tmp_path, "edn")
