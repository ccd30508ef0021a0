"""What a run ran with: enough to know whether another run can be expected to give the same history."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = "requirements.lock"


def versions(root: Path = ROOT) -> dict[str, Any]:
    """Splitbrain's version; its commit and the digest of its lock file where it runs from a working copy (a commit ends
    in "+changes" where files differ from it); Python's version; those of the packages that we depend on."""
    lock = root / LOCK
    return {
        "splitbrain": _version("splitbrain"),
        "commit": commit(root),
        "lock": hashlib.sha256(lock.read_bytes()).hexdigest()[:32] if lock.is_file() else None,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name) for name in _dependencies()},
    }


def unlike(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In what a run that ran with `then` may come out otherwise now, though its seed is the same: Splitbrain, its lock
    file, Python but for its patch level. Each as "Python 3.11 (here 3.12)"."""
    words = (("splitbrain", "splitbrain"), ("commit", "commit"), ("lock", "lock file"), ("python", "Python"))
    found = []
    for key, word in words:
        old, new = (_minor(said.get(key)) if key == "python" else said.get(key) for said in (then, now))
        if old != new:
            found.append(f"{word} {short(old)} (here {short(new)})")
    return found


def _minor(python: str | None) -> str | None:
    return None if python is None else ".".join(python.split(".")[:2])


def short(said: str | None) -> str:
    """A digest or commit in few letters: "3ba4bb8c2a+changes"."""
    return re.sub(r"\b([0-9a-f]{10})[0-9a-f]{22,}", r"\1", said) if said else "unknown"


def commit(root: Path) -> str | None:
    """The commit of a git working copy, None where there is none."""
    if not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    if not head:
        return None
    return f"{head}+changes" if _git(root, "status", "--porcelain", "--untracked-files=no") else head


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _dependencies() -> list[str]:
    try:
        wanted = metadata.requires("splitbrain") or []
    except metadata.PackageNotFoundError:
        return []
    return sorted(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in wanted if "extra ==" not in line)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
