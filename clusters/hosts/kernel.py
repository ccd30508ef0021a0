"""What a kernel was built without, as its own configuration says, before anything is started on it."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.model.schedule import SHAPE

CONFIGURATIONS = ("/proc/config.gz", "/boot/config-{release}")
# Verbs, and arguments of them, that cannot be done otherwise: the option that each needs, and the module that it gives.
NEEDS: Mapping[str, tuple[str, str]] = {
    f"{SHAPE}.{part}": ("CONFIG_NET_SCH_NETEM", "sch_netem") for part in ("delay", "jitter", "reorder")
}


def configuration(release: str, root: Path = Path("/")) -> str | None:
    """How the kernel of that release was built, if it is this machine's and says so; None where nobody knows."""
    if release != os.uname().release:
        return None
    for name in CONFIGURATIONS:
        path = root / name.format(release=release).lstrip("/")
        try:
            data = path.read_bytes()
            return (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
        except OSError:
            continue
    return None


def lacks(verbs: Sequence[str], built: str | None) -> tuple[str, str] | None:
    """The first of those verbs that a kernel so built cannot do, and why. None where it can, or nobody knows."""
    if built is None:
        return None
    options = {line.partition("=")[0] for line in built.splitlines() if not line.startswith("#")}
    for verb in verbs:
        option, module = NEEDS.get(verb, ("", ""))
        if option and option not in options:
            return verb, f"the kernel has no {module}"
    return None
