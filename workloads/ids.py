"""The `ids` workload: clients ask for ids, no two of which may be the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from chaos.kernel.generators import Intent, always
from chaos.model.settings import Setting, choice
from clusters.base import KeyValueClient
from workloads.asker import Asked, OneByOne
from workloads.base import Context
from workloads.updating import COMPARE_AND_SET, READ_WRITE, update

REVISION = "revision"
KEY = "ids"


class Ids(OneByOne):
    """Generate."""

    name = "ids"
    meaning = "clients ask for ids, all of which must be different"
    checkers = ("unique-ids", "leaders", "exceptions", "earned")
    settings = (
        *[setting for setting in OneByOne.shared if setting.name not in ("reads", "drain")],
        Setting(
            "by",
            choice(REVISION, COMPARE_AND_SET, READ_WRITE),
            REVISION,
            "what an id is: the revision of a write, or a number that is counted up; read-write is a control",
        ),
    )

    def intents(self, random: Random) -> Iterable[Intent]:
        return always("generate")

    def ask(self, intent: Intent, random: Random) -> Asked:
        return Asked("generate")

    async def perform(self, client: KeyValueClient, asked: Asked) -> Any:
        if self.options["by"] == REVISION:
            return await client.write(KEY, b"")
        return int(await update(client, KEY, lambda held: b"%d" % (int(held or 0) + 1), self.options["by"]))

    def last(self) -> Iterator[Asked]:
        return iter(())

    async def drain(self, context: Context, deadline: int) -> None:
        """There is nothing to read."""
