from random import Random
from typing import Any

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.virtual import VirtualLoop
from clusters.simulated.disk import Disk


def made() -> tuple[VirtualLoop, Disk, list[tuple[str, Any]]]:
    loop = VirtualLoop()
    done: list[tuple[str, Any]] = []
    return loop, Disk(loop, Random(1), 2 * MILLISECOND, lambda name, token: done.append((name, token))), done


def run(loop: VirtualLoop, until: int) -> None:
    loop.call_at(until / SECOND, loop.stop)
    loop.run_forever()


def test_a_kill_keeps_what_was_written_and_a_power_off_only_what_was_synced() -> None:
    loop, disk, done = made()
    disk.write("q", ("synced",))
    disk.sync("q", 1)
    run(loop, SECOND)
    assert done == [("q", 1)]
    disk.write("q", ("under way",))
    disk.sync("q", 2)
    disk.write("q", ("written",))
    disk.process_died()
    assert disk.file("q").records() == [("synced",), ("under way",), ("written",)]
    assert disk.power_off() == 2
    assert disk.file("q").records() == [("synced",)]
    run(loop, 2 * SECOND)
    assert done == [("q", 1)]  # nobody waits any more


def test_one_sync_at_a_time_takes_all_files_with_it_and_the_next_takes_what_came_meanwhile() -> None:
    loop, disk, done = made()
    for number in (1, 2, 3):
        disk.write("q", (number,))
        disk.write("r", (number,))
        disk.sync("q", number)
        disk.sync("r", number)
    run(loop, SECOND)
    assert done == [("q", 1), ("q", 3), ("r", 3)]
    assert disk.file("r").synced == [(1,), (2,), (3,)]


def test_a_file_is_replaced_atomically_and_what_is_kept_is_as_synced_as_it_was() -> None:
    loop, disk, _ = made()
    disk.write("q", (1,))
    disk.write("q", (2,))
    disk.sync("q", 1)
    run(loop, SECOND)
    disk.write("q", (3,))
    disk.write("q", (4,))
    disk.replace("q", [("snapshot",)], lambda record: record[0] % 2 == 0)
    assert disk.file("q").records() == [("snapshot",), (2,), (4,)]
    assert disk.power_off() == 1
    assert disk.file("q").records() == [("snapshot",), (2,)]


def test_the_kernel_writes_back_what_nobody_syncs() -> None:
    _, disk, _ = made()
    disk.write("q", (1,))
    disk.write_back()
    assert disk.power_off() == 0
    assert disk.file("q").records() == [(1,)]
