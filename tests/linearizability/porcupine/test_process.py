"""The worker as a process: whatever becomes of it, or of us, there is a sentence and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from checkers.linearizability.calls import Calls, F, calls
from checkers.linearizability.porcupine import models, search, worker
from checkers.linearizability.porcupine.build import toolchain
from checkers.linearizability.porcupine.process import Died, Worker, resident

PATIENCE = 60.0  # s, after which a test fails that would wait for ever
GOOD = calls([(F.WRITE, 1, None, 0, 1), (F.READ, None, 1, 2, 3)])
STALE = calls([(F.WRITE, 1, None, 0, 1), (F.WRITE, 2, None, 2, 3), (F.READ, None, 1, 4, 5)])

# A worker in Python: `answer` makes the blocks of an answer of those of a request.
WORKER = """
import struct, sys, time, os, signal
def read(length):
    got = sys.stdin.buffer.read(length)
    if len(got) < length:
        sys.exit(0)
    return got
def blocks():
    (count,) = struct.unpack("<Q", read(8))
    return [read(length) for length in struct.unpack(f"<{count}Q", read(8 * count))]
while True:
    request = blocks()
    answer = %s
    sys.stdout.buffer.write(struct.pack(f"<{len(answer) + 1}Q", len(answer), *map(len, answer)) + b"".join(answer))
    sys.stdout.buffer.flush()
"""


def python(answer: str) -> Worker:
    return Worker([sys.executable, "-c", WORKER % answer])


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while not gone(pid):
        assert time.monotonic() < end, f"process {pid} lives on"
        time.sleep(0.01)


@pytest.fixture
def echo() -> Iterator[Worker]:
    made = python("request[::-1]")
    yield made
    made.close()


def test_blocks_of_any_size_go_both_ways(echo: Worker) -> None:
    large = np.arange(2_000_000, dtype="<i8")
    assert echo.ask([b"", b"one", large, b"x" * 70_000]) == [b"x" * 70_000, large.tobytes(), b"one", b""]
    first = echo.pid
    assert echo.ask([]) == []
    assert echo.pid == first, "one process for all"


def test_threads_are_answered_one_after_the_other_each_its_own(echo: Worker) -> None:
    found: dict[int, list[list[bytes]]] = {}

    def ask(number: int) -> None:
        found[number] = [echo.ask([str(number).encode() * 1000, b"%d" % turn]) for turn in range(20)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [[b"%d" % turn, str(number).encode() * 1000] for turn in range(20)] for number in range(8)}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("sys.exit('out of coffee')", "the worker died; out of coffee"),
        ("sys.exit(3)", "the worker ended with code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the worker died; killed by SIGSEGV"),
        ("print('panic: no', file=sys.stderr) or sys.exit('goroutine 1')", "the worker died; panic: no"),
        ("os.write(1, b'half') and sys.exit('cut')", "the worker died; cut"),
        ("os.write(1, bytes([2] + [0] * 7)) and sys.exit('cut')", "the worker died; cut"),
    ],
)
def test_a_worker_that_dies_says_why_and_the_next_is_asked_anew(tmp_path: Path, answer: str, why: str) -> None:
    mark = tmp_path / "died"
    once = f"[b'well'] if os.path.exists({str(mark)!r}) else (os.close(os.open({str(mark)!r}, os.O_CREAT)), {answer})"
    frail = python(once)
    with pytest.raises(Died) as died:
        frail.ask([b"?"])
    assert str(died.value) == why
    assert frail.pid is None
    assert frail.ask([b"?"]) == [b"well"]
    frail.close()


def test_a_worker_that_was_killed_before_it_is_asked_is_started_again(echo: Worker) -> None:
    echo.ask([b"?"])
    assert echo.pid is not None
    os.kill(echo.pid, signal.SIGKILL)
    wait_for(echo.pid)
    assert echo.ask([b"?"]) == [b"?"]


def test_a_worker_that_cannot_be_started_is_one_line() -> None:
    with pytest.raises(Died, match=r"^the worker does not start: .*No such file or directory"):
        Worker(["/nowhere/worker"]).ask([b"?"])


def test_one_that_takes_too_long_or_too_much_is_killed() -> None:
    slow = python("time.sleep(3600)")
    with pytest.raises(Died, match=r"^it did not stop in time, and was killed$"):
        slow.ask([b"?"], timeout=0.2)
    greedy = python("[bytearray(200 << 20), time.sleep(3600)]")
    with pytest.raises(Died, match=r"^it grew above 100 MiB, and was killed$"):
        greedy.ask([b"?"], memory=100 << 20)
    assert (slow.pid, greedy.pid) == (None, None)


def test_a_process_that_ended_has_no_memory() -> None:
    assert resident(os.getpid()) > 1 << 20
    assert resident(2**22 + 1) == 0


def hard() -> Calls:
    """A queue of 14 values, filled at once and emptied at once, that no order explains."""
    rows: list[tuple[F, int | None, int | None, int, int | None]]
    rows = [(F.PUT, max(place, 1) - 1, None, place, 100 + place) for place in range(14)]
    rows += [(F.TAKE, None, value, 200 + value, 300 + value) for value in range(13)]
    return calls([*rows, (F.PUT, 99, None, 400, 401), (F.TAKE, None, 0, 402, 403), (F.TAKE, None, 98, 404, 405)])


def ask_in_a_thread(found: list[object]) -> threading.Thread:
    """A search that would take hours; the thread, once its worker is at it."""
    before = _pid()
    thread = threading.Thread(target=lambda: found.append(search(hard(), "fifo-queue", timeout=3600.0)))
    thread.start()
    end = time.monotonic() + PATIENCE
    while _pid() in (None, before) or _busy(_pid()) < 5:
        assert time.monotonic() < end, "no search is going on"
        time.sleep(0.01)
    return thread


def _pid() -> int | None:
    return worker._workers[None].pid if None in worker._workers else None


def _busy(pid: int | None) -> int:
    """Ticks of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.usefixtures("binary")
