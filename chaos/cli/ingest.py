"""`splitbrain ingest`: make tables of a store of runs, or bring them up to date."""

from __future__ import annotations

import click

from chaos.cli import options
from chaos.cli.output import print_json
from chaos.cli.spark_options import spark
from results.spark.session import Where, opened
from results.store import DEFAULT
from results.tables.manifest import FOLDER, Tables
from results.text import count, plural, printable


@click.command
@click.argument("store", envvar="SPLITBRAIN_STORE", default=DEFAULT)
@options.tables
@click.option(
    "--keep-verdicts", is_flag=True, help="Take the verdicts that runs have (verdict.json), instead of judging anew."
)
@spark
@options.as_json
def command(store: str, tables: str | None, keep_verdicts: bool, where: Where, as_json: bool) -> int:
    """Make tables of a STORE of runs, or bring them up to date: only runs that are new or have changed are read.

    STORE is a folder of runs, or a path in an object store (s3://bucket/nightly). The tables go to STORE/tables. Runs
    are judged by the checkers of their scenarios. What cannot be read is listed in the table `rejected` and stops no
    other; runs that are going on are left for later; runs that are no longer in the store stay in the tables.
    """
    from results.spark.check import judging
    from results.spark.ingest import ingest, told
    from results.spark.verdicts import kept

    with opened(where) as session:
        place = Tables(tables or f"{store}/{FOLDER}")
        judge = kept if keep_verdicts else judging()
        done = ingest(session, store, place, judge, say=lambda line: click.echo(line, err=True))
    if as_json:
        print_json(told(done))
        return 0
    if not done.new and not done.changed and not done.explored:
        click.echo(f"nothing new: {plural(done.unchanged, 'run')} as they were (generation {done.generation})")
    else:
        click.echo(
            f"generation {done.generation}: {plural(len(done.new), 'new run')}, {count(len(done.changed))} changed, "
            f"{count(done.unchanged)} as they were; {plural(done.ops, 'operation')}"
        )
    for name, seeds in done.explored.items():
        click.echo(f"explored {printable(name)}: {plural(seeds, 'seed')}")
    for name, reason in done.rejected.items():
        click.echo(f"rejected {printable(name)}: {printable(reason)}")
    if done.going_on:
        click.echo(f"left for later, going on: {printable(', '.join(done.going_on))}")
    if done.gone:
        click.echo(f"kept in the tables, though no longer in the store: {plural(len(done.gone), 'run')}")
    return 0
