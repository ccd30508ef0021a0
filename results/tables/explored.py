"""What an exploration leaves in a store, as rows of the table `seeds`: of every seed, also where its run was not kept.

A journal is a file of JSON lines beside the runs: first what is explored, with what and since when, then a line a seed
as it is done. `explore-KEY.jsonl` is that of the newest exploration of a scenario, `ID.jsonl` one of before.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Result
from results.tables.manifest import filesystem
from results.tables.record import version_of
from results.tables.schema import SCHEMA_VERSION

SCHEMA = 2
SUFFIX = ".jsonl"
MARK = "explore-"

# What `runs` says in these columns, from the checkers of a run: which checker, and which of its counts or metrics.
_NUMBERS = {
    "published": ("messages", "attempts"),
    "confirmed": ("messages", "confirmed"),
    "lost": ("messages", "lost"),
    "duplicated": ("messages", "duplicated"),
    "confirmed_under_faults": ("availability", "confirmed-under-faults"),
    "outage": ("availability", "longest_gap"),
    "recovery": ("availability", "longest_recovery"),
    "failover": ("leaders", "longest_vacancy"),
}


@dataclass(frozen=True)
class Explored:
    """The journal of one exploration. `name`: of its file. `rows`: of the table `seeds`, where `reason` is None."""

    name: str
    id: str = ""
    fingerprint: str = ""
    day: str = ""
    scenario: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    going_on: bool = False


def is_journal(name: str) -> bool:
    """Whether a file of a store is the journal of an exploration."""
    return name.endswith(SUFFIX) and MARK in name


def numbers(results: Mapping[str, Result]) -> dict[str, int]:
    """What the checkers of a run counted and measured, by columns of the table `runs`."""
    found = {}
    for column, (checker, name) in _NUMBERS.items():
        if (result := results.get(checker)) is not None:
            value = result.counts.get(name, result.metrics.get(name))
            if isinstance(value, int | float):
                found[column] = int(value)
    claims = Counter(claim["key"] for claim in _metric(results, "leaders", "claims"))
    measured = {
        "outage": found.get("confirmed", 1) > 0,
        "recovery": bool(_metric(results, "availability", "recovery")),
        "failover": any(number > 1 for number in claims.values()),
    }  # where nothing was, the checkers' 0 is none
    return {column: number for column, number in found.items() if measured.get(column, True)}


def _metric(results: Mapping[str, Result], checker: str, name: str) -> list[Any]:
    told = results[checker].metrics.get(name, []) if checker in results else []
    return told if isinstance(told, list) else []


def explored(store: str) -> Iterator[Explored]:
    """Every exploration of a store, by the names of their files. Raises SplitbrainError when it cannot be listed."""
    fs, root = filesystem(store)
    try:
        below = fs.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    except OSError as error:
        raise SplitbrainError(f"{store}: cannot be listed: {error}") from None
    names = sorted(info.base_name for info in below if info.type == pafs.FileType.File)
    local = isinstance(fs, pafs.LocalFileSystem)
    for name in filter(is_journal, names):
        if local and held(Path(root) / name):
            yield Explored(name, going_on=True)
            continue
        try:
            with fs.open_input_stream(f"{root}/{name}") as file:
                yield read(name, file.read())
        except OSError as error:
            yield Explored(name, reason=f"cannot be read: {error}")


def read(name: str, text: bytes) -> Explored:
    """A journal, as far as it is whole: a last line without an end is left out."""
    whole = text[: text.rfind(b"\n") + 1]
    digest = hashlib.blake2b(whole, digest_size=12).hexdigest()
    try:
        lines = whole.splitlines()
        head = json.loads(lines[0])
        if head["schema"] != SCHEMA:
            raise ValueError(f"schema {head['schema']!r}; this version reads {SCHEMA}")
        begun, about = datetime.fromisoformat(head["begun"]), tomllib.loads(head["scenario"])
        broker = about["cluster"]["broker"].partition("@")[0]
        same = {
            "run": head["id"],
            "day": f"{begun:%Y-%m-%d}",
            "scenario": about["name"],
            "created": begun,
            "broker": broker,
            "version": version_of(about, {}),
            "swarm": head["swarm"],
            "splitbrain": head["versions"].get("splitbrain"),
            "commit": head["versions"].get("commit"),
            "python": head["versions"].get("python"),
            "fingerprint": digest,
            "schema": SCHEMA_VERSION,
        }
        # of a seed that was run again the last line counts
        rows = list({row["seed"]: same | row for row in map(_row, map(json.loads, lines[1:]))}.values())
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        return Explored(name, name.removesuffix(SUFFIX), digest, reason=f"not the journal of an exploration: {error}")
    return Explored(name, same["run"], digest, same["day"], same["scenario"], rows)


def _row(said: Mapping[str, Any]) -> dict[str, Any]:
    found = said["coverage"]
    kinds = dict.fromkeys(f"{failure['checker']}.{failure['anomaly']}" for failure in said["failures"])
    return {
        "seed": said["seed"],
        "kept": said["run"],
        "verdict": said["verdict"],
        "verdicts": list(said["verdicts"].items()),
        "kinds": list(kinds),
        "failures": json.dumps(said["failures"]),
        "why": list(said["why"].items()),
        "faults": sum(found["faults"].values()),
        "leader_changes": found["leader_changes"],
        "digest": said["digest"],
        **said["numbers"],
    }


def held(path: Path) -> bool:
    """Whether the exploration of a journal is going on."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
