"""`splitbrain clean`: remove what runs left behind, and only that."""

from __future__ import annotations

import click

from chaos.cli import options
from chaos.cli.output import print_json
from chaos.model.errors import BadInput
from chaos.model.op import INVOKE
from chaos.scenario import SIMULATED, SSH, ClusterPart, load
from clusters import external
from clusters.hosts import containers, docker, ssh
from clusters.hosts.inventory import inventory
from results.store import RunDirectory, Store
from results.text import printable


@click.command
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="What all runs on this engine made, those of other stores too.")
@click.option("--force", is_flag=True, help="Take runs too that are going on.")
@options.store
@options.as_json
def command(run: str | None, everything: bool, force: bool, store: Store, as_json: bool) -> int:
    """Remove the containers, networks and volumes that a run made; on hosts over SSH, all that it changed there.

    RUN is an id, a unique prefix, `latest` or `last-invalid`. They are found by the run's label, so nothing else is
    touched; what is stored of the run stays. A run that is going on is left alone, wherever its store is. --all does
    not reach hosts over SSH: name the run.
    """
    if everything == (run is not None):
        raise click.UsageError("say which RUN to clean up after, or --all")
    if run is not None:
        removed, left = _one(store.find(run), force), dict[str, str]()
    else:
        removed, left = _all(force)
    if as_json:
        print_json({"removed": removed, "going_on": left})
        return 0
    for thing in removed:
        click.echo(f"removed {printable(thing)}")
    for one, who in left.items():
        click.echo(f"left {printable(one)} alone: it is going on ({printable(who)}); --force takes it too")
    if not removed and not left:
        click.echo("there was nothing to remove")
    return 0


def _one(directory: RunDirectory, force: bool) -> list[str]:
    """What was removed of a run. Raises BadInput for one that is going on."""
    on = directory.run().on
    if on == SIMULATED:
        return []  # a simulated cluster is gone with its process
    if on == external.EXTERNAL:
        if directory.running() and not force:
            raise BadInput(f"{directory.id} is going on: stop it first, with Ctrl-C or SIGTERM, or say --force")
        history = directory.history()
        queues = [history.key[row] or "" for row in history.rows("publish", INVOKE).tolist()]
        return external.clean(directory.id, load(directory.scenario).cluster.hosts["address"], queues)
    if (cluster := _taken(directory)) is not None:
        if directory.running() and not force:
            raise BadInput(f"{directory.id} is going on: stop it first, with Ctrl-C or SIGTERM, or say --force")
        if on == SSH:
            return ssh.clean(directory.id, inventory(cluster.hosts), cluster.names())
        return containers.clean(directory.id, cluster.hosts, cluster.names())
    who = docker.runs().get(directory.id)
    if (who is not None or directory.running()) and not force:
        process = f" ({who})" if who else ""
        raise BadInput(f"{directory.id} is going on{process}: stop it first, with Ctrl-C or SIGTERM, or say --force")
    return docker.clean(directory.id)


def _taken(directory: RunDirectory) -> ClusterPart | None:
    """The cluster of a run that was on somebody's own machines; None for one on hosts that were made for it."""
    try:
        cluster = load(directory.scenario).cluster
    except BadInput:
        if directory.run().on == SSH:
            raise
        return None
    return cluster if cluster.hosts else None


def _all(force: bool) -> tuple[list[str], dict[str, str]]:
    """What was removed; and which runs were left alone, with who holds them."""
    removed, left = list[str](), dict[str, str]()
    for run, who in docker.runs().items():
        if who is not None and not force:
            left[run] = who
        else:
            removed += docker.clean(run)
    return removed, left
