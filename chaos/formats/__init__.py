"""Histories in the formats of others: Jepsen's, Knossos' and Porcupine's, JSON lines, CSV; and in our own.

All become a `chaos.model.history.History`: pairs are found, each completion names its invocation, values that are whole
numbers are in `value` and others in `detail` as {"value": ...}, and of independent keys ([k v]) the key is in `key`.
"""

from __future__ import annotations

from pathlib import Path

from chaos.formats import edn, syntax
from chaos.formats.cells import Problem
from chaos.formats.lines import ops_in_order, read_lines
from chaos.formats.write import write_csv, write_edn, write_jsonl
from chaos.model import history_file
from chaos.model.errors import BadHistory, BadInput, did_you_mean
from chaos.model.history import History
from chaos.model.history_pieces import PARQUET_SUFFIX, STREAM_SUFFIX

# Format: the ends of file names that stand for it.
FORMATS = {
    "edn": (".edn",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "csv": (".csv", ".tsv"),
    "log": (".log", ".txt"),
    "parquet": (PARQUET_SUFFIX,),
    "arrows": (STREAM_SUFFIX,),
}


def load(path: Path, format: str | None = None, *, independent: bool | None = None) -> History:  # noqa: A002
    """The history in a file.

    format: a name out of FORMATS; None = by the end of the file's name. independent: whether every client's value is
    [key value]; None = see whether they all are. Raises BadInput for a format that there is not, BadHistory for a file
    that is no history or breaks the rules of histories, with the line (or the op) that does.
    """
    name = format_of(path, format)
    if name in ("parquet", "arrows"):
        return history_file.read(path)
    if name == "edn":
        try:
            return read_lines(path, syntax.edn_line, keyed=independent)
        except edn.Unfinished:  # ops go over several lines
            return _read_forms(path, independent)
    if name == "csv":
        return _read_csv(path, independent)
    history = read_lines(path, syntax.json_line if name == "jsonl" else syntax.log_line, keyed=independent)
    if name == "log" and not len(history) and path.stat().st_size:
        raise BadHistory(f"{path}: no line holds an op, as in '0 :invoke :read nil'")
    return history


def save(history: History, path: Path, format: str | None = None) -> None:  # noqa: A002
    """Write a history, whole or not at all. Raises BadInput for a format that cannot be written, or that cannot say
    that the history was cut."""
    name = format_of(path, format)
    writers = {"edn": write_edn, "jsonl": write_jsonl, "csv": write_csv, "parquet": history_file.write_parquet}
    if name not in writers:
        raise BadInput(f"{path}: format {name} is only read; written are {', '.join(writers)}")
    if history.cut and name != "parquet":
        raise BadInput(f"{path}: only parquet can say that the history is not whole ({history.cut})")
    writers[name](history, path)


def format_of(path: Path, format: str | None = None) -> str:  # noqa: A002
    """The format that is named, else that of the file's name. Raises BadInput where there is none such."""
    if format is not None:
        if format not in FORMATS:
            raise BadInput(f"format {format!r}: {did_you_mean(format, FORMATS)}")
        return format
    for name, ends in FORMATS.items():
        if path.suffix.lower() in ends:
            return name
    known = " ".join(end for ends in FORMATS.values() for end in ends)
    raise BadInput(f"{path}: what format is it? Its name ends in none of {known}: name one of {', '.join(FORMATS)}")


def _read_forms(path: Path, independent: bool | None) -> History:
    text = path.read_bytes().decode(errors="replace")
    line, counted = 1, 0
    found = []
    try:
        for offset, form in edn.forms(text):
            line, counted = line + text.count("\n", counted, offset), offset
            found.append((line, form))
    except ValueError as error:  # a number of more digits than Python reads
        raise BadHistory(f"{path}, line {line}: {error}") from error
    except edn.EdnError as error:
        line = text.count("\n", 0, error.offset) + 1
        cut = "; the file ends before it does: it was cut off" if isinstance(error, edn.Unfinished) else ""
        raise BadHistory(f"{path}, line {line}: not EDN: {error}{cut}") from error
    return ops_in_order(path, found, keyed=independent)


def _read_csv(path: Path, independent: bool | None) -> History:
    try:
        with path.open("rb") as file:
            header = file.readline().decode("utf-8-sig").rstrip("\r\n")
        if not header.strip():
            raise Problem("there is no line with the names of the columns")
        delimiter, names = syntax.csv_header(header)
    except OSError as error:
        raise BadHistory(f"{path}: cannot be read: {error.strerror or error}") from error
    except (Problem, UnicodeDecodeError) as problem:
        raise BadHistory(f"{path}, line 1: {problem}") from problem
    parse = syntax.csv_line(delimiter, names)
    # A column `key` says the keys, so values are as they are.
    keyed = False if "key" in names else independent
    return read_lines(path, parse, keyed=keyed, skip=1, by_time="start" in names)
