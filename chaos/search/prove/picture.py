"""A story as a space-time diagram."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from chaos.model.trace import CRASH
from chaos.search.prove.trace import Story
from results.scene import BAD, PLAIN, Focus, Saying, scene
from results.spacetime import spacetime

STEP = 10**9  # of the diagram's time, a step
_SAID = "what is sent and not drawn never arrives"


def picture(story: Story) -> Markup:
    """The steps from top to bottom, with every message that arrives."""
    messages = tuple(
        replace(message, time=message.time * STEP, arrival=message.arrival * STEP)
        for message in story.trace.messages
        if message.arrival is not None
    )
    happenings = []
    crashed: dict[tuple[str, int], None] = {}
    for one in story.trace.happenings:
        begins = (one.line, one.time) in crashed  # half a step later, so that it is seen to have been down
        happenings.append(replace(one, time=one.time * STEP + (STEP // 2 if begins else 0)))
        if one.kind == CRASH:
            crashed[one.line, one.time] = None
    said = [Saying(0, _SAID, PLAIN)]
    if story.violation is not None:
        said.append(Saying(len(story.steps) * STEP + STEP // 2, story.violation.text, BAD))
    drawn = replace(story.trace, messages=messages, happenings=tuple(happenings))
    title = "The shortest way to a broken invariant" if story.violation else "A way"
    return spacetime(scene(drawn, Focus(begin=0, end=(len(story.steps) + 1) * STEP), said), title, when=_when)


def _when(time: int) -> str:
    return "" if time % STEP else f"step {time // STEP}"
