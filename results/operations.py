"""A few operations on a time axis, with the faults around them: the picture of a counterexample.

A lane a process, a bar from each invocation to its completion; bars of one process that overlap share a lane by turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from chaos.model.history import History
from chaos.model.op import FAIL, OK, Op, OpType
from results import svg
from results.frame import LEFT, RIGHT, Frame, Scale
from results.journey import row_of
from results.plots import bands, bar, changes, clip
from results.text import length, moment
from results.timeline import Span, Timeline

MOST = 60  # operations drawn
_ROOM = 0.06  # of the time shown, on either side
_LANE = 24


@dataclass(frozen=True, slots=True)
class _Bar(Span):
    """An operation; `end` is that of the picture where it never returned, or nobody knows."""

    invoked: Op
    answer: Op | None

    @property
    def known(self) -> bool:
        return self.answer is not None and self.answer.type in (OK, FAIL)


def operations(history: History, line: Timeline, ops: Sequence[int]) -> Markup:
    """The operations that the given ops (indices) belong to; nothing where there are none."""
    bars = _bars(history, ops)
    if not bars:
        return Markup("")
    first = min(shown.begin for shown in bars)
    last = max(shown.end if shown.known else shown.begin for shown in bars)
    room = max(round((last - first) * _ROOM), 1_000_000)
    begin, end = first - room, last + room
    bars = [shown if shown.known else replace(shown, end=end) for shown in bars]
    around = Span(begin, end)
    near = replace(
        line,
        begin=begin,
        end=end,
        faults=tuple(fault for fault in line.faults if fault.begin < end and fault.end > begin),
        changes=tuple(change for change in line.changes if around.holds(change.time)),
    )
    scale = Scale(near)
    lanes = _lanes(bars)
    frame = Frame(scale, _LANE * len(lanes) + 6)
    parts = [bands(near, frame), changes(near, frame)]
    for number, (name, row) in enumerate(lanes):
        y = number * _LANE + 4
        parts += [svg.text(LEFT - 8, y + 14, clip(name), "label"), svg.horizontal(y + 10, LEFT, RIGHT, "lane")]
        for shown in row:
            style = "operation" if shown.known else "operation unknown"
            said = _said(shown.invoked, shown.answer)
            parts.append(bar(scale, shown, y, 19, style, _told(shown), said, said.rpartition(" ")[2]))
    return frame.draw("The operations, and the faults around them", parts)


def _bars(history: History, ops: Iterable[int]) -> list[_Bar]:
    rows = []
    for index in ops:
        row = row_of(history, index)
        if row is not None:
            begun = int(history.invocation[row])
            rows.append(begun if begun >= 0 else row)
    bars = []
    for row in sorted(set(rows))[:MOST]:
        end = int(history.completion[row])
        answer = history[end] if end >= 0 else None
        time = int(history.time[row])
        bars.append(_Bar(time, answer.time if answer is not None else time, history[row], answer))
    return bars


def _lanes(bars: Iterable[_Bar]) -> list[tuple[str, list[_Bar]]]:
    """Bars by process, those that overlap in lanes of their own; a name for the first lane of each."""
    lanes: dict[int, list[list[_Bar]]] = {}
    for shown in bars:
        own = lanes.setdefault(shown.invoked.process, [])
        free = next((lane for lane in own if lane[-1].end <= shown.begin), None)
        if free is None:
            own.append(free := [])
        free.append(shown)
    named = []
    for process in sorted(lanes):
        named += [(f"client {process}" if number == 0 else "", lane) for number, lane in enumerate(lanes[process])]
    return named


def _said(invoked: Op, answer: Op | None) -> str:
    """ "publish 17", "consume 17", "read nothing"; with "?" where the outcome is unknown."""
    if answer is None or answer.type not in (OK, FAIL):
        return f"{invoked.f} {_value(invoked)} ?".replace("  ", " ")
    if answer.type == FAIL:
        return f"{invoked.f} {_value(invoked)} failed".replace("  ", " ")
    return f"{invoked.f} {_value(answer) or _value(invoked) or 'nothing'}"


def _value(op: Op) -> str:
    if op.value is not None:
        return str(op.value)
    return str((op.detail or {}).get("value", ""))


def _told(shown: _Bar) -> str:
    """An operation in a sentence, for a tooltip."""
    op, answer = shown.invoked, shown.answer
    said = f"client {op.process}: {_said(op, answer)}, called at {moment(op.time)} (#{op.index})"
    if answer is None:
        return f"{said}, never answered"
    outcome = {OpType.OK: "answered", OpType.FAIL: "failed"}.get(answer.type, "outcome unknown")
    why = f": {answer.error}" if answer.error else ""
    return f"{said}, {outcome} after {length(answer.time - op.time)} (#{answer.index}){why}"
