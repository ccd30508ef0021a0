"""The `counter` workload: clients add to numbers, and read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from chaos.kernel.generators import Intent, always, mix
from chaos.model.settings import Setting, integer, number
from clusters.base import KeyValueClient
from workloads.asker import Asked, OneByOne
from workloads.updating import UPDATE, update

MOST = 5


class Counter(OneByOne):
    """Add, and read."""

    name = "counter"
    meaning = "clients add to a number, and read it"
    checkers = ("counter", "leaders", "exceptions", "earned")
    settings = (
        *OneByOne.shared,
        Setting("keys", integer(1, 100), 1, "how many counters"),
        Setting("adds", number(0, 1), 0.5, "which part of the operations are adds; the others are reads"),
        UPDATE,
    )

    def intents(self, random: Random) -> Iterable[Intent]:
        adds = self.options["adds"]
        return mix([(weight, always(f)) for f, weight in (("add", adds), ("read", 1 - adds)) if weight], random)

    def ask(self, intent: Intent, random: Random) -> Asked:
        key = f"c{random.randint(1, self.options['keys'])}"
        return Asked(intent.f, key, random.randint(1, MOST) if intent.f == "add" else None)

    async def perform(self, client: KeyValueClient, asked: Asked) -> Any:
        assert asked.key is not None
        if asked.f == "read":
            return int(await self.read(client, asked.key) or 0)
        await update(client, asked.key, lambda held: b"%d" % (int(held or 0) + asked.value), self.options["update"])
        return None

    def last(self) -> Iterator[Asked]:
        return (Asked("read", f"c{number + 1}") for number in range(self.options["keys"]))
