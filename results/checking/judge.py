"""One stored run, and the checkers that its scenario asks: what `splitbrain check` judges, wherever the store is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs

from chaos import scenario
from chaos.model import history_file
from chaos.model.errors import BadHistory, BadInput
from chaos.model.history import SCHEMA, History
from chaos.model.history_pieces import Pieces, opened, plain
from chaos.model.history_rules import Rules
from chaos.model.registry import CHECKERS, find
from chaos.model.settings import resolve
from checkers.base import Checker
from checkers.split import Split
from checkers.split_stream import Survey
from results.store import Run
from results.tables.manifest import filesystem
from results.tables.survey import HISTORIES


@dataclass(frozen=True)
class Asked:
    """A checker, and what it is told."""

    checker: Checker
    options: Mapping[str, Any]


def asked(store: str, run: str) -> dict[str, Asked]:
    """The checkers that a run's scenario asks, by name, in its order. Raises BadInput for what is not the directory of
    a run, for a scenario that cannot be read, and for a checker or a setting that there is not."""
    fs, root = filesystem(store)

    def text(name: str) -> str:
        try:
            with fs.open_input_stream(f"{root}/{run}/{name}") as file:
                said: str = file.read().decode()
                return said
        except FileNotFoundError:
            raise BadInput(f"{run}: no {name}: it is not the directory of a run, or only half of one") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{run}/{name}: cannot be read: {error}") from None

    try:
        Run(**json.loads(text("run.json")))
    except (ValueError, TypeError) as error:
        raise BadInput(f"{run}/run.json: not the record of a run: {error}") from None
    return ready(scenario.loads(text("scenario.toml"), f"{run}/scenario.toml").checkers)


def ready(chosen: Mapping[str, Mapping[str, Any]]) -> dict[str, Asked]:
    """Checkers by name, with a value for each of their settings. Raises BadInput as `asked` does."""
    found = {}
    for name, said in chosen.items():
        checker: Checker = find(CHECKERS, name)()
        found[checker.name] = Asked(checker, resolve(checker.settings, said, f"checkers.{name}"))
    return found


class Source:
    """The history of a run, read piece by piece, as often as it is asked for."""

    def __init__(self, store: str, run: str) -> None:
        """Raises BadInput when there is none."""
        self._fs, folder, name = history_path(store, run)
        self._path, self._told = f"{folder}/{name}", f"{run}/{name}"

    def history(self) -> History:
        """All of it, in memory. Raises BadHistory when it cannot be read, or breaks the rules."""
        return history_file.read(self._path, self._fs, told=self._told)

    def rows(self) -> int:
        """How many it has; 0: that is not known. Raises BadHistory."""
        with self._opened() as pieces:
            return pieces.rows

    def survey(self) -> Survey:
        """What is known of it once all of it was read, and held to the rules. Raises BadHistory."""
        seen, rules = Survey(), Rules()
        try:
            with self._opened() as pieces:
                for some in pieces.read():
                    rules.take(plain(some))
                    seen.take(some)
        except BadHistory:
            self.history()  # says it as whoever reads all at once
            raise
        return seen

    def read(self) -> Iterator[History]:
        """Its rows; in the end none, and why it is not whole. Raises BadHistory."""
        with self._opened() as pieces:
            for some in pieces.read():
                yield History.from_table(some)
            yield History.from_table(SCHEMA.empty_table(), pieces.cut)

    @contextmanager
    def _opened(self) -> Iterator[Pieces]:
        try:
            with opened(self._path, self._fs) as pieces:
                yield pieces
        except BadHistory as error:
            raise BadHistory(f"{self._told}: {error}") from error


def history_path(store: str, run: str) -> tuple[pafs.FileSystem, str, str]:
    """The file system, the folder of a run, and the name of the file that holds its history. Raises BadInput."""
    fs, root = filesystem(store)
    path = f"{root}/{run}"
    for name, info in zip(HISTORIES, fs.get_file_info([f"{path}/{name}" for name in HISTORIES]), strict=True):
        if info.is_file:
            return fs, path, name
    raise BadInput(f"{run}: the run has no history: it ended before anything was recorded")


def parted(wanted: Mapping[str, Asked], split: Split) -> dict[str, Asked]:
    """Those that may be cut so."""
    return {name: one for name, one in wanted.items() if one.checker.split is split}


def names(wanted: Iterable[str], only: Iterable[str] | None) -> list[str]:
    """Those that are asked, or of them those that are meant."""
    chosen = set(only) if only is not None else None
    return [name for name in wanted if chosen is None or name in chosen]
