"""The Docker engine: reaching it, and its errors as one clear line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import docker
from docker.errors import DockerException

from chaos.model.errors import SplitbrainError


def engine(timeout: int = 60) -> docker.DockerClient:
    """A client of the engine that the environment names. Raises SplitbrainError when none answers."""
    try:
        client = docker.from_env(timeout=timeout)
        client.ping()
    except DockerException as error:
        raise SplitbrainError(
            f"no Docker engine answers ({first_line(error)}); start one (Debian: apt-get install docker.io, "
            "then dockerd), or run on the simulated cluster"
        ) from None
    return client


@contextlib.contextmanager
def plainly(what: str) -> Iterator[None]:
    """The engine's errors, and those of the connection to it, as one clear line."""
    try:
        yield
    except (DockerException, OSError) as error:
        raise SplitbrainError(f"{what}: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """What the engine said, or what went wrong on the way to it."""
    text = str(getattr(error, "explanation", None) or error).strip() or type(error).__name__
    return text.splitlines()[0]
