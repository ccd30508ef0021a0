"""How a value in a store is changed to one that depends on what it was: by compare-and-set, or, wrongly, without."""

from __future__ import annotations

from collections.abc import Callable

from chaos.model.settings import Setting, choice
from clusters.base import KeyValueClient

COMPARE_AND_SET, READ_WRITE = "compare-and-set", "read-write"
UPDATE = Setting(
    "update",
    choice(COMPARE_AND_SET, READ_WRITE),
    COMPARE_AND_SET,
    "how a value is changed; read-write loses what others wrote in between: a control",
)


async def update(
    client: KeyValueClient, key: str, change: Callable[[bytes | None], bytes], how: str = COMPARE_AND_SET
) -> bytes:
    """Read what a key holds and put what `change` makes of it, again and again until nobody came between. What was put.

    Raises Failed, Unknown.
    """
    while True:
        held = await client.read(key)
        new = change(held)
        if how == READ_WRITE:
            await client.write(key, new)
            return new
        if await client.compare_and_set(key, held, new) is not None:
            return new
