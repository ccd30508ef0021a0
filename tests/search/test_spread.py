"""Work over several processes: results in order, and nobody left when whoever started it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import pytest

from chaos.search.spread import again, crew, spread

ORPHANS = """
import os, time
from chaos.search.spread import spread

def work(number):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, since two write at once
    time.sleep(60)

if __name__ == "__main__":
    list(spread(work, range(4), 2))
"""


def halve(number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is below zero")
    return number // 2


def linger(number: int) -> int:
    time.sleep(0.01)
    return number


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs: int) -> None:
    assert list(spread(halve, range(9), jobs)) == [(number, number // 2) for number in range(9)]


def test_a_crew_goes_on_after_work_that_was_broken_off() -> None:
    with crew(2) as pool:
        first = again(halve, range(100), 2, pool)
        assert next(first) == (0, 0)
        first.close()
        assert list(again(halve, [6, 8], 2, pool)) == [(6, 3), (8, 4)]
        with pytest.raises(ValueError, match="-1 is below zero"):
            list(again(halve, [4, -1, 5], 2, pool))
        assert list(again(halve, [2], 2, pool)) == [(2, 1)]


def test_closing_early_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: trouble.append(args.exc_value))
    for taken in [1, 2, 3, 4, 5, 6, 7] * 6:
        results = spread(linger, range(1000), 2)
        assert list(islice(results, taken)) == [(number, number) for number in range(taken)]
        results.close()
    assert trouble == []


def test_nobody_is_left_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.stdout.close()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
