"""Where runs are kept: a directory a run, found by id, unique prefix, `latest` or `last-invalid`.

scenario.toml    as resolved: every setting with its value          nodes/n1/...   each node's logs
schedule.json    the faults that were planned                       verdict.json   what the checkers concluded
ledger.jsonl     the faults as they were injected and undone        junit.xml      the same for CI
versions.json    what it ran with                                   report.html    the same for people
history.arrows   while it runs; then history.parquet                run.json       what the run is, and its status
trace.json       every message, of a run that was shrunk

Beside them: suite-runs/ (see `results.suite_runs`), tables/ (see `results.tables`), and states of explorations.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.model import history_file
from chaos.model.errors import BadInput, SplitbrainError, nearest
from chaos.model.history import History
from chaos.model.history_pieces import PARQUET_SUFFIX, STREAM_SUFFIX

DEFAULT = "splitbrain-runs"
LATEST = "latest"
LAST_INVALID = "last-invalid"

RUNNING = "running"
DONE = "done"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """What a run is. `created`: UTC, ISO 8601. `status`: running (also of a run whose controller was killed), done or
    failed; `problem` says why it failed. Of a run that was part of a suite's run: the `suite_run` (its id), the `cell`
    ("row [label]") and which `attempt` it was, from 1."""

    id: str
    created: str
    name: str
    seed: int
    broker: str
    on: str
    status: str = RUNNING
    problem: str | None = None
    suite_run: str | None = None
    cell: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class PartOf:
    """Of which suite's run a run is part: which of its cells, and the how manieth attempt. `mark` ends the run's id, so
    that runs of a suite that was made in parts, on several machines, can be kept in one store."""

    suite_run: str
    cell: str
    attempt: int = 1
    mark: str = ""


class RunDirectory:
    """The files of one run. What is written through here is whole or absent: it is written aside and renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.scenario = path / "scenario.toml"
        self.schedule = path / "schedule.json"
        self.ledger = path / "ledger.jsonl"
        self.versions = path / "versions.json"
        self.stream = path / f"history{STREAM_SUFFIX}"
        self.parquet = path / f"history{PARQUET_SUFFIX}"
        self.nodes = path / "nodes"
        self.verdict = path / "verdict.json"
        self.junit = path / "junit.xml"
        self.report = path / "report.html"
        self.record = path / "run.json"
        self.trace = path / "trace.json"

    def write(self, path: Path, text: str) -> None:
        """Raises SplitbrainError when it cannot be written, such as on a full disk; then nothing changed."""
        aside = path.with_name(path.name + ".part")
        with writing(path):
            try:
                with aside.open("w", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(path)
            except OSError:
                aside.unlink(missing_ok=True)
                raise

    def write_json(self, path: Path, data: Mapping[str, Any]) -> None:
        """As `write`, of a JSON object."""
        self.write(path, dumps(data) + "\n")

    def run(self) -> Run:
        """What run.json says. Raises SplitbrainError when it is missing or not whole."""
        try:
            return Run(**json.loads(self.record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise SplitbrainError(f"{self.record}: not the record of a run: {error}") from error

    def finish(self, status: str, problem: str | None = None) -> None:
        """Record how the run ended."""
        self._write_run(replace(self.run(), status=status, problem=problem))

    def _write_run(self, run: Run) -> None:
        self.write_json(self.record, asdict(run))

    def read_json(self, path: Path) -> dict[str, Any]:
        """A JSON object of the run; empty where the file is missing or not whole."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def history(self) -> History:
        """The recorded history, from whichever file holds it.

        Raises BadHistory when it cannot be read, BadInput when the run has none (it never got as far).
        """
        for path in (self.parquet, self.stream):
            if path.exists():
                return history_file.read(path)
        raise BadInput(f"{self.path}: the run has no history: it ended before anything was recorded")

    def keep_history(self, history: History) -> None:
        """Keep the history as Parquet, and only then let go of the stream."""
        with writing(self.parquet):
            history_file.write_parquet(history, self.parquet)
            self.stream.unlink(missing_ok=True)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is made meanwhile is made wholly, or the directory is gone: half of a run is none."""
        try:
            yield
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Marks the run as running for as long as this lasts, and no longer, whatever ends this process."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(handle)

    def running(self) -> bool:
        """Whether a controller holds the run now."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
        finally:
            os.close(handle)
        return False


class Store:
    """A directory of runs. It is made when the first run is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(
        self, *, name: str, broker: str, on: str, seed: int, now: datetime, part_of: PartOf | None = None
    ) -> RunDirectory:
        """A directory for a new run. `now` is real time, for the id only: 20261120-235959-rabbitmq-quorum-s1.

        Raises SplitbrainError when the store cannot be written.
        """
        now = now.astimezone(UTC)
        stem = f"{now:%Y%m%d-%H%M%S}-{broker}-s{seed}{part_of.mark if part_of else ''}"
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            for number in range(1, 10_000):
                directory = RunDirectory(self.path / (stem if number == 1 else f"{stem}-{number}"))
                try:
                    directory.path.mkdir()
                except FileExistsError:
                    continue
                run = Run(directory.id, now.isoformat(timespec="microseconds"), name, seed, broker, on)
                if part_of is not None:
                    run = replace(run, suite_run=part_of.suite_run, cell=part_of.cell, attempt=part_of.attempt)
                with directory.whole():
                    directory._write_run(run)
                return directory
        raise SplitbrainError(f"{self.path}: ten thousand runs of {stem}")

    def runs(self) -> list[RunDirectory]:
        """Every run, oldest first. What is not the directory of a run, or only half of one, is passed over."""
        found = []
        try:
            paths = sorted(self.path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        for path in paths:
            directory = RunDirectory(path)
            try:
                found.append((directory.run().created, directory.id, directory))
            except SplitbrainError:
                continue
        return [directory for _, _, directory in sorted(found, key=lambda entry: entry[:2])]

    def find(self, name: str) -> RunDirectory:
        """The run of that id or unique prefix, the `latest`, or the `last-invalid`.

        Raises BadInput with the candidates when there is none, or more than one.
        """
        runs = self.runs()
        if not runs:
            raise BadInput(
                f"there are no runs in {self.path}: make one with `splitbrain run`, or say where with --store"
            )
        if name == LATEST:
            return runs[-1]
        if name == LAST_INVALID:
            for directory in reversed(runs):
                if directory.read_json(directory.verdict).get("valid") is False:
                    return directory
            raise BadInput(f"none of the {len(runs)} runs in {self.path} is invalid")
        ids = [directory.id for directory in runs]
        matches = [directory for directory in runs if name and directory.id.startswith(name)]
        exact = [directory for directory in matches if directory.id == name]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        if matches:
            raise BadInput(f"{name!r} begins {len(matches)} runs in {self.path}: {_some([run.id for run in matches])}")
        near = nearest(name, [*ids, LATEST, LAST_INVALID])
        hint = f"did you mean {near!r}?" if near else f"the newest are {_some(ids)}; or say {LATEST} or {LAST_INVALID}"
        raise BadInput(f"no run {name!r} in {self.path}; {hint}")


def _some(ids: list[str]) -> str:
    newest = list(reversed(ids))[:5]
    return ", ".join(newest) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def dumps(data: Mapping[str, Any]) -> str:
    """JSON of what results hold, NumPy's numbers included."""
    return json.dumps(data, indent=2, default=lambda value: value.item() if hasattr(value, "item") else str(value))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the operating system refuses into one clear line."""
    try:
        yield
    except OSError as error:
        raise SplitbrainError(f"{path}: cannot be written: {error.strerror or error}") from error
