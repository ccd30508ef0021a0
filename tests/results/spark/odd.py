"""Histories as no broker makes them, drawn from a seed: whatever the tables could get wrong happens in them often."""

from __future__ import annotations

from random import Random
from typing import Any

from chaos.model.history import History
from chaos.model.op import CONTROLLER, CORRUPT, FAIL, INFO, INVOKE, NEMESIS, OBSERVER, OK, Op, OpType

QUEUES = ("q1", "q2", None)
NODES = ("n1", "n2", "n3")
SECOND = 1_000_000_000


class _Script:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.ops: list[Op] = []
        self.time = 0
        self.index = random.choice((0, 0, 7))

    def add(self, process: int, type_: OpType, f: str, **more: Any) -> int:
        self.time += self.random.choice((0, 1, 1000, 300_000_000, 1_500_000_000))
        self.index += 1 if self.random.random() < 0.95 else 3
        self.ops.append(Op(index=self.index, time=self.time, process=process, type=type_, f=f, **more))
        return self.index


def history(seed: int) -> History:
    """A history that keeps the rules, and no others."""
    random = Random(seed)
    script = _Script(random)
    waiting: list[tuple[int, int, str, dict[str, Any]]] = []
    messages = 0
    faults = 0
    for _ in range(random.randrange(150)):
        draw = random.random()
        queue = random.choice(QUEUES[: random.choice((1, 3))])
        if draw < 0.25:
            messages += 1
            more = {"key": queue, "value": messages * random.choice((1, 1000)) + seed % 2, "node": random.choice(NODES)}
            if any(op.f == "publish" and op.value == more["value"] for op in script.ops):
                continue
            waiting.append((script.add(1, INVOKE, "publish", **more), 1, "publish", more))
        elif draw < 0.40 and waiting:
            begun, process, f, more = waiting.pop(random.randrange(len(waiting)))
            detail = {"offset": 3} if random.random() < 0.1 else None
            script.add(process, random.choice((OK, OK, OK, FAIL, INFO)), f, op=begun, detail=detail, **more)
        elif draw < 0.62:
            _delivery(script, queue, messages)
        elif draw < 0.68 and messages:
            value = random.randrange(1, messages + 1)
            begun = script.add(4, INVOKE, "ack", key=queue, value=value)
            if random.random() < 0.8:
                script.add(4, random.choice((OK, INFO)), "ack", key=queue, value=value, op=begun)
        elif draw < 0.76:
            faults += 1
            _fault(script, f"fault-{faults}")
        elif draw < 0.94:
            _belief(script, queue)
        elif draw < 0.97:
            script.add(2, INVOKE, "open", node="n1")
        elif random.random() < 0.5:
            script.add(CONTROLLER, INFO, "phase", detail={"name": random.choice(("work", "undo"))})
        else:
            script.add(CONTROLLER, random.choice((OK, INFO)), "drain", key=random.choice(QUEUES[:2]))
    for queue in QUEUES[: random.choice((0, 1, 2))]:
        script.add(CONTROLLER, OK, "drain", key=queue)
    script.add(CONTROLLER, INFO, "phase", detail={"name": "collect"})
    return History.from_ops(script.ops)


def _delivery(script: _Script, queue: str | None, messages: int) -> None:
    random = script.random
    channel = random.choice((None, 0, 1))
    value = random.choice((None, 10**9, *range(1, messages + 1)))
    more: dict[str, Any] = {"key": queue, "value": value, "channel": channel}
    more["redelivered"] = random.choice((None, True))
    if random.random() < 0.1:
        more["error"] = CORRUPT
    if random.random() < 0.2:  # the payload tells where it was published to
        home = [op.key for op in script.ops if op.f == "publish" and op.value == value is not None] or [queue]
        more["detail"] = {"queue": home[0]} if home[0] is not None and queue is not None else None
    if random.random() < 0.3:
        script.add(3, OK, "consume", **more)
        return
    begun = script.add(3, INVOKE, "consume", key=queue, channel=channel)
    if random.random() < 0.9:
        script.add(3, random.choice((OK, OK, INFO)), "consume", op=begun, **more)


def _fault(script: _Script, name: str) -> None:
    random = script.random
    begun = script.add(NEMESIS, INVOKE, "inject", key=name)
    if random.random() < 0.1:
        return
    if random.random() < 0.2:
        script.add(NEMESIS, INFO, "inject", key=name, op=begun, error="nobody to hurt")
        return
    nodes = random.sample(NODES, random.randrange(1, 3))
    said = {
        "nemesis": "pause",
        "kind": "pause",
        "target": "any",
        "actions": [{"nodes": nodes, "verb": "pause"}, {"nodes": nodes[:1]}],
    }
    force = {"in_force": {node: script.time + random.randrange(3) for node in nodes}} if random.random() < 0.8 else {}
    script.add(NEMESIS, OK, "inject", key=name, op=begun, detail=said | force)
    if random.random() < 0.2:
        return
    if random.random() < 0.5:
        for value in range(random.randrange(3)):
            more: dict[str, Any] = {"key": "q1", "value": 10**6 + script.index * 10 + value, "node": "n1"}
            script.add(1, OK, "publish", op=script.add(1, INVOKE, "publish", **more), **more)
    bit = random.choice((True, False, None))
    if random.random() < 0.2:
        script.add(NEMESIS, OK, "undo", key=name, detail={"bit": bit})
        return
    begun = script.add(NEMESIS, INVOKE, "undo", key=name)
    if random.random() < 0.9:
        script.add(NEMESIS, random.choice((OK, OK, INFO)), "undo", key=name, op=begun, detail={"bit": bit})


def _belief(script: _Script, queue: str | None) -> None:
    random = script.random
    node = random.choice(NODES)
    if random.random() < 0.15:
        script.add(OBSERVER, INFO, "exit", node=node, error="killed")
        return
    said: dict[str, Any] = {"role": random.choice(("leader", "leader", "follower"))}
    more = {"key": queue, "node": node, "term": random.choice((None, 1, 2)), "incarnation": random.choice((None, 1))}
    if random.random() < 0.5:
        script.add(OBSERVER, INFO, "belief", detail=said, **more)
        return
    asked = script.time - random.randrange(2_000_000)
    said |= {"asked": asked, "answered": asked + random.randrange(1_000_000)}
    if random.random() < 0.3:
        said["reign"] = random.choice(("r1", "r2"))
    script.add(OBSERVER, INFO, "leader", detail=said if random.random() < 0.9 else {"why": "no answer"}, **more)
