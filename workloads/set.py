"""The `set` workload: clients add elements, each once, to a set that is the value of one key; and read all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from chaos.kernel.generators import Intent, always, mix
from chaos.model.settings import Setting, integer, number
from clusters.base import KeyValueClient
from workloads.asker import Asked, OneByOne
from workloads.base import Context
from workloads.updating import UPDATE, update


class Set(OneByOne):
    """Add, and read."""

    name = "set"
    meaning = "clients add elements to a set, and read all of it"
    checkers = ("set", "set-full", "leaders", "exceptions", "earned")
    tells = {"set-full": {"linearizable": True}}
    settings = (
        *[setting for setting in OneByOne.shared if setting.name != "rate"],
        Setting("rate", number(0.1, 100_000), 20, "operations a second, all clients together"),
        Setting("keys", integer(1, 100), 1, "how many sets"),
        Setting("adds", number(0, 1), 0.8, "which part of the operations are adds; the others read a whole set"),
        UPDATE,
    )

    async def setup(self, context: Context) -> None:
        await super().setup(context)
        self._elements = 0

    def intents(self, random: Random) -> Iterable[Intent]:
        adds = self.options["adds"]
        return mix([(weight, always(f)) for f, weight in (("add", adds), ("read", 1 - adds)) if weight], random)

    def ask(self, intent: Intent, random: Random) -> Asked:
        key = f"s{random.randint(1, self.options['keys'])}"
        if intent.f == "read":
            return Asked("read", key)
        self._elements += 1
        return Asked("add", key, self._elements)

    async def perform(self, client: KeyValueClient, asked: Asked) -> Any:
        assert asked.key is not None
        if asked.f == "read":
            return _members(await self.read(client, asked.key))
        await update(
            client,
            asked.key,
            lambda held: json.dumps([*_members(held), asked.value], separators=(",", ":")).encode(),
            self.options["update"],
        )
        return None

    def last(self) -> Iterator[Asked]:
        return (Asked("read", f"s{number + 1}") for number in range(self.options["keys"]))


def _members(held: bytes | None) -> list[int]:
    members: list[int] = json.loads(held or b"[]")
    return members
