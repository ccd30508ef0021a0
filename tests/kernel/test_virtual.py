"""Virtual time: it stands still while anything can run, and events at one time keep the order they were put in."""

from __future__ import annotations

import asyncio

import pytest

from chaos.kernel.clock import SECOND, sleep_until
from chaos.kernel.virtual import NothingLeft, VirtualLoop, run_virtual


def test_sleepers_and_events_share_one_order() -> None:
    seen: list[tuple[str, int]] = []

    async def main(loop: VirtualLoop) -> None:
        async def sleeper(name: str, naps: list[float]) -> None:
            for nap in naps:
                await asyncio.sleep(nap)
                seen.append((name, loop.now()))

        loop.at(SECOND, lambda: seen.append(("first", loop.now())))
        loop.at(SECOND // 2, lambda: seen.append(("half", loop.now())))
        loop.at(SECOND, lambda: seen.append(("second", loop.now())))
        await asyncio.gather(sleeper("a", [1, 1]), sleeper("b", [0.25, 1.75]))

    run_virtual(main)
    assert seen == [
        ("b", 250_000_000),
        ("half", 500_000_000),
        ("first", 1_000_000_000),
        ("second", 1_000_000_000),
        ("a", 1_000_000_000),
        ("b", 2_000_000_000),
        ("a", 2_000_000_000),
    ]


def test_time_outs_take_virtual_time_only() -> None:
    async def main(loop: VirtualLoop) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(7200)
        return loop.now()

    assert run_virtual(main) == 3600 * SECOND


def test_an_event_in_the_past_happens_now() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        await sleep_until(loop, SECOND)
        loop.at(5, lambda: seen.append(loop.now()))
        await asyncio.sleep(0.001)
        return seen

    assert run_virtual(main) == [SECOND]


def test_a_simulation_that_would_never_go_on_says_so() -> None:
    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(NothingLeft):
        run_virtual(main)


def test_threads_are_refused() -> None:
    async def main(loop: VirtualLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="threads have no place"):
        run_virtual(main)


def test_a_cancelled_timer_does_not_fire() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        loop.call_later(1, seen.append, 1).cancel()
        loop.call_at(2, seen.append, 2)
        await asyncio.sleep(3)
        return seen

    assert run_virtual(main) == [2]
