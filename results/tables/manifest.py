"""Which files are the tables now: one pointer to one manifest, switched in a single step.

tables/current.json                    {"schema": 1, "generation": "000012"}
tables/manifests/000012.json           {"schema": 1, "generation": "000012", "files": {"runs": [File], ...}}
tables/data/runs/day=.../scenario=.../000012-....parquet

A generation's new files are written first, then its manifest, then the pointer. Until then nothing that is read has
changed, whatever ends the job; what it leaves are files that no manifest names, which the next one removes. Files are
never changed: a run that has changed has its files written anew. Paths are relative to the folder of the tables, which
may be local or in an object store.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs

from chaos.model.errors import BadInput, SplitbrainError
from results.tables.schema import SCHEMA_VERSION, TABLES

FOLDER = "tables"
CURRENT = "current.json"
OLDEST_READ = 1  # of the schema versions that are still read


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of a table. `path`: relative. `rows` and `size` (bytes): what it holds. `first` and `last`: of its
    runs, by name; empty where that is not known."""

    path: str
    rows: int
    size: int
    day: str
    scenario: str
    first: str = ""
    last: str = ""

    def may_hold(self, run: str) -> bool:
        """Whether a run's rows may be in it."""
        return not self.first or self.first <= run <= self.last


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of every table, in one generation. The first, of a store that was never read, is empty."""

    generation: int = 0
    schema: int = SCHEMA_VERSION
    files: Mapping[str, Sequence[File]] = field(default_factory=lambda: dict.fromkeys(TABLES, ()))

    @property
    def name(self) -> str:
        return f"{self.generation:06d}"


class Tables:
    """The folder of a store's tables: `STORE/tables`, or what `location` names (a path, or s3://..., gs://...)."""

    def __init__(self, location: str | Path) -> None:
        self.location = str(location)
        self.fs, self.root = filesystem(self.location)

    def path(self, relative: str) -> str:
        """A file's path on `fs`."""
        return f"{self.root}/{relative}"

    def current(self) -> Manifest | None:
        """What is current; None where there are no tables. Raises SplitbrainError for tables that cannot be read."""
        pointer = self._read(CURRENT)
        if pointer is None:
            return None
        try:
            name, schema = str(pointer["generation"]), int(str(pointer["schema"]))
        except (KeyError, ValueError):
            raise SplitbrainError(f"{self.location}/{CURRENT}: not the pointer to a manifest") from None
        if not OLDEST_READ <= schema <= SCHEMA_VERSION:
            raise BadInput(
                f"{self.location}: the tables are of schema {schema}, and this Splitbrain reads {OLDEST_READ} to "
                f"{SCHEMA_VERSION}: use the one that wrote them, or move them away and ingest again"
            )
        data = self._read(f"manifests/{name}.json")
        if data is None:
            raise SplitbrainError(f"{self.location}: {CURRENT} points to manifest {name}, which is not there")
        try:
            files = data["files"]
            assert isinstance(files, dict)
            found = {table: tuple(File(**each) for each in files.get(table, ())) for table in TABLES}
            return Manifest(int(name), schema, found)
        except (KeyError, TypeError, ValueError, AssertionError):
            raise SplitbrainError(f"{self.location}/manifests/{name}.json: not a manifest") from None

    def switch(self, manifest: Manifest) -> None:
        """Make a manifest the current one. Raises SplitbrainError when it cannot be written, or another generation has
        come since the one that it follows: then nothing changed."""
        current = self.current()
        if current is not None and current.generation >= manifest.generation:
            raise SplitbrainError(
                f"{self.location}: another job has written generation {current.name} meanwhile: run it again"
            )
        files = {table: [asdict(file) for file in files] for table, files in manifest.files.items()}
        self._write(
            f"manifests/{manifest.name}.json",
            {"schema": manifest.schema, "generation": manifest.name, "files": files},
        )
        self._write(CURRENT, {"schema": manifest.schema, "generation": manifest.name})

    def tidy(self) -> int:
        """Remove the files that no generation needs: neither the current one, nor the one before, which somebody may be
        reading still. How many they were. Only for who may write them."""
        current = self.current()
        if current is None:
            return self._remove("data", set()) + self._remove("manifests", set())
        kept = {file.path for files in current.files.values() for file in files}
        before = self._read(f"manifests/{current.generation - 1:06d}.json") or {"files": {}}
        assert isinstance(before["files"], dict)
        kept |= {str(file["path"]) for files in before["files"].values() for file in files}
        names = {f"manifests/{current.generation - back:06d}.json" for back in (0, 1)}
        return self._remove("data", kept) + self._remove("manifests", names)

    def _remove(self, folder: str, kept: set[str]) -> int:
        try:
            there = self.fs.get_file_info(pafs.FileSelector(self.path(folder), allow_not_found=True, recursive=True))
            paths = {info.path for info in there if info.type == pafs.FileType.File}
            gone = sorted(paths - {self.path(each) for each in kept})
            for path in gone:
                self.fs.delete_file(path)
        except OSError as error:
            raise SplitbrainError(f"{self.location}/{folder}: cannot be tidied: {error}") from None
        return len(gone)

    def _read(self, relative: str) -> dict[str, object] | None:
        try:
            with self.fs.open_input_stream(self.path(relative)) as file:
                data = json.loads(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise SplitbrainError(f"{self.location}/{relative}: cannot be read: {error}") from None
        if not isinstance(data, dict):
            raise SplitbrainError(f"{self.location}/{relative}: not an object")
        return data

    def _write(self, relative: str, data: Mapping[str, object]) -> None:
        """Whole or not at all: aside and renamed where there are folders; an object store puts objects whole."""
        path = self.path(relative)
        local = isinstance(self.fs, pafs.LocalFileSystem)
        aside = f"{path}.part" if local else path
        try:
            self.fs.create_dir(path.rpartition("/")[0], recursive=True)
            with self.fs.open_output_stream(aside) as file:
                file.write(json.dumps(data, indent=1).encode())
            if local:
                self.fs.move(aside, path)
        except OSError as error:
            raise SplitbrainError(f"{self.location}/{relative}: cannot be written: {error}") from None


def filesystem(location: str) -> tuple[pafs.FileSystem, str]:
    """Where a location is, and its path there. Raises BadInput for one that names no file system that we can reach.

    An S3 that is not Amazon's is the one at AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, as for Amazon's own tools.
    """
    if "?" in location and "://" in location:
        raise BadInput(
            f"{location}: leave out what follows the question mark; credentials, region and endpoint come from the "
            "environment: AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL"
        )
    try:
        if location.startswith("s3://") and (end := _endpoint()) is not None:
            scheme, _, host = end.partition("://")
            fs, path = pafs.FileSystem.from_uri(f"{location}?scheme={scheme}&endpoint_override={quote(host)}")
        elif "://" in location:
            fs, path = pafs.FileSystem.from_uri(location)
        else:
            fs, path = pafs.LocalFileSystem(), str(Path(location).absolute())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"{location}: not a place to keep tables in: {error}") from None
    return fs, path.rstrip("/")


def _endpoint() -> str | None:
    """ "http://host:port", or None for Amazon's."""
    name = next((name for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if os.environ.get(name)), None)
    if name is None:
        return None
    if not re.fullmatch(r"https?://[^/?#]+/?", os.environ[name]):
        raise BadInput(f"{name}={os.environ[name]}: write it as http://HOST:PORT")
    return os.environ[name].rstrip("/")
