"""What a suite was to run, and what became of it: a folder a suite's run, or a folder a part of it (a shard).

suite-runs/20261120-020000-nightly/           or .../20261120-020000-nightly.2-of-4/
    suite.json     what is planned: every cell with its seeds and what is expected of it, of all parts alike
    cells.jsonl    a line an attempt, as it ends: which cell, seed and attempt, which run, and what it showed

Parts of one suite's run may be made on several machines: copied into one store, they are one again. What was planned,
and has no line, is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from chaos.model.errors import BadInput, SplitbrainError, nearest
from results.store import LATEST, dumps, writing

SCHEMA = 1
FOLDER = "suite-runs"
RUNNING, DONE, INTERRUPTED = "running", "done", "interrupted"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PART = re.compile(r"(?P<id>.+)\.(?P<part>\d+)-of-(?P<parts>\d+)")

Key = tuple[str, int, int]  # cell, seed, and which repetition of it, from 1


@dataclass(frozen=True)
class Cell:
    """One case of one row. `cell`: its id, "row [label]"; `scenario`: the name of its runs. `expected`: in words, and
    `expect`: as data (`chaos.expectation`). `digest`: of everything that is to be run. `quarantine`: owner, until and
    why, where it is known to be bad."""

    cell: str
    row: str
    label: str
    scenario: str
    broker: str
    version: str | None
    on: str
    claim: str
    said_by: str
    expected: str
    expect: Mapping[str, Any]
    seeds: tuple[int, ...]
    digest: str
    quarantine: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Plan:
    """What suite.json says. Times are UTC, ISO 8601; `finished` is None until all of this part is done. `commit` and
    `splitbrain`: with what it is run. `shard`: which part of how many; (1, 1) for all of it. `repeat`: how often each
    seed is run; `retries`: how often more while nothing is known. `rerun_of`: whose failures it runs once more."""

    id: str
    suite: str
    file: str
    created: str
    splitbrain: str | None
    commit: str | None
    cells: tuple[Cell, ...]
    shard: tuple[int, int] = (1, 1)
    repeat: int = 1
    retries: int = 0
    keep: str = "all"
    rerun_of: str | None = None
    finished: str | None = None
    schema: int = SCHEMA

    @property
    def folder(self) -> str:
        """The name of this part's folder."""
        return self.id if self.shard == (1, 1) else f"{self.id}{mark(self.shard)}"

    def planned(self) -> Iterator[Key]:
        """Everything that is planned, in all parts: cell, seed, repetition."""
        for cell in self.cells:
            for seed in cell.seeds:
                for repetition in range(1, self.repeat + 1):
                    yield cell.cell, seed, repetition

    def mine(self, key: Key) -> bool:
        """Whether it is this part's to run."""
        return part_of(key, self.shard[1]) == self.shard[0]


@dataclass(frozen=True)
class Line:
    """An attempt that ended: the run that it is kept as, or None, and what it showed. `why`: unless it was valid.
    `measured` and `versus`: the number that the expectation is about, of this run and of that it is compared with."""

    cell: str
    seed: int
    repetition: int
    attempt: int
    run: str | None
    verdict: str
    anomalies: tuple[str, ...] = ()
    why: str = ""
    measured: float | None = None
    versus: float | None = None
    ended: str = ""

    @property
    def key(self) -> Key:
        return self.cell, self.seed, self.repetition


def mark(shard: tuple[int, int]) -> str:
    """What the names of a part's own things end in: ".2-of-4"; nothing for the whole."""
    return "" if shard == (1, 1) else f".{shard[0]}-of-{shard[1]}"


def part_of(key: Key, parts: int) -> int:
    """Which of so many parts runs it, from 1: by what it is called alone, whatever else the suite has."""
    digest = hashlib.blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % parts + 1


