"""What a channel's session sends to the queue's members and to its client, whatever the leaders do."""

from __future__ import annotations

from typing import Any, cast

from clusters.simulated.channel import (
    ACK,
    CHANGED,
    DELIVERED,
    DONE,
    GET,
    LEADS,
    PUBLISH,
    RESUME,
    SUBSCRIBE,
    WHO,
    Channel,
)
from clusters.simulated.fifo import APPLIED, CHECKOUT, DELIVER, DEQUEUE, ENQUEUE, NOT_ENQUEUED, OK, RESUMED, SETTLE
from clusters.simulated.network import Connection, Message
from clusters.simulated.node import Node

PID = ("n1", 1, 7)


class FakeNode:
    """Keeps what is asked of it, and of the connection of its one client."""

    def __init__(self) -> None:
        self.name, self.incarnation = "n1", 1
        self.requests: list[tuple[str, Message]] = []
        self.client: list[Message] = []
        self.timers: list[int] = []
        self.receive: list[Any] = [None, None]
        self.lost: list[Any] = [None, None]
        self.channel = Channel(cast(Node, self), 7)
        self.channel.attach(cast(Connection, self))

    def event(self, callback: Any, *arguments: Any) -> None:
        callback(*arguments)

    def members(self, queue: str) -> tuple[str, ...] | None:
        return ("n1", "n2", "n3") if queue == "q" else None

    def request(self, target: str, queue: str, request: Message) -> None:
        self.requests.append((target, request))

    def set_timer(self, key: object, delay: int) -> None:
        self.timers.append(delay)

    def send(self, end: int, message: Message) -> None:
        self.client.append(message)

    def hears(self, source: str, *message: Any) -> None:
        self.channel.from_queue("q", source, message)

    def asked(self) -> list[tuple[str, Message]]:
        asked, self.requests = self.requests, []
        return asked

    def told(self) -> list[Message]:
        told, self.client = self.client, []
        return told


def led(*batch: Message) -> FakeNode:
    """A channel whose client has sent a batch, and which knows that n2 leads in term 3."""
    node = FakeNode()
    node.receive[1](list(batch))
    node.hears("n2", LEADS, "n2", 3)
    return node


WHO_LEADS = (WHO, PID, 0, None, None)
FIRST = (ENQUEUE, PID, 1, 1, b"a")
SECOND = (ENQUEUE, PID, 2, 2, b"b")


def test_it_asks_who_leads_and_sends_what_waited_in_order() -> None:
    node = FakeNode()
    node.receive[1]([(PUBLISH, 10, "q", b"a"), (PUBLISH, 11, "q", b"b")])
    assert node.asked() == [("n1", WHO_LEADS)]
    node.hears("n1", LEADS, "n2", 3)
    assert node.asked() == [("n2", WHO_LEADS)]
    node.hears("n2", LEADS, "n2", 3)
    assert node.asked() == [("n2", FIRST), ("n2", SECOND)]
    node.hears("n2", APPLIED, [(1, OK), (2, OK)])
    assert node.told() == [(DONE, 10, None), (DONE, 11, None)]


def test_members_that_point_at_each_other_are_not_asked_in_a_circle() -> None:
    node = FakeNode()
    node.receive[1]([(PUBLISH, 10, "q", b"a")])
    for source, leader in (("n1", "n2"), ("n2", "n1"), ("n1", "n2")):
        node.hears(source, LEADS, leader, 3)
    assert node.asked() == [("n1", WHO_LEADS), ("n2", WHO_LEADS)]
    node.channel.timer("q")
    assert node.asked() == [("n3", WHO_LEADS)]


def test_a_new_leader_gets_all_that_is_pending_again_with_the_same_numbers() -> None:
    node = led((PUBLISH, 10, "q", b"a"), (PUBLISH, 11, "q", b"b"))
    node.hears("n2", APPLIED, [(1, OK)])
    node.asked()
    node.hears("n3", CHANGED, "n3", 4)
    assert node.asked() == [("n3", SECOND)]
    node.hears("n2", CHANGED, "n2", 3)  # an old leader's word, late
    assert node.asked() == []
    node.hears("n3", APPLIED, [(2, OK)])
    node.hears("n2", APPLIED, [(2, OK)])
    assert node.told() == [(DONE, 10, None), (DONE, 11, None)]


def test_an_enqueue_out_of_sequence_leads_to_all_being_sent_again() -> None:
    node = led((PUBLISH, 10, "q", b"a"), (PUBLISH, 11, "q", b"b"))
    node.asked()
    node.hears("n2", APPLIED, [(2, NOT_ENQUEUED)])
    node.channel.timer("q")
    node.asked()
    node.hears("n2", LEADS, "n2", 3)
    assert node.asked() == [("n2", FIRST), ("n2", SECOND)]
    assert node.told() == []


def test_a_leader_that_does_not_answer_is_doubted_after_a_while() -> None:
    node = led((PUBLISH, 10, "q", b"a"))
    node.asked()
    node.channel.timer("q")
    node.channel.timer("q")
    assert node.asked()[-1][1] == WHO_LEADS


def test_a_delivery_seen_before_is_dropped_and_after_a_gap_it_asks_to_resume() -> None:
    node = led((SUBSCRIBE, 5, "q", 9))
    assert ("n2", (CHECKOUT, PID, 1, 5, 9)) in node.asked()
    node.hears("n2", DELIVER, 5, [(1, (8, b"a", 0)), (2, (9, b"b", 0))])
    node.hears("n3", DELIVER, 5, [(2, (9, b"b", 0)), (3, (10, b"c", 0))])
    assert node.told() == [
        (DELIVERED, "q", 5, [(1, (8, b"a", 0)), (2, (9, b"b", 0))]),
        (DELIVERED, "q", 5, [(3, (10, b"c", 0))]),
    ]
    node.asked()
    node.hears("n2", DELIVER, 5, [(6, (13, b"f", 0))])
    assert node.asked() == [("n2", (RESUME, PID, 0, 5, 4))]
    assert node.told() == []
    node.hears("n2", RESUMED, 5, [(4, (11, b"d", 0)), (6, (13, b"f", 0))], 7)  # 5 was returned meanwhile
    assert node.told() == [(DELIVERED, "q", 5, [(4, (11, b"d", 0)), (6, (13, b"f", 0))])]


def test_acks_of_one_segment_are_one_command_and_each_is_told_whether_it_took_effect() -> None:
    node = led((SUBSCRIBE, 5, "q", 9))
    node.asked()
    node.receive[1]([(ACK, 20, "q", 5, 1), (ACK, 21, "q", 5, 2), (ACK, 22, "q", 5, 3)])
    assert node.asked() == [("n2", (SETTLE, PID, 2, 5, (1, 2, 3)))]
    node.hears("n2", APPLIED, [(2, (2,))])
    assert node.told() == [(DONE, 20, True), (DONE, 21, False), (DONE, 22, True)]


def test_a_poll_is_answered_with_a_message_or_with_none() -> None:
    node = led((GET, 5, "q"), (GET, 6, "q"))
    assert [request for _, request in node.asked()][-2:] == [(DEQUEUE, PID, 1, 5, None), (DEQUEUE, PID, 2, 6, None)]
    node.hears("n2", APPLIED, [(1, (1, (8, b"a", 0))), (2, None)])
    assert node.told() == [(DONE, 5, (5, 1, (8, b"a", 0))), (DONE, 6, None)]
