"""scripts/bootstrap.py: which Python, when to do nothing, and an environment made without venv or pip."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "bootstrap.py"
WHEEL = b"not really pip"


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, at work in a project of its own."""
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "VENV_PYTHON", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr(module, "STAMP", str(tmp_path / ".venv" / "installed"))
    for name in ("pyproject.toml", *module.LOCKS.values()):
        (tmp_path / name).write_text(name)
    return module


@pytest.fixture
def index(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A package index: pages by path. Empty at first."""
    pages: dict[str, bytes] = {}

    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(bootstrap, "PIP_SHA256", hashlib.sha256(WHEEL).hexdigest())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
        yield pages
        server.shutdown()


def installed(bootstrap: ModuleType, kind: str) -> None:
    """As if a bootstrap of that kind had just finished."""
    bootstrap.lay_out_environment()
    Path(bootstrap.STAMP).write_text(bootstrap.digest(kind))


def test_an_environment_is_laid_out_from_the_interpreter_alone(bootstrap: ModuleType) -> None:
    bootstrap.lay_out_environment()
    code = "import sys, sysconfig; print(sys.prefix, sys.prefix != sys.base_prefix, sysconfig.get_path('purelib'))"
    done = subprocess.run([bootstrap.VENV_PYTHON, "-c", code], capture_output=True, text=True, check=True)
    library = f"{bootstrap.VENV}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    assert done.stdout.split() == [bootstrap.VENV, "True", library]


def test_what_is_installed_is_not_installed_again(bootstrap: ModuleType) -> None:
    assert not bootstrap.installed("base")
    installed(bootstrap, "base")
    assert bootstrap.installed("base")
    assert not bootstrap.installed("test")


def test_the_environment_of_the_tests_does_for_the_demo(bootstrap: ModuleType) -> None:
    installed(bootstrap, "test")
    assert bootstrap.installed("test")
    assert bootstrap.installed("base")


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
def test_a_changed_file_is_installed_anew(bootstrap: ModuleType, tmp_path: Path, name: str) -> None:
    installed(bootstrap, "base")
    (tmp_path / name).write_text("changed")
    assert not bootstrap.installed("base")


def test_an_environment_whose_python_is_gone_is_made_anew(bootstrap: ModuleType) -> None:
    installed(bootstrap, "base")
    os.remove(bootstrap.VENV_PYTHON)
    assert not bootstrap.installed("base")


@pytest.mark.parametrize(
    "page",
    [
        '<a href="../../files/{wheel}#sha256=00">{wheel}</a>',
        '<a href="{wheel}">{wheel}</a>',
        '{{"files": [{{"filename": "{wheel}", "url": "http://{host}/files/{wheel}"}}]}}',
    ],
    ids=["html", "html-beside", "json"],
)
def test_pip_comes_from_the_index(bootstrap: ModuleType, index: dict[str, bytes], page: str) -> None:
    host = os.environ["PIP_INDEX_URL"].split("/")[2]
    index["/simple/pip/"] = page.format(wheel=bootstrap.PIP_WHEEL, host=host).encode()
    index[f"/files/{bootstrap.PIP_WHEEL}"] = index[f"/simple/pip/{bootstrap.PIP_WHEEL}"] = WHEEL
    assert bootstrap.fetch_pip() == WHEEL


def test_another_pip_than_the_one_meant_is_refused(
    bootstrap: ModuleType, index: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    index["/simple/pip/"] = f'<a href="/{bootstrap.PIP_WHEEL}">'.encode()
    index[f"/{bootstrap.PIP_WHEEL}"] = WHEEL + b"!"
    with pytest.raises(SystemExit, match="1"):
        bootstrap.fetch_pip()
    assert capsys.readouterr().err == (
        f"bootstrap: the package index gave a {bootstrap.PIP_WHEEL} with another digest than it should have: "
        "not installed\n"
    )


@pytest.mark.usefixtures("index")
def test_without_an_index_one_line_says_so_and_keeps_its_address_to_itself(
    bootstrap: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        bootstrap.fetch_pip()
    assert capsys.readouterr().err == (
        "bootstrap: cannot fetch pip from the package index (HTTP Error 404: Not Found): "
        "install python3-venv, or see to the network\n"
    )


@pytest.mark.parametrize("version", [(3, 10, 12), (3, 14, 0)])
def test_another_python_of_the_machine_takes_over(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...]
) -> None:
    """The newest that runs: a shim of a version that is not there answers nothing."""
    run: list[list[str]] = []

    def execvp(_: str, arguments: list[str]) -> None:
        run.append(arguments)
        raise SystemExit

    monkeypatch.setattr(bootstrap, "version_of", {"python3.12": (3, 12), "python3.11": (3, 11)}.get)
    monkeypatch.setattr(os, "execvp", execvp)
    monkeypatch.setattr(sys, "argv", ["scripts/bootstrap.py", "--test"])
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit):
        bootstrap.main()
    assert run == [["python3.12", "scripts/bootstrap.py", "--test"]]


def test_without_a_python_that_will_do_one_line_says_what_to_install(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "version_of", lambda _: None)
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(SystemExit, match="1"):
        bootstrap.main()
    assert capsys.readouterr().err == (
        "bootstrap: Splitbrain needs Python 3.11 to 3.13, and this is 3.10: install python3.13 or python3.11, "
        "from your distribution or from python.org, then run make again\n"
    )
