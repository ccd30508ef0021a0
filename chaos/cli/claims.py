"""`splitbrain claims`: the promises of the brokers' own documents, each held to in simulation."""

from __future__ import annotations

from pathlib import Path

import click

import chaos
from chaos import suite
from chaos.cli import options
from chaos.cli.suite import run
from chaos.search.suite_plan import plan
from chaos.search.suites import EVERY, NOTHING, UNEXPECTED
from results.store import Store

FILE = Path("suites", "claims.toml")


@click.command
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="So many seeds of each claim.  [default: 20]")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Runs at a time; as a rule one a core.")
@click.option(
    "--keep",
    type=click.Choice([EVERY, UNEXPECTED, NOTHING]),
    default=UNEXPECTED,
    show_default=True,
    help="Which runs are kept in the store.",
)
@options.store
@options.as_json
def command(rows: tuple[str, ...], seeds: int | None, jobs: int | None, keep: str, store: Store, as_json: bool) -> int:
    """Hold brokers to their promises, in simulation: which design keeps which promise under which fault.

    ROW: only claims whose names begin so, such as quorum or mirrored-autoheal. The claims are a suite,
    suites/claims.toml; exit code 0 if all are as they say, 1 if one is not.
    """
    claims = suite.load(file(), seeds).only(rows)
    return run(claims, plan(claims, file(), keep=keep), jobs, store, as_json)


def file() -> Path:
    """Where the claims are: beside the packages in a checkout, within `chaos` in what was installed."""
    package = Path(chaos.__file__).parent
    return next((path for path in (package / FILE, package.parent / FILE) if path.exists()), package / FILE)
