"""`splitbrain prove`: what it prints, its exit codes, and what it refuses in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.cli import main
from chaos.cli.display import LiveLine
from chaos.search.prove.protocols import PROTOCOLS
from tests.docs.pages import DOCS, section

EXHAUSTED = """\
✓ VALID  blazingmq  one leader a term: in every state within the bounds
  nodes    3
  bounds   terms=2 scoutings=1 heartbeats=0 disconnects=0 ledger=0 restarts=0 losses=0 duplications=0 in-flight=0 \
slow-disk=0
  states   28,906, 5,826 of them distinct
  depth    26 steps
  covered  105 states of a node; leaders of 2 terms
  rate     N distinct states a second, N s
"""
VIOLATED = """\
✗ INVALID  blazingmq  two-leaders: term 1 has a second leader, n1
  nodes     3
  bounds    terms=1 scoutings=1 heartbeats=0 disconnects=0 ledger=0 restarts=0 losses=0 duplications=0 in-flight=2 \
slow-disk=0
  mutation  vote-twice
  states    6,113, 1,764 of them distinct
  depth     10 steps
  covered   60 states of a node; leaders of 1 term
  rate      N distinct states a second, N s

  the shortest way there, 10 steps:
    1  n1  scouts                                                  → would you?, term 1 to n2, n3
    2  n2  scouts                                                  → would you?, term 1 to n1, n3
    3  n3  gets would you?, term 1 (from n2)                       → I would, term 0 to n2
    4  n2  gets would you?, term 1 (from n1)                       → I would, term 0 to n1
    5  n2  gets I would, term 0 (from n3)     = candidate, term 1  → proposal, term 1 to n1, n3
    6  n1  gets I would, term 0 (from n2)     = candidate, term 1  → proposal, term 1 to n2, n3
    7  n3  gets proposal, term 1 (from n2)    = follower, term 1   → support, term 1 to n2
    8  n2  gets support, term 1 (from n3)     = leads term 1       → I lead, term 1 to n1, n3
    9  n3  gets proposal, term 1 (from n1)                         → support, term 1 to n1
   10  n1  gets support, term 1 (from n3)     = leads term 1       → I lead, term 1 to n2, n3

         n1                  n2                  n3
     1    ● scouts            │                   │
     2    │                   ● scouts            │
     3    │                   ├────would you?────▶●
     4    ├────would you?────▶●                   │
     5    │                   ●◀─────I would──────┤   candidate, term 1
     6    ●◀─────I would──────┤                   │   candidate, term 1
     7    │                   ├─────proposal─────▶●   follower, term 1
     8    │                   ★◀─────support──────┤   leads term 1
     9    ├─────proposal──────┼──────────────────▶●
    10    ★◀──────────────────┼──────support──────┤   leads term 1
"""


def prove(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit code, stdout without figures of time, and stderr."""
    code = main.run(["prove", *words])
    out, err = capsys.readouterr()
    return code, re.sub(r"rate( +)[\d,]+ (.*), [\d.]+ s", r"rate\1N \2, N s", out), err


def test_all_was_explored_and_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(capsys, "blazingmq", "--bounds", "restarts=0") == (0, EXHAUSTED, "")


