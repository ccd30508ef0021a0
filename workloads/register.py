"""The `register` workload: reads, writes, and compare-and-set on several keys, each as one register.

Every value is written once, so that a read says which write it saw. A key is used for so many operations and no longer:
the search for an order of those on one key would take too long otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from chaos.kernel.generators import Intent, always, mix
from chaos.model.settings import BadKey, Setting, integer, number
from clusters.base import Failed, KeyValueClient
from workloads.asker import Asked, OneByOne
from workloads.base import Context

WRONG = 0.25  # of the compare-and-set expect what is most likely not there


class Register(OneByOne):
    """Read, write, compare and set."""

    name = "register"
    meaning = "clients read, write, and compare and set; each key is a register"
    checkers = ("linearizable", "leaders", "exceptions", "earned")
    tells = {"linearizable": {"model": "cas-register"}}
    settings = (
        *OneByOne.shared,
        Setting("keys", integer(1, 1000), 5, "how many registers are used at a time"),
        Setting("length", integer(1, 1_000_000), 200, "operations on a key until a new one takes its place"),
        Setting("writes", number(0, 1), 0.3, "which part of the operations are writes"),
        Setting("cas", number(0, 1), 0.2, "which part are compare-and-set; what is left of both are reads"),
    )

    @classmethod
    def asks(cls, options: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, str]:
        if options["writes"] + options["cas"] > 1:
            raise BadKey("cas", "writes and cas together are more than all operations")
        return {}

    async def setup(self, context: Context) -> None:
        await super().setup(context)
        self._asked = 0
        self._values = 0
        self._seen: dict[str, int] = {}  # key -> the value that somebody saw or wrote there last

    def intents(self, random: Random) -> Iterable[Intent]:
        writes, cas = self.options["writes"], self.options["cas"]
        kinds = [("write", writes), ("cas", cas), ("read", max(1 - writes - cas, 0))]
        return mix([(weight, always(f)) for f, weight in kinds if weight], random)

    def ask(self, intent: Intent, random: Random) -> Asked:
        round_, place = divmod(self._asked, self.options["keys"])
        self._asked += 1
        key = f"r{round_ // self.options['length'] * self.options['keys'] + place + 1}"
        if intent.f == "read":
            return Asked("read", key)
        self._values += 1
        if intent.f == "cas" and key in self._seen:
            guess = random.random() < WRONG
            return Asked("cas", key, [random.randint(1, self._values) if guess else self._seen[key], self._values])
        return Asked("write", key, self._values)

    async def perform(self, client: KeyValueClient, asked: Asked) -> Any:
        assert asked.key is not None
        if asked.f == "read":
            held = await self.read(client, asked.key)
            value = None if held is None else int(held)
            if value is not None:
                self._seen[asked.key] = value
            return value
        if asked.f == "write":
            await client.write(asked.key, b"%d" % asked.value)
            self._seen[asked.key] = asked.value
            return None
        old, new = asked.value
        if await client.compare_and_set(asked.key, b"%d" % old, b"%d" % new) is None:
            raise Failed("it held another value")
        self._seen[asked.key] = new
        return None

    def last(self) -> Iterator[Asked]:
        keys = min(self._asked, self.options["keys"])
        newest = (max(self._asked - 1, 0)) // self.options["keys"] // self.options["length"] * self.options["keys"]
        return (Asked("read", f"r{newest + place + 1}") for place in range(keys))