@dataclass(frozen=True)
class Part:
    """One folder. Its lines are read when they are asked for: a store has many nights."""

    path: Path
    plan: Plan

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Every attempt that ended. Raises SplitbrainError where they cannot be read."""
        file = self.path / "cells.jsonl"
        try:
            return tuple(_lines(file))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SplitbrainError(f"{file}: not the lines of a suite's run: {error}") from None

    @property
    def state(self) -> str:
        """running, done, or interrupted."""
        if self.plan.finished is not None:
            return DONE
        return RUNNING if _held(self.path) else INTERRUPTED


@dataclass(frozen=True)
class SuiteRun:
    """A suite's run, of all of its parts that are here."""

    parts: tuple[Part, ...] = field(repr=False)

    @property
    def plan(self) -> Plan:
        """What is planned in all parts; `shard` is that of the first that is here."""
        return self.parts[0].plan

    @property
    def id(self) -> str:
        return self.plan.id

    @property
    def created(self) -> str:
        """When the first part began."""
        return min(part.plan.created for part in self.parts)

    @property
    def lines(self) -> list[Line]:
        """Every attempt, in all parts."""
        return [line for part in self.parts for line in part.lines]

    @cached_property
    def last(self) -> dict[Key, Line]:
        """What each seed came to: its last attempt."""
        found: dict[Key, Line] = {}
        for line in self.lines:
            if line.key not in found or line.attempt >= found[line.key].attempt:
                found[line.key] = line
        return found

    @property
    def missing(self) -> list[Key]:
        """What is planned and was not run, or not to its end."""
        return [key for key in self.plan.planned() if key not in self.last]

    @property
    def absent(self) -> list[int]:
        """The numbers of the parts that are not here."""
        here = {part.plan.shard[0] for part in self.parts}
        return [number for number in range(1, self.plan.shard[1] + 1) if number not in here]

    @property
    def state(self) -> str:
        """running if a part is, else interrupted if something is missing, else done."""
        if any(part.state == RUNNING for part in self.parts):
            return RUNNING
        return INTERRUPTED if self.missing else DONE


