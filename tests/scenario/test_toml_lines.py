"""The scanner of TOML: on which line each key stands."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.scenario_text import write_toml
from chaos.toml_lines import lines_of, parent


def test_tables_and_arrays_of_tables() -> None:
    text = """\
schema = 1 # [not] = "a table"

[cluster]
broker = "a@1"
settings = { net_ticktime = "15s", deep = { er = 1 } }

[[nemesis]]
name = "partition"
kinds = [
  "halves",  # "leader"]
  "leader",
]
[[nemesis]]
every = "5s"
[nemesis.args]
x = 1
[checkers.availability]
recovery = "20s"
"""
    assert lines_of(text) == {
        "schema": 1,
        "cluster": 3,
        "cluster.broker": 4,
        "cluster.settings": 5,
        "cluster.settings.net_ticktime": 5,
        "cluster.settings.deep": 5,
        "cluster.settings.deep.er": 5,
        "nemesis": 7,
        "nemesis[0]": 7,
        "nemesis[0].name": 8,
        "nemesis[0].kinds": 9,
        "nemesis[0].kinds[0]": 10,
        "nemesis[0].kinds[1]": 11,
        "nemesis[1]": 13,
        "nemesis[1].every": 14,
        "nemesis[1].args": 15,
        "nemesis[1].args.x": 16,
        "checkers": 17,
        "checkers.availability": 17,
        "checkers.availability.recovery": 18,
    }


def test_dotted_and_quoted_keys() -> None:
    text = """\
a . b."c d" = 1
'e.f' = 2
"t\\u0061b" = 3
[x."y]z" . w]
k = 1979-05-27T07:32:00Z
"""
    assert lines_of(text) == {
        "a": 1,
        "a.b": 1,
        "a.b.c d": 1,
        "e.f": 2,
        "tab": 3,
        "x": 4,
        "x.y]z": 4,
        "x.y]z.w": 4,
        "x.y]z.w.k": 5,
    }


@pytest.mark.parametrize(
    "value",
    [
        '"""\n[no] = "" \\"""\nno = 1"""',
        "'''\n[no]\n''no = '''",
        '"""a""\n\n"""""',
        "''''\n\n'''''",
        '[\n# no = "\n"]",\n]',
        '"# [no] \\" = {"',
        "'\\'\n",
        "[ [1,\n2], { x = [\n1] } ]\n",
        "{}\n\n",
        "[]\n\n",
        '""\n\n',
        "-1.5e3 # c\n\n",
    ],
)
def test_what_stands_in_values_is_no_key(value: str) -> None:
    text = f"before = {value}\nafter = 1\n"
    found = lines_of(text)
    assert found["after"] == text.count("\n")
    assert "no" not in found
    assert (
        {key for key in found if "." not in key and "[" not in key} == set(tomllib.loads(text)) == {"before", "after"}
    )


def test_lines_end_as_windows_ends_them() -> None:
    assert lines_of('a = "1"\r\n[b]\r\nc = 2\r\n') == {"a": 1, "b": 2, "b.c": 3}


def test_parents() -> None:
    keys = ["nemesis[0].kinds[1]"]
    while keys[-1]:
        keys.append(parent(keys[-1]))
    assert keys == ["nemesis[0].kinds[1]", "nemesis[0].kinds", "nemesis[0]", "nemesis", ""]


keys = st.text("ab.] \"'#=\\\n", min_size=1, max_size=3)
scalars = st.one_of(
    st.integers(-5, 5), st.booleans(), st.floats(allow_nan=False), st.text("a\"'\n\\#[]{}=,\x7fé", max_size=6)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


def _paths(value: Any, path: str) -> set[str]:
    found = {path} if path else set()
    if isinstance(value, dict):
        return found.union(*(_paths(inner, f"{path}.{key}" if path else key) for key, inner in value.items()))
    if isinstance(value, list):
        return found.union(*(_paths(inner, f"{path}[{number}]") for number, inner in enumerate(value)))
    return found


@given(st.dictionaries(keys, values, max_size=4))
def test_what_is_written_is_read_back_and_every_key_is_found(data: dict[str, Any]) -> None:
    text = write_toml(data)
    assert tomllib.loads(text) == data
    assert _paths(data, "") <= lines_of(text).keys() | {""}