def test_a_search_whose_worker_is_killed_is_unknown_and_the_next_is_searched() -> None:
    worker.close()
    found: list[object] = []
    thread = ask_in_a_thread(found)
    killed = _pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    thread.join()
    (decision,) = found
    assert getattr(decision, "valid", 0) is None
    assert getattr(decision, "reason", "") == "Porcupine gave no answer: the worker died; killed by SIGKILL"
    assert search(STALE, "register").valid is False


@pytest.mark.usefixtures("binary")
def test_a_forked_child_has_a_worker_of_its_own() -> None:
    assert search(GOOD, "register").valid is True
    mine = _pid()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = b"failed"
        try:
            before = _pid()
            decided = search(STALE, "register").valid, search(GOOD, "register").valid
            said = repr((before, decided, _pid() not in (None, mine))).encode()
            worker.close()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read().decode() == "(None, (False, True), True)"
    os.waitpid(child, 0)
    assert search(STALE, "register").valid is False
    assert _pid() == mine, "ours was left alone"


@pytest.mark.usefixtures("binary")
def test_a_child_forked_amid_a_search_can_search() -> None:
    worker.close()
    found: list[object] = []
    thread = ask_in_a_thread(found)
    child = os.fork()
    if not child:
        valid = None
        try:
            valid = search(STALE, "register").valid
            worker.close()
        finally:
            os._exit(0 if valid is False else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thread.is_alive()
    searching = _pid()
    assert searching is not None
    os.kill(searching, signal.SIGKILL)
    thread.join()


def valid(some: Calls) -> bool | None:
    return search(some, "register").valid


@pytest.mark.usefixtures("binary")
def test_a_pool_of_forked_processes_searches() -> None:
    search(GOOD, "register")
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        assert list(pool.map(valid, [GOOD, STALE] * 6)) == [True, False] * 6


SEARCHING = """
from tests.linearizability.porcupine.test_process import _busy, _pid, hard
from checkers.linearizability.porcupine import search
import threading, time
def tell():
    while _pid() is None or _busy(_pid()) < 5:
        time.sleep(0.01)
    print(_pid(), flush=True)
threading.Thread(target=tell, daemon=True).start()
try:
    search(hard(), "fifo-queue", timeout=3600.0)
except KeyboardInterrupt:
    print("interrupted", _pid(), flush=True)
"""


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "interrupted None\n"), (signal.SIGKILL, "")])
def test_who_is_interrupted_or_killed_amid_a_search_leaves_no_worker(number: signal.Signals, said: str) -> None:
    """SIGINT goes to the whole group, as a terminal's Ctrl-C does."""
    root = Path(__file__).resolve().parents[3]
    controller = subprocess.Popen(
        [sys.executable, "-c", SEARCHING], cwd=root, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert controller.stdout
    pid = int(controller.stdout.readline())
    assert not gone(pid)
    os.killpg(controller.pid, number)
    out, _ = controller.communicate(timeout=PATIENCE)
    assert out == said
    wait_for(pid)


PANIC = """
package models

import "splitbrain/porcupine/search"

func init() {
	Register("bomb", func(Parameters) search.Model {
		return search.Spec[int]{
			Init:  func() int { return 0 },
			Step:  func(int, *search.Call) (int, bool) { panic("it went off") },
			Equal: func(a, b int) bool { return a == b },
		}
	})
}
"""


@pytest.mark.skipif(toolchain() is None, reason="no Go to build a model with")
def test_a_model_that_panics_is_unknown_with_its_message(tmp_path: Path) -> None:
    source = tmp_path / "bomb.go"
    source.write_text(PANIC, encoding="utf-8")
    bomb = models.custom("bomb", source, (F.WRITE, F.READ))
    decision = search(GOOD, bomb)
    assert decision.valid is None
    assert decision.reason == "Porcupine gave no answer: the worker died; panic: it went off"
    assert search(GOOD, "register").valid is True
