"""A story as a space-time diagram for a terminal: a column a node, a row a step, messages arrows."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.search.prove.trace import Step, Story

WIDTH = 20  # from one column to the next
_LEFT = 8  # of the first


def diagram(story: Story) -> Iterator[str]:
    """Its lines. A mark stands where a step happens: ● for any, ✗ for a crash or a message that is lost, ★ where
    somebody leads from then on."""
    places = {node: _LEFT + WIDTH * number for number, node in enumerate(story.trace.lines)}
    head = [" "] * (max(places.values()) + WIDTH)
    for node, place in places.items():
        _put(head, place - len(node) // 2, node)
    yield "".join(head).rstrip()
    for step in story.steps:
        yield _row(step, places)


def _row(step: Step, places: dict[str, int]) -> str:
    row = [" "] * (max(places.values()) + WIDTH)
    _put(row, 0, f"{step.number:4}")
    for place in places.values():
        row[place] = "│"
    here = places[step.node]
    mark = "★" if step.leads else "✗" if step.ends else "●"
    if step.source is None:
        _put(row, here + 2, _cut(step.label, WIDTH - 3))
    else:
        source = places[step.source]
        right = 1 if here > source else -1
        for place in range(source + right, here, right):
            row[place] = "┼" if place in places.values() else "─"
        row[source] = "├" if right > 0 else "┤"
        row[here - right] = "▶" if right > 0 else "◀"
        label = _cut(step.label, WIDTH - 4)
        middle = source + right * WIDTH // 2
        _put(row, middle - len(label) // 2, label)
    row[here] = mark
    return "".join(row).rstrip() + (f"   {step.became}" if step.became else "")


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _put(row: list[str], place: int, words: str) -> None:
    row[place : place + len(words)] = words
