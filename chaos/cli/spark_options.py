"""Where jobs of Spark run: what the commands that start one take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from chaos.model.errors import BadInput
from results.spark.session import LOCAL, MEMORY, Where

_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        envvar="SPLITBRAIN_MASTER",
        default=LOCAL,
        show_default=True,
        help="Where Spark runs: local[2], spark://HOST:PORT, yarn or k8s://URL (also: SPLITBRAIN_MASTER).",
    ),
    click.option("--remote", metavar="URL", help="A server of Spark Connect instead: sc://HOST:PORT."),
    click.option(
        "--memory", metavar="SIZE", default=MEMORY, show_default=True, help="Of each executor, and of the driver."
    ),
    click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's own. Repeatable."),
)


def spark(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hands the command `where`: a `Where`."""

    @functools.wraps(command)
    def with_where(*, master: str, remote: str | None, memory: str, conf: tuple[str, ...], **more: Any) -> Any:
        said = {}
        for setting in conf:
            key, equals, value = setting.partition("=")
            if not equals or not key.startswith("spark."):
                raise BadInput(f"--conf {setting}: write it as spark.KEY=VALUE")
            said[key] = value
        return command(where=Where(master, remote, memory, said), **more)

    decorated: Callable[..., Any] = with_where
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
