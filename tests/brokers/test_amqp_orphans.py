"""What aiormq leaves behind when a connection dies is passed over; what is ours, or unknown, is not."""

from __future__ import annotations

import asyncio
from typing import Any

from aiormq.exceptions import AMQPConnectionError

from clusters.brokers.amqp import pass_over_orphans


def seen(contexts: list[dict[str, Any]]) -> list[str]:
    """The messages that reach the handler which was there before."""
    loop = asyncio.new_event_loop()
    reached: list[str] = []
    loop.set_exception_handler(lambda _, context: reached.append(context["message"]))
    pass_over_orphans(loop)
    pass_over_orphans(loop)
    for context in contexts:
        loop.call_exception_handler(context)
    loop.close()
    return reached


def test_only_the_librarys_own_are_passed_over() -> None:
    async def ours() -> None:
        raise AMQPConnectionError

    async def main() -> list[str]:
        task = asyncio.ensure_future(ours())
        await asyncio.gather(task, return_exceptions=True)
        return seen(
            [
                {"message": "a future of the library", "exception": AMQPConnectionError("reset")},
                {"message": "a task of ours", "exception": AMQPConnectionError("reset"), "future": task},
                {"message": "a bug", "exception": ValueError("x")},
                {"message": "no exception at all"},
            ]
        )

    assert asyncio.run(main()) == ["a task of ours", "a bug", "no exception at all"]


def test_a_task_of_the_librarys_code_is_passed_over() -> None:
    source = "async def reader():\n    raise ValueError('the socket is gone')\n"
    names: dict[str, Any] = {}
    exec(compile(source, "/env/lib/aiormq/connection.py", "exec"), names)

    async def main() -> list[str]:
        task = asyncio.ensure_future(names["reader"]())
        await asyncio.gather(task, return_exceptions=True)
        return seen([{"message": "task", "exception": ValueError("x"), "future": task}])

    assert asyncio.run(main()) == []


def test_an_abandoned_task_of_asyncios_own_is_passed_over_and_one_of_ours_is_not() -> None:
    async def main() -> list[str]:
        async def ours() -> None:
            await asyncio.Event().wait()

        tasks = [asyncio.ensure_future(asyncio.Queue[int]().get()), asyncio.ensure_future(ours())]
        pending = seen([{"message": str(task.get_coro()), "task": task} for task in tasks])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return pending

    (message,) = asyncio.run(main())
    assert "ours" in message
