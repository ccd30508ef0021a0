"""What an exploration has done so far, beside the runs that it kept: so that it can be interrupted and go on.

One file a scenario, of JSON lines: first what is explored, with what and since when, then a line a seed. One that is
begun anew puts the file of the one before aside, under that one's id. `results.tables.explored` makes a table of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from chaos.model.errors import BadInput
from chaos.scenario import Scenario
from chaos.search.explore import Seed
from results.store import writing
from results.tables.explored import MARK, SCHEMA, SUFFIX
from results.versions import unlike, versions


class Journal:
    """The seeds of one scenario that are done, and where those that were kept are."""

    def __init__(self, store: Path, scenario: Scenario, swarm: bool) -> None:
        about = replace(scenario, seed=0).dumps()
        key = hashlib.blake2b(f"{swarm}\n{about}".encode(), digest_size=6).hexdigest()
        self.path = store / f"{MARK}{key}{SUFFIX}"
        self.done: dict[int, Seed] = {}
        self.runs: dict[int, str] = {}
        begun = datetime.now(UTC)
        said = {"id": f"{begun:%Y%m%d-%H%M%S}-{MARK}{key}", "begun": begun.isoformat(timespec="microseconds")}
        self._head: dict[str, Any] = {
            "schema": SCHEMA, **said, "scenario": about, "swarm": swarm, "versions": versions()
        }  # fmt: skip
        self._file: BinaryIO | None = None
        self._whole = 0  # bytes of what was loaded

    def load(self) -> None:
        """Read what was done, if anything was.

        Raises BadInput for what was done by another version, whose seeds would be other runs.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return
        again = "leave --resume out to start anew"
        whole = text[: text.rfind(b"\n") + 1]  # a last line without an end is torn
        lines = whole.splitlines()
        try:
            head = json.loads(lines[0])
            if head["schema"] != SCHEMA:
                raise ValueError(f"schema {head['schema']!r}")
            others = unlike(head["versions"], self._head["versions"])
            for line in lines[1:]:
                said = json.loads(line)
                self.done[said["seed"]] = Seed.from_json(said)
                if said["run"] is not None:
                    self.runs[said["seed"]] = said["run"]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise BadInput(f"{self.path}: not the state of an exploration ({error}); {again}") from None
        if others:
            raise BadInput(f"--resume: the seeds so far were run with {', '.join(others)}; {again}")
        self._whole = len(whole)

    def begin(self) -> None:
        """Open it for more: with what was loaded, or empty. Raises BadInput while another process is writing it."""
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput("this very scenario is being explored by another process; wait for it to end") from None
        with writing(self.path):
            if self._whole:
                self._file.truncate(self._whole)
                return
            self._put_aside()
            stem, number = self._head["id"], 1
            while self.path.with_name(f"{self._head['id']}{SUFFIX}").exists():  # one of the same second
                number += 1
                self._head["id"] = f"{stem}-{number}"
            self._file.truncate(0)
            self._write(self._head)

    def _put_aside(self) -> None:
        """Keep what another exploration of the same has done. What is no journal of ours is not kept."""
        lines = self.path.read_bytes().splitlines()
        try:
            head = json.loads(lines[0])
            name = Path(f"{head['id']}{SUFFIX}").name if head["schema"] == SCHEMA and len(lines) > 1 else None
        except (IndexError, KeyError, TypeError, ValueError):
            return
        if name is not None:
            aside = self.path.with_name(f"{name}.part")
            shutil.copyfile(self.path, aside)
            aside.replace(self.path.with_name(name))

    def add(self, seed: Seed, run: str | None) -> None:
        """A seed is done, and if it was kept, there."""
        with writing(self.path):
            self._write({**seed.to_json(), "run": run})

    def close(self) -> None:
        """No more is written."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