def suite_runs(store: Path) -> list[SuiteRun]:
    """Every one, oldest first. What is not a suite's run is passed over."""
    parts: dict[str, list[Part]] = {}
    try:
        paths = sorted(path for path in (store / FOLDER).iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    for path in paths:
        try:
            part = read(path)
        except SplitbrainError:
            continue
        parts.setdefault(part.plan.id, []).append(part)
    found = [merged(each) for each in parts.values()]
    return sorted(found, key=lambda one: (one.created, one.id))


def find(store: Path, name: str, suite: str | None = None) -> SuiteRun:
    """That of this id or unique prefix, or the `latest` (of the suite of that name, where one is given).

    Raises BadInput with the candidates when there is none, or more than one.
    """
    found = [one for one in suite_runs(store) if suite is None or one.plan.suite == suite]
    of = f" of {suite!r}" if suite is not None else ""
    if not found:
        raise BadInput(f"there is no suite's run{of} in {store}: make one with `splitbrain suite FILE`")
    if name == LATEST:
        return _agreed(found[-1])
    ids = [one.id for one in found]
    matches = [one for one in found if name and one.id.startswith(name)]
    exact = [one for one in matches if one.id == name]
    if len(exact or matches) == 1:
        return _agreed((exact or matches)[0])
    newest = ", ".join(list(reversed(ids))[:5])
    if matches:
        raise BadInput(f"{name!r} begins {len(matches)} suites' runs{of} in {store}: {newest}")
    near = nearest(name, [*ids, LATEST])
    hint = f"did you mean {near!r}?" if near else f"the newest are {newest}; or say {LATEST}"
    raise BadInput(f"no suite's run {name!r}{of} in {store}; {hint}")


def merged(parts: Sequence[Part]) -> SuiteRun:
    """Parts of one suite's run as one."""
    return SuiteRun(tuple(sorted(parts, key=lambda part: part.plan.shard)))


def _agreed(run: SuiteRun) -> SuiteRun:
    """Raises BadInput where the parts are not parts of one thing: then what is missing cannot be told."""
    first = run.parts[0].plan
    for part in run.parts[1:]:
        plan = part.plan
        if (plan.cells, plan.repeat, plan.shard[1]) != (first.cells, first.repeat, first.shard[1]):
            raise BadInput(f"{part.path}: its plan is another than that of {run.parts[0].path}: not parts of one run")
    return run


def read(path: Path) -> Part:
    """The suite's run, or part of one, in a folder. Raises SplitbrainError for what is none."""
    file = path / "suite.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}")
        cells = tuple(Cell(**{**cell, "seeds": tuple(cell["seeds"])}) for cell in data.pop("cells"))
        plan = Plan(**{**data, "cells": cells, "shard": tuple(data["shard"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SplitbrainError(f"{file}: not the record of a suite's run: {error}") from None
    return Part(path, plan)


def _lines(file: Path) -> Iterator[Line]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return
    for line in text[: text.rfind(b"\n") + 1].splitlines():  # a last line without an end is torn
        said = json.loads(line)
        yield Line(**{**said, "anomalies": tuple(said["anomalies"])})


class Recorder:
    """Writes a suite's run, or part of one, while it goes on."""

    def __init__(self, path: Path, plan: Plan, file: BinaryIO) -> None:
        self.path = path
        self.plan = plan
        self._file = file

    def add(self, line: Line) -> None:
        """An attempt has ended. It is on disk when this returns. Raises SplitbrainError when it cannot be written."""
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps({**asdict(line), "ended": ended}, separators=(",", ":"), default=str)
        with writing(self.path / "cells.jsonl"):
            self._file.write(text.encode() + b"\n")
            os.fsync(self._file.fileno())

    def finish(self) -> None:
        """All of it is done."""
        self.plan = replace(self.plan, finished=datetime.now(UTC).isoformat(timespec="microseconds"))
        _write(self.path, self.plan)


@contextmanager
def begin(store: Path, plan: Plan) -> Iterator[Recorder]:
    """Record a new suite's run, which is marked as running for as long as this lasts.

    A plan without an id gets one of its time and suite. Raises BadInput for an id that is there already or cannot be
    one, SplitbrainError when it cannot be written.
    """
    folder = store / FOLDER
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if plan.id:
        if not _ID.fullmatch(plan.id) or _PART.fullmatch(plan.id) or plan.id == LATEST:
            raise BadInput(
                f"{plan.id!r} cannot be the id of a suite's run: letters, digits, '.', '_' and '-', at most 64"
            )
        path = folder / plan.folder
        try:
            with writing(path):
                path.mkdir()
        except SplitbrainError as error:
            if path.is_dir():
                again = f"--resume {plan.id} goes on with it"
                raise BadInput(f"there is a suite's run {path.name} in {store}; {again}, or name another") from None
            raise error
    else:
        plan, path = _fresh(folder, plan)
    _write(path, plan)
    with _open(path, plan) as recorder:
        yield recorder


@contextmanager
def resume(part: Part) -> Iterator[Recorder]:
    """Go on with one that was interrupted. Raises BadInput while another process is at it."""
    with _open(part.path, part.plan) as recorder:
        yield recorder


def _fresh(folder: Path, plan: Plan) -> tuple[Plan, Path]:
    when = datetime.fromisoformat(plan.created)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plan.suite).strip("-")[:40]
    stem = f"{when:%Y%m%d-%H%M%S}-{name or 'suite'}"
    for number in range(1, 10_000):
        named = replace(plan, id=stem if number == 1 else f"{stem}-{number}")
        path = folder / named.folder
        with writing(path):
            try:
                path.mkdir()
            except FileExistsError:
                continue
        return named, path
    raise SplitbrainError(f"{folder}: ten thousand suites' runs of {stem}")


@contextmanager
def _open(path: Path, plan: Plan) -> Iterator[Recorder]:
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"{path.name} is being run by another process; wait for it to end") from None
        file = path / "cells.jsonl"
        with writing(file), file.open("ab", buffering=0) as lines:
            text = file.read_bytes()
            lines.truncate(text.rfind(b"\n") + 1)
        with file.open("ab", buffering=0) as lines:
            yield Recorder(path, plan, lines)
    finally:
        os.close(handle)


def _write(path: Path, plan: Plan) -> None:
    """Whole or not at all."""
    file = path / "suite.json"
    aside = path / "suite.json.part"
    with writing(file):
        with aside.open("w", encoding="utf-8") as text:
            text.write(dumps(asdict(plan)) + "\n")
            text.flush()
            os.fsync(text.fileno())
        aside.replace(file)


def _held(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
