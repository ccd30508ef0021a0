"""Suites as TOML: what a row is resolved to, and every mistake in one line with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import suite
from chaos.cli.claims import file
from chaos.controller import refuse
from chaos.expectation import Expectation
from chaos.model.errors import BadInput
from chaos.model.verdict import Verdict

HEAD = """schema = 1
name = "mine"
seeds = 4
[base.q]
cluster = { broker = "rabbitmq-quorum" }
workload = { name = "queue", time = "20s" }
"""


def load(tmp_path: Path, text: str, seeds: int | None = None) -> suite.Suite:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + text)
    return suite.load(path, seeds)


def test_rows_cases_and_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(
        'schema = 1\ncluster = { broker = "lavinmq" }\nworkload = { name = "queue" }\n'
    )
    loaded = load(
        tmp_path,
        """[[scenario]]
        name = "plain"
        base = "q"
        [[scenario]]
        name = "matrix"
        file = "other.toml"
        seeds = { from = 7, count = 2 }
        matrix = { "cluster.nodes" = [3, 5], "workload.rate" = [10, 20] }
        set.cluster.settings.lease_ttl = "4s"
        claim = "It loses."
        said_by = "the source"
        expect = { valid = false, anomaly = ["messages.lost", "leaders.two-leaders"], at_least = "50%" }
        [[scenario]]
        name = "compared"
        base = "q"
        versus = { cluster = { nodes = 5 } }
        expect = { measure = "availability.longest_gap", ratio = [0.5, 1] }
        """,
    )
    plain, matrix, compared = loaded.rows
    assert (loaded.name, [row.name for row in loaded.rows]) == ("mine", ["plain", "matrix", "compared"])
    assert (plain.seeds, plain.expect, len(plain.cases)) == (range(1, 5), Expectation(Verdict.VALID), 1)
    assert plain.place == f"{tmp_path / 'mine.toml'}:7"
    assert (matrix.seeds, matrix.claim, matrix.said_by) == (range(7, 9), "It loses.", "the source")
    assert [case.label for case in matrix.cases] == [
        "cluster.nodes=3, workload.rate=10", "cluster.nodes=3, workload.rate=20",
        "cluster.nodes=5, workload.rate=10", "cluster.nodes=5, workload.rate=20",
    ]  # fmt: skip
    last = matrix.cases[-1].scenario
    assert (last.cluster.broker, last.cluster.nodes, last.workload.options["rate"]) == ("lavinmq", 5, 20.0)
    assert last.cluster.settings["lease_ttl"] == 4_000_000_000
    assert matrix.expect == Expectation(Verdict.INVALID, ("messages.lost", "leaders.two-leaders"), 0.5)
    (case,) = compared.cases
    assert case.versus is not None
    assert (case.scenario.cluster.nodes, case.versus.cluster.nodes) == (3, 5)
    assert compared.expect == Expectation(measure="availability.longest_gap", ratio=(0.5, 1.0))


def test_fewer_rows_and_other_seeds(tmp_path: Path) -> None:
    loaded = load(tmp_path, "".join(f'[[scenario]]\nname = "{name}"\nbase = "q"\n' for name in ("ab", "ac", "b")), 2)
    assert [row.seeds for row in loaded.rows] == [range(1, 3)] * 3
    assert [row.name for row in loaded.only(("a",)).rows] == ["ab", "ac"]
    assert loaded.only(()) == loaded
    with pytest.raises(BadInput, match="no 'ax' among the rows; known: ab, ac, b"):
        loaded.only(("b", "ax"))


ROW = '[[scenario]]\nname = "r"\nbase = "q"\n'


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "scenario: each scenario of a suite is a table of its own; write [[scenario]]"),
        (ROW + ROW, 11, "scenario[1].name: two are called 'r'"),
        (ROW + "sed = 3", 10, "scenario[0].sed: unknown key 'sed'; did you mean 'seeds'?"),
        (ROW + "seeds = { count = 0 }", 10, "scenario[0].seeds: 0 is out of range: at least 1, at most 1000000: write"),
        (ROW + 'file = "x.toml"', 7, "scenario[0]: which scenario? write file"),
        ('[[scenario]]\nname = "r"\nbase = "p"', 9, "scenario[0].base: there is no [base.p]; known: q"),
        ('[[scenario]]\nname = "r"\nfile = "no.toml"', 9, "no.toml: cannot be read: No such file or directory"),
        (ROW + "set.workload.rat = 5", 7, "workload.rat: unknown setting 'rat'; did you mean 'rate'?"),
        (ROW + 'set.cluster.broker = "acme"', 7, "cluster.broker: no 'acme' among the brokers"),
        (ROW + "matrix = { seed = 3 }", 10, "scenario[0].matrix: seed: 3 is not a list of values"),
        (ROW + 'claim = "never"', 7, "scenario[0]: a claim without a quantifier: write `expect = { valid = true,"),
        (ROW + "expect = { valid = true }", 10, "scenario[0].expect: of how many seeds is it meant? write at_least ="),
        (ROW + "expect = { valid = true, at_least = 9 }", 10, "at least 9 of 4 seeds can never be"),
        (ROW + 'expect = { valid = true, at_least = "120%" }', 10, "'120%' is neither \"all\", nor a share"),
        (ROW + 'expect = { valid = 1.5, at_least = "all" }', 10, "1.5 is neither true nor false nor"),
        (ROW + 'expect = { valid = false, at_least = "all" }', 10, "why is it to be invalid? write anomaly ="),
        (ROW + 'expect = { anomaly = "messages.lost", at_least = "all" }', 10, "it says nothing: write"),
        (ROW + 'expect = { valid = true, anomaly = "messages.lost", at_least = 1 }', 10, "an anomaly makes a run"),
        (ROW + 'expect = { valid = false, anomaly = "lost", at_least = 1 }', 10, "'lost' is not checker.kind, such as"),
        (ROW + 'expect = { valid = false, anomaly = "mesages.lost", at_least = 1 }', 10, "'mesages' does not judge"),
        (ROW + 'expect = { measure = "leaders.changes", at_least = 1 }', 10, "`measure` and one of `between`"),
        (ROW + 'expect = { measure = "x", between = [1, 2], at_least = 1 }', 10, "'x' is not a number of a checker"),
        (ROW + 'expect = { measure = "leaders.changes", between = [2, 1], at_least = 1 }', 10, "the first is above"),
        (ROW + 'expect = { measure = "leaders.changes", ratio = [1, 2] }', 10, "`ratio` compares with what `versus`"),
        (ROW + "versus.cluster.nodes = 5", 10, "nothing is compared: write"),
        (ROW + 'expect = { vald = true }', 10, "scenario[0].expect.vald: unknown key 'vald'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, text)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'mine.toml'}:{line}: ")
    assert problem in said
    assert "\n" not in said


def test_every_claim_is_quoted_and_quantified() -> None:
    claims = suite.load(file())
    for row in claims.rows:
        assert row.claim, row.name
        assert row.said_by, row.name
        assert row.name.partition("-")[0] in ("quorum", "mirrored", "leased", "scouting")
    assert len(claims.rows) >= 40


SUITES = sorted((Path(__file__).parents[2] / "suites").glob("*.toml"))


WHOLE = [path for path in SUITES if "[[scenario]]" in path.read_text()]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_every_suite_that_is_here_can_be_run(path: Path) -> None:
    for row in suite.load(path).rows:
        for case in row.cases:
            refuse(case.scenario)


def test_the_nightly_suite_has_the_fourteen_configurations_of_the_makers() -> None:
    nightly = suite.load(Path(__file__).parents[2] / "suites" / "rabbitmq-nightly.toml").only(("jepsen",))
    cases = [case.scenario for row in nightly.rows for case in row.cases]
    assert len(cases) == 14
    assert {(one.cluster.nodes, one.workload.time_ns // 10**9, one.workload.options["timeout"]) for one in cases} == {
        (5, 180, 5 * 10**9)
    }
    told = [
        (one.nemeses[0].options["kinds"][0], one.nemeses[0].options["for"] // 10**9, one.workload.options["consume"])
        for one in cases
    ]
    kinds = ("halves", "fixed-halves", "majorities-ring", "one")
    assert told[:8] == [(kind, seconds, "mixed") for seconds in (30, 10) for kind in kinds]
    assert told[8:10] == [("one", 10, "asynchronous"), ("one", 10, "polling")]
    assert [one.workload.options["dead_letters"] for one in cases[12:]] == [True, True]
