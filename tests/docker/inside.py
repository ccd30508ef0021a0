"""Commands in containers, as a test asks them."""

from __future__ import annotations

import io
import shlex
import tarfile
import uuid
from typing import Any


def run_in(container: Any, *command: str) -> tuple[int, str]:
    """A command's exit code and what it said. By way of a file: docker's SDK loses what comes of an exec's output
    together with the head of the engine's answer, as much does on a busy machine."""
    path = f"/tmp/said-{uuid.uuid4().hex[:8]}"
    code: int = container.exec_run(["sh", "-c", f"({shlex.join(command)}) > {path} 2>&1"]).exit_code
    chunks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as packed:
        said = packed.extractfile(packed.getmembers()[0])
        assert said is not None
        return code, said.read().decode()