def test_a_violation_and_its_diagram(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bounds = ("--bounds", "terms=1, restarts=0", "--bounds", "in-flight=2", "--mutation", "vote-twice")
    file = tmp_path / "way.svg"
    code, out, err = prove(capsys, "blazingmq", *bounds, "--svg", str(file))
    assert (code, out, err) == (1, VIOLATED, f"splitbrain: the space-time diagram is in {file}\n")
    words = [element.text for element in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    assert {"step 1", "step 10", "n3", "I would", "proposal"} <= set(words)
    assert not any("s 0" in (word or "") for word in words)


def test_one_that_was_given_up_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = prove(capsys, "rabbitmq-quorum", "--max-states", "1000")
    assert code == 2
    assert re.match(
        r"\? UNKNOWN  rabbitmq-quorum  given up by --max-states, with \d+ states not looked at; no violation in the "
        r"others\n",
        out,
    )


def test_a_pass_must_be_earned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = prove(capsys, "rabbitmq-quorum", "--bounds", "timeouts=0")
    head = "? UNKNOWN  rabbitmq-quorum  nobody ever leads within the bounds, so nothing was put to the test\n"
    assert (code, out.startswith(head)) == (2, True)


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    bounds = "terms=1,restarts=0,in-flight=2"
    code, out, err = prove(capsys, "blazingmq", "--bounds", bounds, "--mutation", "vote-twice", "--json")
    told = json.loads(out)
    assert (code, err) == (1, "")
    assert {key: told[key] for key in ("protocol", "valid", "mutation", "states", "distinct", "depth", "cut")} == {
        "protocol": "blazingmq", "valid": False, "mutation": "vote-twice", "states": 6113, "distinct": 1764,
        "depth": 10, "cut": None,
    }  # fmt: skip
    assert told["bounds"]["in-flight"] == 2
    assert told["violation"] == {"kind": "two-leaders", "message": "term 1 has a second leader, n1"}
    assert told["trace"][6] == {
        "step": 7,
        "node": "n3",
        "what": "gets proposal, term 1 (from n2)",
        "became": "follower, term 1",
        "sends": [{"message": "support, term 1", "to": ["n2"]}],
    }
    code, out, _ = prove(capsys, "rabbitmq-quorum", "--max-states", "100", "--json")
    told = json.loads(out)
    assert (code, told["valid"], told["cut"], told["violation"], told["trace"]) == (2, "unknown", "states", None, [])


def test_an_interrupt_prints_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: LiveLine, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveLine, "update", interrupt)
    code, out, err = prove(capsys, "rabbitmq-quorum")
    assert (code, err) == (130, "splitbrain: interrupted\n")
    assert re.match(r"\? UNKNOWN  rabbitmq-quorum  interrupted, with \d+ states not looked at; no violation", out)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["blazingmk"], "no protocol 'blazingmk' to prove; did you mean 'blazingmq'?"),
        (["lavinmq"], "lavinmq has no model to be explored; known: blazingmq, rabbitmq-quorum"),
        (["blazingmq", "--bounds", "scouting=1"], "blazingmq has no such bound; did you mean 'scoutings'?"),
        (["blazingmq", "--bounds", "publishes=1"], "--bounds publishes: blazingmq has no such bound; known: "),
        (["blazingmq", "--bounds", "terms"], "--bounds terms: write it as NAME=VALUE, such as terms=2"),
        (["blazingmq", "--bounds", "terms=many"], "--bounds terms: 'many' is not a whole number"),
        (["blazingmq", "--bounds", "terms=0"], "--bounds terms: 0 is out of range: at least 1"),
        (["blazingmq", "--mutation", "vote-thrice"], "has none so called; did you mean 'vote-twice'?"),
        (["blazingmq", "--time", "10"], "--time: '10' is not a duration"),
        (["blazingmq", "--memory", "4"], "--memory: '4' is not a size"),
        (["blazingmq", "--nodes", "9"], "Invalid value for '--nodes': 9 is not in the range 1<=x<=5"),
        (["blazingmq", "--svg", "nowhere/a.svg"], "--svg nowhere/a.svg: there is no directory "),
        ([], "Missing argument 'PROTOCOL'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    code, out, err = prove(capsys, *words)
    assert (code, out, err.count("\n")) == (254, "", 1)
    assert problem in err


def test_the_page_names_every_mutation_and_bound() -> None:
    page = section(DOCS / "search.md", "Prove")
    for protocol, model in PROTOCOLS.items():
        assert f"<!-- made: bounds {protocol} -->" in page
        assert f"`{protocol}`: {', '.join(f'`{mutation}`' for mutation in model.mutations)}" in page
