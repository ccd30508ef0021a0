"""Images: there already, or built now, on a base that is pulled where a registry answers and made here where none does.

An image carries the hash of its folder and of its base as a label, so that a changed Dockerfile is rebuilt and an
unchanged one is used at once. Runs that begin side by side and lack the same image have it built by one of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, ImageNotFound

from chaos.model.errors import SplitbrainError
from clusters.hosts.engine import engine, first_line

HASH = "splitbrain.content"
BASE = "splitbrain.base"
MIRROR = "http://deb.debian.org/debian"
_PULL = 60  # seconds that a registry may take before the base is made here
_TAIL = 30


def ensure(
    folder: str,
    tag: str,
    base: str,
    report: Callable[[str], None],
    given_up: Callable[[], bool] = lambda: False,
) -> str:
    """Have the image of `clusters/images/<folder>` on `base` (such as debian:trixie-slim) as `tag`; returns its id.

    Once `given_up` is true it ends within seconds, and the engine stops building and removes what it built in.
    Raises SplitbrainError: no engine, no base and no means to make one, or a build that failed (with its log's end).
    """
    context = Path(str(files("clusters.images").joinpath(folder)))
    content = digest(context, base)
    api: Any = engine(timeout=600).api
    if (made := _made(api, tag, content)) is not None:
        return made
    with _alone(tag, given_up):
        if (made := _made(api, tag, content)) is not None:
            return made
        with _alone(base, given_up):
            local = _base(api, base, report, given_up)
        return _build(api, context, tag, {BASE: base, HASH: content}, local, report, given_up)


def _made(api: Any, tag: str, content: str) -> str | None:
    """The id of the image of that tag, if it was made of this."""
    try:
        found = api.inspect_image(tag)
    except ImageNotFound:
        return None
    return str(found["Id"]) if (found["Config"].get("Labels") or {}).get(HASH) == content else None


@contextmanager
def _alone(name: str, given_up: Callable[[], bool]) -> Iterator[None]:
    """Hold what only one process of this user at a time may make, once it is free. Raises SplitbrainError: given up."""
    path = Path(tempfile.gettempdir(), f"splitbrain-{os.getuid()}-{re.sub(r'[^a-z0-9.]', '-', name)}.lock")
    lock = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if given_up():
                    raise SplitbrainError(f"image {name}: given up") from None
                time.sleep(0.1)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # who waits for it has it open, and finds the image made
    finally:
        os.close(lock)


def _build(
    api: Any,
    context: Path,
    tag: str,
    labels: Mapping[str, str],
    local: str,
    report: Callable[[str], None],
    given_up: Callable[[], bool],
) -> str:
    report(f"building image {tag} on {local}: takes about a minute, once")
    lines: list[str] = []
    try:
        stream = api.build(
            path=str(context),
            tag=tag,
            buildargs={"BASE": local, **_proxies(os.environ)},
            labels=dict(labels),
            network_mode="host",  # packages come from wherever this machine gets its own
            rm=True,
            forcerm=True,
            decode=True,
        )
        for message in stream:
            if given_up():
                raise SplitbrainError(f"image {tag}: given up")
            lines += str(message.get("stream") or message.get("error") or "").splitlines()
            if "error" in message:
                raise SplitbrainError(f"image {tag} could not be built: {message['error'].strip()}", tail=_tail(lines))
        return str(api.inspect_image(tag)["Id"])
    except (DockerException, OSError) as error:
        raise SplitbrainError(f"image {tag} could not be built: {first_line(error)}", tail=_tail(lines)) from None
    finally:
        stream = None  # the connection ends with it, and the engine then ends a build that is not complete


def digest(context: Path, base: str) -> str:
    """The hash of a build's input: every file of the folder with its name, and the name of the base."""
    made = hashlib.sha256(base.encode())
    for path in sorted(path for path in context.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        made.update(f"\0{path.relative_to(context)}\0".encode() + path.read_bytes())
    return made.hexdigest()[:16]


def _base(api: Any, base: str, report: Callable[[str], None], given_up: Callable[[], bool]) -> str:
    """The base image: the official one if it is here or a registry gives it, else ours, made now if need be."""
    name, _, tag = base.partition(":")
    codename = tag.removesuffix("-slim")
    ours = f"splitbrain/{name}:{codename}"
    for candidate in (base, ours):
        try:
            api.inspect_image(candidate)
            return candidate
        except ImageNotFound:
            continue
    problem = _pull(base, report)
    if problem is None:
        return base
    if name != "debian":
        raise SplitbrainError(
            f"no base image {base}: it is not here, and no registry gives it ({problem}); docker load it, or name an "
            "image of your own with --image"
        )
    report(f"no {base} ({problem}): making one with mmdebstrap")
    _bootstrap(api, base, codename, ours, problem, given_up)
    return ours


def _pull(base: str, report: Callable[[str], None]) -> str | None:
    """Why the base could not be pulled, or None."""
    report(f"pulling {base}")
    try:
        engine(timeout=_PULL).api.pull(base)
    except (DockerException, OSError) as error:
        return first_line(error)[:120]
    return None


def _bootstrap(api: Any, base: str, codename: str, tag: str, problem: str, given_up: Callable[[], bool]) -> None:
    if shutil.which("mmdebstrap") is None:
        raise SplitbrainError(
            f"no base image {base}: no registry answers ({problem}), and there is no mmdebstrap to make one with; "
            f"apt-get install mmdebstrap (as root), or docker load an image {base}"
        )
    with tempfile.TemporaryDirectory(prefix="splitbrain-base-") as folder:
        root = Path(folder) / "root.tar"
        options = ["--variant=minbase", f"--aptopt={_NO_EXPIRY}", *_keyring()]
        command = ["mmdebstrap", *options, codename, str(root), mirror()]
        said = _run(command, Path(folder) / "log", given_up)
        if said is not None:
            raise SplitbrainError(f"no base image {base}: mmdebstrap failed", tail=_tail(said))
        try:
            with root.open("rb") as data:
                repository, _, version = tag.partition(":")
                api.import_image_from_data(data, repository=repository, tag=version)
            api.inspect_image(tag)
        except (APIError, OSError) as error:
            raise SplitbrainError(f"no base image {base}: docker import failed: {error}") from None


def _run(command: list[str], log: Path, given_up: Callable[[], bool]) -> list[str] | None:
    """What a command said that failed; None when it did not. Terminated, to clean up after itself, once `given_up`."""
    with log.open("w") as output:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        while (code := running.poll()) is None:
            time.sleep(0.1)
            if given_up():
                running.terminate()
    return log.read_text(errors="replace").splitlines() if code else None


_NO_EXPIRY = 'Acquire::Check-Valid-Until "false"'  # a frozen mirror's lists are as good as fresh ones here


def mirror(apt: Path = Path("/etc/apt")) -> str:
    """Where this machine's own apt gets Debian from, else Debian's own."""
    sources = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    one_line = re.compile(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)", re.MULTILINE)
    for address in _matches(one_line, sources):
        return address
    deb822 = re.compile(r"^URIs:\s*(\S+)", re.MULTILINE | re.IGNORECASE)
    for address in _matches(deb822, sorted((apt / "sources.list.d").glob("*.sources"))):
        return address
    return MIRROR


def _matches(pattern: re.Pattern[str], sources: Iterable[Path]) -> Iterable[str]:
    """Addresses whose last part is debian: others there (security, other vendors, Ubuntu's) hold no base system."""
    for source in sources:
        if source.is_file():
            for address in pattern.findall(source.read_text(errors="replace")):
                if address.rstrip("/").rpartition("/")[2] == "debian" and address.startswith(("http:", "https:")):
                    yield address


def _keyring() -> list[str]:
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    return [f"--keyring={keyring}"] if keyring.is_file() else []


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Docker's predefined build arguments that this environment sets."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    return {name: value for name in names if (value := environment.get(name) or environment.get(name.upper()))}


def _tail(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip()][-_TAIL:]
