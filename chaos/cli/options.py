"""What several commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chaos.model.errors import BadInput
from results.store import DEFAULT, Store

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _store(context: click.Context, parameter: click.Parameter, path: str) -> Store:
    if "://" in path:
        raise BadInput(
            f"--store {path}: this command needs a store in a folder; ingest, check --all, export and trends read an "
            "object store"
        )
    return Store(Path(path))


store: Decorator = click.option(
    "--store",
    type=click.Path(file_okay=False),
    envvar="SPLITBRAIN_STORE",
    default=DEFAULT,
    show_default=True,
    callback=_store,
    help="The directory of runs (also: SPLITBRAIN_STORE).",
)

anywhere: Decorator = click.option(
    "--store",
    metavar="LOCATION",
    envvar="SPLITBRAIN_STORE",
    default=DEFAULT,
    show_default=True,
    help="The store of runs: a folder, s3://... or gs://... (also: SPLITBRAIN_STORE).",
)

tables: Decorator = click.option(
    "--tables",
    metavar="LOCATION",
    envvar="SPLITBRAIN_TABLES",
    help="The folder of the tables: a path, s3://... or gs://... (default: STORE/tables; also: SPLITBRAIN_TABLES).",
)

as_json: Decorator = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")

_SCENARIO = (
    click.argument("scenario", required=False, type=click.Path(path_type=Path)),
    click.option("--broker", metavar="NAME[@VERSION]", help="The broker, such as rabbitmq-quorum@4.0."),
    click.option("--on", metavar="WHERE", help="simulated, docker, ssh or external: what the cluster is made of."),
    click.option("--image", metavar="NAME", help="An image that is here, to make containers of."),
    click.option("--node", metavar="USER@HOST:PORT", multiple=True, help="A host over SSH; one for each node."),
    click.option("--inventory", metavar="FILE", help="A file of hosts over SSH."),
    click.option(
        "--address", metavar="URL", multiple=True, help="A node of a broker of your own: amqp[s]://HOST/VHOST."
    ),
    click.option("--container", metavar="A,B", multiple=True, help="Containers of yours that run, one for each node."),
    click.option("--nodes", metavar="N", help="How many nodes."),
    click.option("--nemesis", metavar="A,B", help='What hurts the cluster, joined with commas; "none" for no faults.'),
    click.option("--workload", metavar="NAME", help="What is asked of it."),
    click.option("--rate", metavar="N", help="Publishes a second, all producers together."),
    click.option("--time", metavar="TIME", help='How long to work, with a unit: "60s".'),
    click.option(
        "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Any key of a scenario, dotted. Repeatable."
    ),
)


def scenario(command: Callable[..., Any]) -> Callable[..., Any]:
    """A scenario: a file, or flags, or both (see `chaos.scenario_flags`). Its seed is the command's own matter."""
    for option in reversed(_SCENARIO):
        command = option(command)
    return command
