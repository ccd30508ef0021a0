"""The process on a node that serves one client connection, as it uses mirrored queues.

After `rabbit_channel`: the node itself knows who is master, from the replica on it; a publish is sent to all members at
once; what else there is, to the master. While there is none, requests wait. Where RabbitMQ would answer a publish with
a nack, or cancel a consumer, because the master has gone, the connection is closed here, which tells a client as much:
it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.simulated.channel import ACK, CLOSE, DELIVERED, DONE, FAILED, PUBLISH, REQUEUE, SUBSCRIBE, Channel
from clusters.simulated.mirrored import replica
from clusters.simulated.mirrored.replica import ANSWER, ATTACH, CONFIRMED, CONSUME, DELIVER, GET, MASTER, RETURN, SETTLE
from clusters.simulated.replica import Message

if TYPE_CHECKING:
    from clusters.simulated.node import Node


class Use:
    """One queue, as a channel uses it."""

    def __init__(self) -> None:
        self.master: str | None = None
        self.members: tuple[str, ...] = ()
        self.waiting: list[Message] = []  # what the client asked while there was none
        self.published = 0
        self.asked = 0
        self.unconfirmed: dict[int, int] = {}  # our number -> the client's
        self.unanswered: dict[int, tuple[Any, ...]] = {}  # our number -> the client's, and what the answer is about
        self.consumers: dict[int, None] = {}

    @property
    def depends(self) -> bool:
        """Whether the client would be left waiting if the master were another's."""
        return bool(self.unconfirmed or self.unanswered or self.consumers)


class MirroredChannel(Channel):
    """One client's connection, as its node serves it."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__(node, number)
        self._uses: dict[str, Use] = {}

    def from_queue(self, queue: str, source: str, message: Message) -> None:
        use = self._uses[queue]
        tag = message[0]
        if tag == CONFIRMED:
            for number in message[1]:
                operation = use.unconfirmed.pop(number, None)
                if operation is not None:
                    self.to_client((DONE, operation, None))
        elif tag == DELIVER:
            if message[1] in use.consumers:
                self.to_client((DELIVERED, queue, message[1], message[2]))
        elif tag == ANSWER:
            self._answered(use, message[1], message[2])
        elif tag == MASTER:
            _, master, use.members = message
            if master != use.master and use.depends:
                self.node.end_channel(self.number)
                return
            use.master = master
            if master is not None:
                waiting, use.waiting = use.waiting, []
                self._receive(waiting)

    def timer(self, queue: str) -> None:
        """None is ever set."""

    def connected(self, node: str) -> None:
        """Nothing hangs on it: a connection that was lost was a master lost, or none of ours."""

    def _use(self, queue: str) -> Use | None:
        if self.node.members(queue) is None:
            return None
        use = self._uses[queue] = Use()
        self.node.request(self.node.name, queue, (ATTACH, self.pid, 0, None, None))
        return use

    def _receive(self, batch: list[Message]) -> None:
        acks: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for message in batch:
            tag = message[0]
            if tag == CLOSE:
                self.node.end_channel(self.number)
                return
            queue = message[2]
            use = self._uses.get(queue) or self._use(queue)
            if use is None:
                self.to_client((FAILED, message[1], f"no queue {queue!r}"))
            elif use.master is None:
                use.waiting.append(message)
            elif tag == PUBLISH:
                self._publish(queue, use, message[1], message[3])
            elif tag == ACK:
                numbers, operations = acks.setdefault((queue, message[3]), ([], []))
                numbers.append(message[4])
                operations.append(message[1])
            elif tag == REQUEUE:
                about = ((message[1],), (message[4],))
                self._ask(queue, RETURN, message[3], (message[4],), about)
            elif tag == SUBSCRIBE:
                use.consumers[message[1]] = None
                self._ask(queue, CONSUME, message[1], message[3], (message[1],))
            else:
                self._ask(queue, GET, message[1], None, (message[1],))
        for (queue, consumer), (numbers, operations) in acks.items():
            self._ask(queue, SETTLE, consumer, tuple(numbers), (tuple(operations), tuple(numbers)))

    def _publish(self, queue: str, use: Use, operation: int, body: Any) -> None:
        use.published = number = use.published + 1
        use.unconfirmed[number] = operation
        request = (replica.PUBLISH, self.pid, number, body, None)
        for member in use.members:
            self.node.request(member, queue, request)

    def _ask(self, queue: str, kind: int, a: Any, b: Any, about: tuple[Any, ...]) -> None:
        use = self._uses[queue]
        use.asked += 1
        use.unanswered[use.asked] = about
        assert use.master is not None
        self.node.request(use.master, queue, (kind, self.pid, use.asked, a, b))

    def _answered(self, use: Use, number: int, answer: Any) -> None:
        about = use.unanswered.pop(number, None)
        if about is None:
            return
        if len(about) == 1:
            self.to_client((DONE, about[0], answer))
        else:
            for operation, delivery in zip(*about, strict=True):
                self.to_client((DONE, operation, delivery not in answer))
