"""Where jobs of Spark run: what the commands that start one take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from chaos.model.errors import BadInput
from results.spark.session import LOCAL, MEMORY, Where

_WHERE = (
    click.option(
        "--master",
        metavar="URL",
        envvar="SPLITBRAIN_MASTER",
        default=LOCAL,
        show_default=True,
        help="Where Spark runs: local[2], spark://HOST:PORT, yarn or k8s://URL (also: SPLITBRAIN_MASTER).",
    ),
    click.option("--remote", metavar="URL", help="A server of Spark Connect instead: sc://HOST:PORT."),
    click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's own. Repeatable."),
)
_MEMORY = click.option(
    "--memory", metavar="SIZE", default=MEMORY, show_default=True, help="Of each executor, and of the driver."
)


def spark(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hands the command `where`: a `Where`."""

    @functools.wraps(command)
    def with_memory(*, where: Where, memory: str, **more: Any) -> Any:
        return command(where=replace(where, memory=memory), **more)

    decorated: Callable[..., Any] = _MEMORY(with_memory)
    return spark_without_memory(decorated)


def spark_without_memory(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same without --memory."""

    @functools.wraps(command)
    def with_where(*, master: str, remote: str | None, conf: tuple[str, ...], **more: Any) -> Any:
        said = {}
        for setting in conf:
            key, equals, value = setting.partition("=")
            if not equals or not key.startswith("spark."):
                raise BadInput(f"--conf {setting}: write it as spark.KEY=VALUE")
            said[key] = value
        return command(where=Where(master, remote, conf=said), **more)

    decorated: Callable[..., Any] = with_where
    for option in reversed(_WHERE):
        decorated = option(decorated)
    return decorated
