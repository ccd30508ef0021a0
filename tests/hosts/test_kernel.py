"""What a kernel's own configuration says that it cannot do."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from clusters.hosts.kernel import configuration, lacks

WITHOUT = "CONFIG_NET_SCH_HTB=y\n# CONFIG_NET_SCH_NETEM is not set\n"
AS_A_MODULE = "CONFIG_NET_SCH_NETEM=m\n"


@pytest.mark.parametrize(
    ("verbs", "built", "found"),
    [
        (("cut", "shape.loss", "shape.delay"), WITHOUT, ("shape.delay", "the kernel has no sch_netem")),
        (("shape.reorder",), WITHOUT, ("shape.reorder", "the kernel has no sch_netem")),
        (("shape.loss", "shape.corrupt", "shape.rate"), WITHOUT, None),  # done by dropping packets
        (("shape.delay",), AS_A_MODULE, None),
        (("shape.delay",), None, None),
    ],
)
def test_what_it_lacks(verbs: tuple[str, ...], built: str | None, found: tuple[str, str] | None) -> None:
    assert lacks(verbs, built) == found


def test_where_it_says_so(tmp_path: Path) -> None:
    release = os.uname().release
    assert configuration(release, tmp_path) is None
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / f"config-{release}").write_text(AS_A_MODULE)
    assert configuration(release, tmp_path) == AS_A_MODULE
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(WITHOUT.encode()))
    assert configuration(release, tmp_path) == WITHOUT
    assert configuration("5.4.0-another", tmp_path) is None, "an engine elsewhere: that kernel is not this one"
