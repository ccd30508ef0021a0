"""Space-time diagrams: what of a trace is shown, and where it is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.history import History
from chaos.model.op import CONTROLLER, INVOKE, OK, Op
from chaos.model.trace import (
    CRASH,
    HEARTBEAT,
    NOTE,
    PAUSE,
    RESUME,
    ROLE,
    SERVES,
    START,
    Cut,
    Happening,
    Message,
    Recording,
    Trace,
)
from chaos.model.verdict import Anomaly
from results.scene import AWAY, Focus, Saying, Scene, Stretch, counted, of_anomaly, scene
from results.spacetime import Layout, spacetime, standalone
from results.timeline import Timeline

MS = 1_000_000
S = 1_000 * MS

# n3 is cut off, leads beside n1, confirms message 7, and discards it once it is back.
TRACE = Trace(
    ("n1", "n2", "n3", "client-0", "client-5"),
    (
        Message(1 * S, "n1", "n2", 1 * S + MS, HEARTBEAT, (), 1),
        Message(4 * S, "client-0", "n1", 4 * S + MS, "publish", (6,)),
        Message(5 * S, "client-5", "n3", 5 * S + MS, "publish", (7,)),
        Message(5 * S + MS, "n3", "n1", None, "ring", (7,)),
        Message(5 * S + 2 * MS, "n3", "client-5", 5 * S + 3 * MS, "confirm", (7,)),
        Message(8 * S, "n3", "n1", 8 * S + MS, "join"),
        *(Message(6 * S + number * MS, "n1", "n2", 7 * S, "round") for number in range(13)),
    ),
    (
        Happening(0, "n1", ROLE, "leader", None, "q"),
        Happening(0, "n3", ROLE, "mirror", None, "q"),
        Happening(3 * S, "n3", ROLE, "leader", None, "q"),
        Happening(3 * S, "n2", ROLE, "leader", None, "other"),
        Happening(7 * S, "n3", ROLE, "paused", None, "q"),
        Happening(8 * S + 2 * MS, "n3", NOTE, "discards 1 messages", None, "q"),
        Happening(8 * S + 2 * MS, "n3", ROLE, "mirror", None, "q"),
    ),
    tuple(Cut(2 * S, 6 * S, *ends) for ends in (("n1", "n3"), ("n3", "n1"), ("n2", "n3"), ("n3", "n2"))) * 2,
)
LOST = Saying(9 * S, "it is lost", "bad")


def shown() -> Scene:
    return scene(TRACE, Focus((7,), "q", 5 * S, 9 * S), [LOST])


def test_what_is_shown_of_a_lost_message() -> None:
    found = shown()
    assert found.begin < 2 * S
    assert found.end > 9 * S
    assert found.lines == ("n1", "n2", "n3", "client-5")
    assert [message.label for message in found.journey] == ["publish", "ring", "confirm"]
    assert [message.label for message in found.others] == ["join"]
    assert found.left_out == {"publish": 1, "round": 13}
    assert len(found.cuts) == 4


def test_what_is_said_beside_it() -> None:
    assert [(saying.time, saying.text, saying.tone) for saying in shown().sayings] == [
        (2 * S, "the network is cut: n3 | n1 n2", "fault"),
        (3 * S, "n3 leads", "leader"),
        (5 * S, "client-5 publishes message 7 through n3", "plain"),
        (5 * S + 3 * MS, "n3 confirms it: it promises to keep it", "good"),
        (6 * S, "the cut is over", "fault"),
        (7 * S, "n3 leads no longer: paused", "leader"),
        (8 * S + 2 * MS, "n3: discards 1 messages", "bad"),
        (9 * S, "it is lost", "bad"),
    ]


def test_who_led_and_who_served_nobody() -> None:
    found = shown()
    begin, end = found.begin, found.end
    assert found.stretches["n1"] == (Stretch(begin, end, "up", True),)
    assert found.stretches["n2"] == (Stretch(begin, end, "up"),)
    assert found.stretches["n3"] == (
        Stretch(begin, 3 * S, "up"),
        Stretch(3 * S, 7 * S, "up", True),
        Stretch(7 * S, 8 * S + 2 * MS, "away"),
        Stretch(8 * S + 2 * MS, end, "up"),
    )


def test_lives_of_a_process() -> None:
    happened = [
        Happening(1, "n1", ROLE, "leader", 3),
        Happening(10, "n1", PAUSE),
        Happening(20, "n1", RESUME),
        Happening(30, "n1", CRASH, "is ended (kill)"),
        Happening(30, "n1", ROLE, "down", 3),
        Happening(40, "n1", START),
        Happening(50, "n1", SERVES),
    ]
    found = scene(Trace(("n1",), (), tuple(happened)), Focus())
    assert found.stretches["n1"] == (
        Stretch(1, 10, "up", True, 3),
        Stretch(10, 20, "still", True, 3),
        Stretch(20, 30, "up", True, 3),
        Stretch(30, 40, "down", False, None),
        Stretch(40, 50, "away", False, None),
    )
    said = [saying.text for saying in found.sayings]
    assert said == ["n1 leads in term 3", "n1 stands still", "n1 goes on", "n1 is ended (kill)",
                    "n1 leads no longer: down", "n1 serves"]  # fmt: skip
    assert "down" in AWAY


def test_sides_of_a_cut_stand_together() -> None:
    cuts = tuple(Cut(1, None, *ends) for ends in (("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n2")))
    trace = Trace(("n1", "n2", "n3"), (Message(2, "n1", "n3", 3, "append"),), (), cuts)
    assert scene(trace, Focus()).lines == ("n1", "n3", "n2")


def test_a_client_stands_beside_its_node() -> None:
    said = [Message(1, "client-0", "n1", 2, "publish", (1,)), Message(3, "n2", "client-4", 4, "deliver", (1,))]
    trace = Trace(("n1", "n2", "n3", "client-0", "client-4", "client-9"), tuple(said))
    assert scene(trace, Focus((1,))).lines == ("client-0", "n1", "n2", "client-4", "n3")


def test_the_anomaly_says_what_to_look_at() -> None:
    history = History.from_ops(
        [
            Op(index=0, time=5, process=0, type=INVOKE, f="publish", key="q", value=7, node="n1"),
            Op(index=1, time=6, process=0, type=OK, f="publish", key="q", value=7, op=0, node="n1"),
            Op(index=2, time=7, process=CONTROLLER, type=INVOKE, f="drain", key="q"),
            Op(index=3, time=9, process=CONTROLLER, type=OK, f="drain", key="q", op=2),
        ]
    )
    focus, said = of_anomaly(history, Timeline(0, 9), Anomaly("lost", "message 7 was lost", (0, 1, 3)))
    assert focus == Focus((7,), "q", 5, 9)
    assert [(saying.time, saying.tone) for saying in said] == [(9, "bad")]
    assert "it is lost" in said[0].text
    focus, said = of_anomaly(history, Timeline(0, 9), Anomaly("dual-confirm", "both confirmed", (1,)))
    assert focus == Focus((7,), "q", 6, 6)
    assert [saying.text for saying in said] == ["both confirmed"]
    assert of_anomaly(history, Timeline(0, 9), Anomaly("slow", "too slow")) == (Focus(), [])


def elements(drawn: str, style: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(drawn.replace(' xmlns="http://www.w3.org/2000/svg"', ""))
    return [element for element in root.iter() if style in (element.get("class") or "").split()]


def test_the_picture_has_each_arrow_wall_and_word() -> None:
    drawn = spacetime(shown())
    assert [group.findtext("title") for group in elements(drawn, "way") if group.find("title") is not None] == [
        "publish of 7, client-5 to n3: sent 5.000 s, arrived 5.001 s",
        "ring of 7, n3 to n1: sent 5.001 s, never arrived",
        "confirm of 7, n3 to client-5: sent 5.002 s, arrived 5.003 s",
    ]
    assert [group.findtext("title") for group in elements(drawn, "cut")] == [
        "nothing passes between n2 and n3, 2.000 s to 6.000 s"
    ]
    assert [head.text for head in elements(drawn, "head-name")] == ["n1", "n2", "n3", "client-5"]
    assert len(elements(drawn, "leads")) == 3  # n1, n3, and the key
    assert "not drawn: 13 round, 1 publish" in drawn
    assert "the way of message 7" in drawn


def test_as_a_file_it_brings_its_colours() -> None:
    text = standalone(spacetime(shown()))
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "prefers-color-scheme: dark" in text
    assert ".spacetime .arrow" in text
    ElementTree.fromstring(text)


def test_what_a_broker_says_cannot_become_markup() -> None:
    trace = Trace(("n1",), (), (Happening(1, "n1", NOTE, "<script>alert(1)</script>"),))
    assert "<script" not in spacetime(scene(trace, Focus()))


def test_nothing_to_show() -> None:
    assert spacetime(scene(Trace(()), Focus())) == ""
    assert "svg" in spacetime(scene(Trace(("n1", "n2")), Focus()))


TIMES = st.integers(0, 100 * S)


@given(st.lists(st.tuples(TIMES, st.one_of(st.none(), TIMES)), max_size=30), st.lists(TIMES, max_size=10))
def test_later_is_lower_and_words_have_room(sent: list[tuple[int, int | None]], said: list[int]) -> None:
    messages = [Message(time, "n1", "n2", None if took is None else time + took, "m") for time, took in sent]
    messages.sort(key=lambda message: message.time)
    found = scene(Trace(("n1", "n2"), tuple(messages)), Focus((), "", 0, 10), [Saying(time, "x") for time in said])
    layout = Layout(found)
    times = sorted({0, 100 * S, *(message.time for message in messages), *said})
    places = [layout.y(time) for time in times]
    assert places == sorted(places)
    assert all(layout.y(found.begin) <= place <= layout.bottom for place in places)
    assert layout.bottom >= 14 * len(found.sayings)


def test_a_trace_reads_back_as_it_was_written() -> None:
    assert Trace.loads(TRACE.dumps()) == TRACE
    assert Trace.loads(Trace(()).dumps()) == Trace(())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2}',
        '{"schema": 1, "lines": []}',
        '{"schema": 1, "lines": [], "messages": [[1]], "happenings": [], "cuts": []}',
    ],
)
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|Expecting|values to unpack"):
        Trace.loads(text)


def test_a_recording_knows_ids_wherever_they_are() -> None:
    def identify(body: bytes) -> int | None:
        return int(body) if body.isdigit() else None

    recording = Recording(identify)
    content = (1, [("x", b"12"), {"a": (b"7", b"12")}], b"none")
    assert recording.ids(content) == (7, 12)
    number = recording.sent(Message(1, "n10", "n2"))
    recording.happened(Happening(1, "client-3", NOTE))
    recording.happened(Happening(1, "n2/etcd", NOTE))
    recording.arrived(number, 5)
    recording.cut("n2", "n10", 1)
    recording.cut("n2", "n10", 2)
    recording.mended("n2", "n10", 3)
    trace = recording.trace()
    assert trace.lines == ("n2", "n2/etcd", "n10", "client-3")
    assert trace.messages == (Message(1, "n10", "n2", 5),)
    assert trace.cuts == (Cut(1, None, "n2", "n10"), Cut(2, 3, "n2", "n10"))


def test_counts_in_words() -> None:
    assert counted({"round": 2, HEARTBEAT: 1200}) == "1,200 heartbeats, 2 round"
