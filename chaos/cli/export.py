"""`splitbrain export`: a table as CSV, JSON lines, Parquet or Arrow, for other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chaos.cli import options
from chaos.cli.run import say
from chaos.model.errors import BadInput, did_you_mean
from results.tables.export import BINARY, FORMATS, export, whole
from results.tables.load import load
from results.tables.schema import TABLES
from results.tables.where import column
from results.text import plural

SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
}


@click.command
@click.argument("table")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="What to write (default: by FILE, or csv).")
@click.option("--columns", metavar="A,B", help="Only these columns, joined with commas.")
@click.option(
    "--where", "conditions", metavar="CONDITION", multiple=True, help='Only these rows: "lost=true". Repeatable: all.'
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Where to.")
@options.anywhere
@options.tables
def command(
    table: str,
    format_: str | None,
    columns: str | None,
    conditions: tuple[str, ...],
    output: Path | None,
    store: str,
    tables: str | None,
) -> int:
    """Write a table to a file, or to stdout.

    TABLE is one of those that `splitbrain ingest` makes: runs, ops, messages, faults, leaders, verdicts, latency or
    rejected.

        splitbrain export messages --where lost=true --columns run,key,id -o lost.csv
    """
    if table not in TABLES:
        raise BadInput(f"no table {table!r}; {did_you_mean(table, TABLES)}")
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    for name in wanted or ():
        column(TABLES[table], name)
    if wanted is not None and len(set(wanted)) < len(wanted):
        raise BadInput(f"--columns {columns}: a column is named twice")
    kind = format_ or (SUFFIXES.get(output.suffix.lower()) if output is not None else None) or "csv"
    found = load(store, tables)[table]
    if output is not None:
        with whole(output) as file:
            rows = export(found, file, kind, columns=wanted, where=conditions)
        say(f"{plural(rows, 'row')} of {table} in {output}")
        return 0
    if kind in BINARY and sys.stdout.isatty():
        raise BadInput(f"{kind} is not for a terminal: say where to with -o FILE, or pipe it on")
    try:
        export(found, sys.stdout.buffer, kind, columns=wanted, where=conditions)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # whoever read it has enough
        raise SystemExit from None
    return 0
