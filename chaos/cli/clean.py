"""`splitbrain clean`: remove what runs left behind, and only that."""

from __future__ import annotations

import click

from chaos.cli import options
from chaos.cli.output import print_json
from chaos.model.errors import BadInput
from chaos.scenario import SIMULATED
from clusters.hosts import docker
from results.store import Store


@click.command
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="What all runs on this engine made, those of other stores too.")
@options.store
@options.as_json
def command(run: str | None, everything: bool, store: Store, as_json: bool) -> int:
    """Remove the containers, networks and volumes that a run made.

    RUN is an id, a unique prefix, `latest` or `last-invalid`. They are found by the run's label, so nothing else is
    touched; what is stored of the run stays. A run that is going on is refused.
    """
    if everything == (run is not None):
        raise click.UsageError("say which RUN to clean up after, or --all")
    directories = store.runs() if run is None else [store.find(run)]
    for directory in directories:
        if directory.running() and directory.run().on != SIMULATED:
            raise BadInput(f"{directory.id} is going on; stop it first (Ctrl-C, or SIGTERM to its process)")
    if run is not None and directories[0].run().on == SIMULATED:
        removed = []  # a simulated cluster is gone with its process
    else:
        removed = docker.clean(None if run is None else directories[0].id)
    if as_json:
        print_json({"removed": removed})
    else:
        for thing in removed:
            click.echo(f"removed {thing}")
        if not removed:
            click.echo("there was nothing to remove")
    return 0
