"""Files that come with Splitbrain: suites and policies."""

from __future__ import annotations

from pathlib import Path

import chaos


def shipped(path: Path) -> Path:
    """The file itself, where there is one; else what comes with Splitbrain under that name, such as suites/smoke.toml:
    beside the packages in a checkout, within `chaos` in what was installed. Where neither is there: the file itself."""
    package = Path(chaos.__file__).parent
    here = () if path.is_absolute() else (package / path, package.parent / path)
    return path if path.exists() else next((each for each in here if each.exists()), path)
