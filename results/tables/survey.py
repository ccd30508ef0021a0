"""Which runs a store holds, and what of them has changed since they were last read: by names, sizes and times of files.

A store is a folder, or a path in an object store (`s3://bucket/nightly`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from chaos.model.errors import BadInput, SplitbrainError
from results.store import RunDirectory
from results.tables.explored import is_journal
from results.tables.manifest import FOLDER, filesystem

# What is beside the runs in a store.
NOT_RUNS = (FOLDER, "suite-runs")
FILES = ("run.json", "scenario.toml", "versions.json", "verdict.json", "history.parquet", "history.arrows")
HISTORIES = ("history.parquet", "history.arrows")


@dataclass(frozen=True, slots=True)
class Found:
    """The directory of a run, or what may be one. `path`: on its file system. `sizes`: of those of its files that are
    read, in bytes. `going_on`: a controller holds it now (this can be told of a local folder only)."""

    name: str
    path: str
    sizes: dict[str, int]
    fingerprint: str
    going_on: bool

    @property
    def history(self) -> str | None:
        """The file that holds its history."""
        return next((name for name in HISTORIES if name in self.sizes), None)


def survey(store: str) -> list[Found]:
    """The runs of a store, by name; none where it holds only explorations that kept none. Raises BadInput for what is
    no store, or holds nothing; SplitbrainError when it cannot be listed."""
    fs, root = filesystem(store)
    try:
        here = fs.get_file_info(root)
        if here.type == pafs.FileType.File:
            raise BadInput(f"{store}: a file, not a store of runs")
        # an object store may know no folders: what is below them tells
        below = fs.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    except OSError as error:
        raise SplitbrainError(f"{store}: cannot be listed: {error}") from None
    if any(info.base_name == "run.json" for info in below):
        raise BadInput(f"{store}: this is one run; name the store that it is in ({Path(store).parent})")
    names = sorted(info.base_name for info in below if info.type == pafs.FileType.Directory)
    names = [name for name in names if name not in NOT_RUNS and not name.startswith((".", "_"))]
    explored = any(is_journal(info.base_name) for info in below)
    if not names and not explored:
        there = "there is no such store" if here.type == pafs.FileType.NotFound and not below else "there are no runs"
        raise BadInput(f"{store}: {there}; make some with `splitbrain run` or `splitbrain suite`")
    try:
        files = fs.get_file_info([f"{root}/{name}/{file}" for name in names for file in FILES])
    except OSError as error:
        raise SplitbrainError(f"{store}: cannot be listed: {error}") from None
    local = isinstance(fs, pafs.LocalFileSystem)
    step = len(FILES)
    found = [_found(name, f"{root}/{name}", files[at * step : (at + 1) * step], local) for at, name in enumerate(names)]
    if not explored and not any(one.sizes for one in found):
        raise BadInput(f"{store}: not a store of runs: nothing of a run is in its folders, such as {names[0]}")
    return found


def _found(name: str, path: str, files: Sequence[pafs.FileInfo], local: bool) -> Found:
    total = hashlib.blake2b(digest_size=12)
    sizes = {}
    for info in files:
        if info.type == pafs.FileType.File:
            sizes[info.base_name] = info.size
            total.update(f"{info.base_name} {info.size} {info.mtime_ns}\n".encode())
    return Found(name, path, sizes, total.hexdigest(), local and _going_on(path))


def _going_on(path: str) -> bool:
    try:
        return RunDirectory(Path(path)).running()
    except OSError:
        return False
