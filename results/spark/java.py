"""Whether Spark can run here: PySpark, and Java for it. Imports neither."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

OLDEST_JAVA = 17
GET_PYSPARK = "pip install 'splitbrain[spark]'"
GET_JAVA = "Debian: apt-get install default-jre-headless; or set JAVA_HOME"


def pyspark() -> str | None:
    """PySpark's version; None where there is none."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None


def java() -> tuple[str, int | None]:
    """The Java that Spark would start, as Spark looks for it, and its version; ("", None) where there is none, and no
    version where it does not say."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        return "", None
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return path, None
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return path, int(match[1]) if match else None


def trouble(remote: bool = False) -> str | None:
    """Why Spark cannot run here, in a line with what to do; None where it can. `remote`: a session with a server
    elsewhere, which needs no Java here."""
    if pyspark() is None:
        return f"there is no PySpark here: {GET_PYSPARK}"
    if remote:
        return None
    path, version = java()
    if not path:
        home = os.environ.get("JAVA_HOME")
        where = f" (JAVA_HOME is {home}, which has no bin/java)" if home else ""
        return f"Spark needs Java {OLDEST_JAVA} or newer, and there is none here{where}: {GET_JAVA}"
    if version is None or version < OLDEST_JAVA:
        said = f"is version {version}" if version else "does not say its version"
        return f"Spark needs Java {OLDEST_JAVA} or newer, and {path} {said}: {GET_JAVA}"
    return None
