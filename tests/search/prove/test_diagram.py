"""The diagram for a terminal, literally."""

from __future__ import annotations

from chaos.model.trace import Trace
from chaos.search.prove.diagram import diagram
from chaos.search.prove.trace import Step, Story

STEPS = (
    Step(1, "n1", "election time-out", "election time-out", None, "pre-vote, term 0"),
    Step(2, "n4", "gets a word (from n1)", "a word", "n1"),
    Step(3, "n1", "gets a word (from n4)", "a word that is longer than the room", "n4", "leads term 1", leads=True),
    Step(4, "n2", "never gets a word (from n1)", "a word", "n1", ends=True),
    Step(5, "n3", "is killed, and starts again", "killed", None, ends=True),
    Step(12, "n1", "an own event with many words", "an own event with many words", None),
)
DRAWN = """\
       n1                  n2                  n3                  n4
   1    ● election time-out │                   │                   │   pre-vote, term 0
   2    ├──────a word───────┼───────────────────┼──────────────────▶●
   3    ★◀──────────────────┼───────────────────┼─a word that is …──┤   leads term 1
   4    ├──────a word──────▶✗                   │                   │
   5    │                   │                   ✗ killed            │
  12    ● an own event wit… │                   │                   │"""


def test_each_step_is_where_it_happens() -> None:
    story = Story(STEPS, None, Trace(("n1", "n2", "n3", "n4")))
    assert "\n".join(diagram(story)) == DRAWN
