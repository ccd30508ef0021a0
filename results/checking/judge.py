"""One stored run, and the checkers that its scenario asks: what `splitbrain check` judges, wherever the store is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs

from chaos import scenario
from chaos.model import history_file
from chaos.model.errors import BadInput
from chaos.model.history import History
from chaos.model.registry import CHECKERS, find
from chaos.model.settings import resolve
from checkers.base import Checker
from checkers.split import Split
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


def history(store: str, run: str) -> History:
    """A run's history. Raises BadHistory when it cannot be read, BadInput when there is none."""
    fs, path, name = history_path(store, run)
    return history_file.read(f"{path}/{name}", fs, told=f"{run}/{name}")


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
