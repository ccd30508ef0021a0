"""`splitbrain clean`: remove what runs left behind, and only that."""

from __future__ import annotations

from collections.abc import Mapping

import click

from chaos.cli import options
from chaos.cli.output import print_json
from chaos.model.errors import EXIT_ERROR, EXIT_VALID, BadInput, SplitbrainError
from chaos.model.op import INVOKE
from chaos.scenario import SIMULATED, SSH, ClusterPart, load
from clusters import external
from clusters.hosts import containers, docker, ssh
from clusters.hosts.inventory import inventory
from clusters.hosts.taken import Shell, leave, present
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
    touched; what is stored of the run stays. A run that is going on is left alone, wherever its store is. --all goes to
    every host over SSH, and into every container of yours, that a run in this store was on.
    """
    if everything == (run is not None):
        raise click.UsageError("say which RUN to clean up after, or --all")
    if run is not None:
        removed, left, unreached = _one(store.find(run), force), dict[str, str](), list[str]()
    else:
        removed, left, unreached = _all(store, force)
    if as_json:
        print_json({"removed": removed, "going_on": left, "unreached": unreached})
        return EXIT_ERROR if unreached else EXIT_VALID
    for thing in removed:
        click.echo(f"removed {printable(thing)}")
    for one, who in left.items():
        click.echo(f"left {printable(one)} alone: it is going on ({printable(who)}); --force takes it too")
    for problem in unreached:
        click.echo(f"splitbrain: error: {printable(problem)}", err=True)
    if not removed and not left and not unreached:
        click.echo("there was nothing to remove")
    return EXIT_ERROR if unreached else EXIT_VALID


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
        part = load(directory.scenario).cluster
        hosts = ssh.clean(directory.id, inventory(part.hosts[SSH]), part.names()) if SSH in part.hosts else []
        return hosts + external.clean(directory.id, part.hosts["address"], queues)
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


def _all(store: Store, force: bool) -> tuple[list[str], dict[str, str], list[str]]:
    """What was removed; which runs were left alone, with who holds them; which hosts could not be reached, and why."""
    removed, left, unreached = _hosts(store, force)
    for run, who in docker.runs().items():
        if who is not None and not force:
            left[run] = who
        else:
            removed += docker.clean(run)
    return removed, left, unreached


def _hosts(store: Store, force: bool) -> tuple[list[str], dict[str, str], list[str]]:
    """The same, of the machines that runs of this store were on: each is asked once which of them are there yet."""
    removed, left, unreached = list[str](), dict[str, str](), list[str]()
    ways: dict[str, Shell] = {}
    known: dict[str, RunDirectory] = {}
    for directory in reversed(store.runs()):  # the newest knows best how a host is reached
        try:
            cluster = _taken(directory)
        except SplitbrainError:
            continue  # nobody can say any more where it was
        if cluster is not None:
            known[directory.id] = directory
            ways = {**_shells(cluster), **ways}
    for shell in ways.values():
        try:
            shell.root()
            for run in present(shell):
                if run in known and known[run].running() and not force:
                    left[run] = f"on {shell.label}"
                elif run in known:
                    removed += [f"{what} on {shell.label}" for what in leave(shell, run)]
        except SplitbrainError as error:
            unreached.append(str(error))
        finally:
            shell.drop()
    return removed, left, unreached


def _shells(cluster: ClusterPart) -> Mapping[str, Shell]:
    """Ways to the machines that a cluster was on."""
    if cluster.on == SSH:
        return ssh.shells(inventory(cluster.hosts), cluster.names())
    if cluster.on == external.EXTERNAL:
        return ssh.shells(inventory(cluster.hosts[SSH]), cluster.names()) if SSH in cluster.hosts else {}
    return containers.shells(cluster.hosts, cluster.names())
