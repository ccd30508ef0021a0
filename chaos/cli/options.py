"""What several commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from results.store import DEFAULT, Store

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _store(context: click.Context, parameter: click.Parameter, path: Path) -> Store:
    return Store(path)


store: Decorator = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="SPLITBRAIN_STORE",
    default=DEFAULT,
    show_default=True,
    callback=_store,
    help="The directory of runs (also: SPLITBRAIN_STORE).",
)

as_json: Decorator = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
