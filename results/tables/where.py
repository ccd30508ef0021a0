"""Which rows of a table are meant, in words: `lost=true`, `latency>250ms`, `checker!=order`, `recovery=null`.

A condition is a column, one of = != < <= > >=, and a value. What a value may be follows the column: text as it stands;
true or false; a number, or a length of time with its unit, which is ns; a date or time in UTC (2026-11-21, or
2026-11-21T08:30). `null` with = and != asks whether there is any value. Of a value that is not there no other condition
holds, != neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.settings import parse_duration

_CONDITION = re.compile(r"\s*(\w+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NULL = "null"


def expression(schema: pa.Schema, conditions: Iterable[str]) -> pc.Expression | None:
    """All of the conditions at once; None where there are none.

    Raises BadInput for one that is none, of a column that there is not, or with a value that its column cannot have.
    """
    together: pc.Expression | None = None
    for text in conditions:
        one = _condition(schema, text)
        together = one if together is None else together & one
    return together


def column(schema: pa.Schema, name: str) -> pa.Field:
    """A column of a table. Raises BadInput where there is none of that name."""
    if name not in schema.names:
        raise BadInput(f"there is no column {name!r}; {did_you_mean(name, schema.names)}")
    return schema.field(name)


def _condition(schema: pa.Schema, text: str) -> pc.Expression:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise BadInput(f"{text!r} is no condition: write a column, one of = != < <= > >=, and a value, as in lost=true")
    name, sign, said = match.groups()
    type_ = column(schema, name).type
    there = pc.field(name)
    if said == NULL:
        if sign not in ("=", "!="):
            raise BadInput(f"{text!r}: null is neither less nor more: write {name}=null or {name}!=null")
        return there.is_null() if sign == "=" else there.is_valid()
    try:
        value = pa.scalar(_value(type_, said), type_)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise BadInput(f"{text!r}: {error}") from None
    return {
        "=": there == value, "!=": there != value, "<": there < value,
        "<=": there <= value, ">": there > value, ">=": there >= value,
    }[sign]  # fmt: skip


def _value(type_: pa.DataType, said: str) -> object:
    """Raises ValueError, saying what is wrong."""
    if pa.types.is_string(type_):
        return said
    if pa.types.is_boolean(type_):
        if said not in ("true", "false"):
            raise ValueError(f"{said!r} is neither true nor false")
        return said == "true"
    if pa.types.is_timestamp(type_):
        try:
            moment = datetime.fromisoformat(said)
        except ValueError:
            raise ValueError(f"{said!r} is no date or time: write it as 2026-11-21 or 2026-11-21T08:30") from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        number = float(said) if _NUMBER.fullmatch(said) else None
        if pa.types.is_floating(type_):
            return parse_duration(said) if number is None else number
        return int(said) if re.fullmatch(r"[+-]?\d+", said) else _whole(said, number)
    raise ValueError(f"a column of {type_} can only be asked for null")


def _whole(said: str, number: float | None) -> int:
    if number is None:
        return parse_duration(said)
    if number != int(number):
        raise ValueError(f"{said!r} is not a whole number")
    return int(number)
