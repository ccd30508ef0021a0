"""The Docker engine: reaching it, and its errors as one clear line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import docker
from docker.errors import DockerException

from chaos.model.errors import SplitbrainError

DEFAULT = "unix:///var/run/docker.sock"


def engine(timeout: int = 60) -> docker.DockerClient:
    """A client of the engine that the environment names. Raises SplitbrainError when none answers."""
    try:
        client = docker.from_env(timeout=timeout)
        client.ping()
    except (DockerException, OSError, ValueError) as error:
        where = os.environ.get("DOCKER_HOST") or DEFAULT
        raise SplitbrainError(
            f"no Docker engine answers at {where} ({first_line(error)}); start one (Debian: apt-get install docker.io, "
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
    """What the engine said, or what went wrong on the way to it: of errors wrapped in one another, the system's own."""
    beneath: BaseException | None = error
    for _ in range(10):
        if beneath is None:
            break
        if type(beneath).__module__ in ("builtins", "socket") and isinstance(beneath, OSError) and beneath.strerror:
            return beneath.strerror
        wrapped = (*beneath.args, getattr(beneath, "reason", None), beneath.__cause__, beneath.__context__)
        beneath = next((one for one in wrapped if isinstance(one, BaseException)), None)
    text = str(getattr(error, "explanation", None) or error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
