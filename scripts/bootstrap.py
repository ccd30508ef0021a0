"""Make the environment in .venv and install the locked dependencies in it, from nothing but Python.

    python3 scripts/bootstrap.py [--test]

A fresh Debian or Ubuntu has a Python without pip, and without the half of venv that would bring one. In order:
`python -m venv` where it works; else the distribution's package of it, where root may install one; else an environment
without pip, and pip's wheel from the package index, known by its digest.

Runs again at no cost: a stamp in .venv holds the digest of what was installed. Standard library only. The usual
variables for proxies, certificates and the index (HTTPS_PROXY, SSL_CERT_FILE, PIP_INDEX_URL, ...) are respected.
"""

from __future__ import annotations

import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "installed")
# Ordered: what `test` installs is all that `base` does, and more.
LOCKS = {"base": "requirements.lock", "test": "requirements-test.lock"}
# One release of pip, known by its digest: so its download is trusted even where this machine has no certificates.
PIP_WHEEL = "pip-26.2.1-py3-none-any.whl"
PIP_SHA256 = "71138adf1f4ca900cdb7d289c21b7494329f2332b6d85f0e1c42108c0384ed3e"


def main() -> None:
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        run_under_a_supported_python()
    kind = "test" if "--test" in sys.argv[1:] else "base"
    if installed(kind):
        return
    say(f"making the environment in {os.path.relpath(VENV)} (once; a minute or two)")
    if not runs(VENV_PYTHON, "-m", "pip", "--version") or version_of(VENV_PYTHON) != sys.version_info[:2]:
        make_environment()
    install(kind)


def say(line: str) -> None:
    print(f"bootstrap: {line}", file=sys.stderr, flush=True)


def stop(line: str) -> NoReturn:
    say(line)
    raise SystemExit(1)


def runs(*command: str) -> bool:
    """Whether a command can be run, and succeeds."""
    try:
        return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def version_of(python: str) -> tuple[int, ...] | None:
    """The (major, minor) of an interpreter; None where it does not run (a shim of a version that is not there)."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return tuple(map(int, answer.stdout.split())) or None
    except (OSError, ValueError):
        return None


def run_under_a_supported_python() -> None:
    """Become another Python of this machine; where there is none, say what to install."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        if version_of(f"python3.{minor}") == (3, minor):
            os.execvp(f"python3.{minor}", [f"python3.{minor}", *sys.argv])
    stop(
        "Splitbrain needs Python {}.{} to {}.{}, and this is {}.{}: ".format(*OLDEST, *NEWEST, *sys.version_info[:2])
        + "install python3.13 or python3.11, from your distribution or from python.org, then run make again"
    )


def digest(kind: str) -> str:
    """What the environment must be made from: the project's file, the lock, the interpreter, the place."""
    import hashlib

    parts = hashlib.sha256(f"{ROOT} {sys.version_info[:2]}".encode())
    for name in ("pyproject.toml", LOCKS[kind]):
        with open(os.path.join(ROOT, name), "rb") as file:
            parts.update(file.read())
    return f"{kind} {parts.hexdigest()}"


def installed(kind: str) -> bool:
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = file.read()
    except OSError:
        return False
    enough = list(LOCKS)[list(LOCKS).index(kind) :]
    return stamp in [digest(each) for each in enough] and runs(VENV_PYTHON, "-c", "")


def make_environment() -> None:
    if make_with_venv():
        return
    if install_venv_package() and make_with_venv():
        return
    missing = missing_modules()
    if missing:
        stop(f"{sys.executable} lacks parts of its standard library ({missing}): install the package python3")
    make_without_pip()


def make_with_venv() -> bool:
    return runs(sys.executable, "-m", "venv", "--clear", VENV)


def install_venv_package() -> bool:
    """Install the distribution's venv for the distribution's Python, where we may."""
    ours = os.path.realpath(sys.executable).startswith("/usr/bin/")
    if os.geteuid() != 0 or not os.access("/usr/bin/apt-get", os.X_OK) or not ours:
        return False
    package = "python{}.{}-venv".format(*sys.version_info[:2])
    say(f"installing the package {package}")
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", package]):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            last = done.stdout.decode(errors="replace").strip().splitlines()[-1:]
            say(f"that failed ({'; '.join(last) or 'no reason given'}), so going on without it")
            return False
    return True


