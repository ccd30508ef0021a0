"""Conditions in words, on a table that has a column of each type."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from chaos.model.errors import BadInput
from results.tables.where import expression

ROWS = pa.Table.from_pylist(
    [
        {"n": 1, "run": "a", "lost": True, "took": 200_000_000, "at": datetime(2026, 11, 20, tzinfo=UTC), "p50": 0.5},
        {"n": 2, "run": "b", "lost": False, "took": 300_000_000, "at": datetime(2026, 11, 21, 8, tzinfo=UTC)},
        {"n": 3, "run": None, "lost": None, "took": None, "at": None, "p50": 2e9},
    ],
    schema=pa.schema(
        [
            ("n", pa.int32()), ("run", pa.string()), ("lost", pa.bool_()), ("took", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")), ("p50", pa.float64()), ("counts", pa.map_(pa.string(), pa.int64())),
        ]
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        ((), [1, 2, 3]),
        (("lost=true",), [1]),
        ((" lost = false ",), [2]),
        (("lost!=true",), [2]),
        (("lost=null",), [3]),
        (("lost!=null",), [1, 2]),
        (("took>250ms",), [2]),
        (("took<=200000000",), [1]),
        (("took>=2e8", "took<0.3s"), [1]),
        (("p50<1",), [1]),
        (("p50>=1s",), [3]),
        (("run=a",), [1]),
        (("run>a",), [2]),
        (("run=",), []),
        (("at>=2026-11-21",), [2]),
        (("at<2026-11-21T08:00", "at!=null"), [1]),
        (("at=2026-11-21T10:00+02:00",), [2]),
        (("counts=null",), [1, 2, 3]),
        (("n=-1",), []),
    ],
)  # fmt: skip
def test_which_rows_are_meant(conditions: tuple[str, ...], rows: list[int]) -> None:
    found = expression(ROWS.schema, conditions)
    assert (ROWS if found is None else ROWS.filter(found)).column("n").to_pylist() == rows


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("lost", "'lost' is no condition: write a column, one of = != < <= > >=, and a value, as in lost=true"),
        ("", "'' is no condition"),
        ("lots=true", "there is no column 'lots'; did you mean 'lost'?"),
        ("lost=yes", "'lost=yes': 'yes' is neither true nor false"),
        ("took=fast", "'took=fast': 'fast' is not a duration"),
        ("took=1.5", "'took=1.5': '1.5' is not a whole number"),
        ("n=99999999999", "'n=99999999999': "),
        ("at=noon", "'at=noon': 'noon' is no date or time: write it as 2026-11-21 or 2026-11-21T08:30"),
        ("took<null", "'took<null': null is neither less nor more: write took=null or took!=null"),
        ("counts=1", "'counts=1': a column of map<string, int64> can only be asked for null"),
    ],
)
def test_what_is_no_condition(condition: str, problem: str) -> None:
    with pytest.raises(BadInput) as error:
        expression(ROWS.schema, [condition])
    assert str(error.value).startswith(problem)
    assert "\n" not in str(error.value)