def missing_modules() -> str:
    """Which modules that we cannot do without this Python lacks (python3-minimal has half a standard library)."""
    from importlib.util import find_spec

    needed = ("asyncio", "ctypes", "email", "json", "ssl", "urllib")
    return ", ".join(name for name in needed if find_spec(name) is None)


def make_without_pip() -> None:
    """An environment from the interpreter alone, then pip into it from its wheel."""
    import shutil
    import tempfile

    say(f"no working venv module: fetching {PIP_WHEEL}")
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        import venv

        venv.create(VENV, symlinks=True)
    except ImportError:
        lay_out_environment()
    with tempfile.TemporaryDirectory() as folder:
        wheel = os.path.join(folder, PIP_WHEEL)
        with open(wheel, "wb") as file:
            file.write(fetch_pip())
        # A wheel is a zip file that Python can import from: pip installs itself.
        run_pip(os.path.join(wheel, "pip"), "install", "--no-index", "--no-deps", wheel)


def lay_out_environment() -> None:
    """What makes a folder a virtual environment (PEP 405): a link to the interpreter, and pyvenv.cfg above it."""
    library = os.path.join(VENV, "lib", "python{}.{}".format(*sys.version_info[:2]), "site-packages")
    os.makedirs(library)
    os.makedirs(os.path.dirname(VENV_PYTHON))
    home, name = os.path.split(os.path.realpath(sys.executable))
    for link in ("python", "python3"):
        os.symlink(os.path.join(home, name), os.path.join(os.path.dirname(VENV_PYTHON), link))
    with open(os.path.join(VENV, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        file.write(f"home = {home}\ninclude-system-site-packages = false\n")


def fetch_pip() -> bytes:
    """pip's wheel, as the index lists it. The page may be HTML or JSON (PEP 503, PEP 691): a link is quoted in both."""
    import hashlib
    import re
    import urllib.error
    import urllib.parse

    # The index's address may hold a password, so no message shows it.
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    try:
        page = read_url(index).decode()
        link = re.search(rf'(?:href=|"url": *)"([^"]*{re.escape(PIP_WHEEL)})[#"]', page)
        if not link:
            stop(f"the package index lists no {PIP_WHEEL}: is PIP_INDEX_URL one?")
        assert link
        wheel = read_url(urllib.parse.urljoin(index, link[1]))
    except (urllib.error.URLError, OSError) as error:
        stop(f"cannot fetch pip from the package index ({error}): install python3-venv, or see to the network")
    if hashlib.sha256(wheel).hexdigest() != PIP_SHA256:
        stop(f"the package index gave a {PIP_WHEEL} with another digest than it should have: not installed")
    return wheel


def read_url(url: str) -> bytes:
    import ssl
    import urllib.error
    import urllib.request

    context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT"))
    try:
        with urllib.request.urlopen(url, context=context, timeout=60) as answer:
            return bytes(answer.read())
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise
        # A machine with Python alone has no certificates; whom we asked does not matter, as the digest decides.
        with urllib.request.urlopen(url, context=ssl._create_unverified_context(), timeout=60) as answer:
            return bytes(answer.read())


def install(kind: str) -> None:
    if os.path.exists(STAMP):
        os.remove(STAMP)
    pip = ("-m", "pip")
    run_pip(*pip, "install", "--require-hashes", "-r", os.path.join(ROOT, LOCKS[kind]))
    run_pip(*pip, "install", "--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT)
    with open(STAMP, "w", encoding="utf-8") as file:
        file.write(digest(kind))


def run_pip(*arguments: str) -> None:
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_INPUT": "1"}
    done = subprocess.run(
        [VENV_PYTHON, *arguments, "--quiet"], env={**os.environ, **quiet}, stdin=subprocess.DEVNULL, cwd=ROOT
    )
    if done.returncode != 0:
        stop("pip failed, for the reason above; the environment is unfinished, and the next try goes on from here")


if __name__ == "__main__":
    main()
