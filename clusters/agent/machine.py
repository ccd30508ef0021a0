"""A machine that is not ours, taken for a run and given back: `python3 -m clusters.agent.machine VERB`, as root.

The request is one JSON object on stdin, the answer one on stdout: {"done": ...} or {"error": "..."}. All that we have
there is in one folder a run, RUNS/<run>. Its journal tells what was changed, each line on the disk before the change,
so that `leave` can take back what was done whenever the machine, or we, went down.

What is in the broker's folders is moved aside within them, and back in the end: nothing is deleted that was not made
meanwhile. Processes of ours bear the run in their environment, by which also those are found that detached themselves;
where root may not see that (in a container without CAP_SYS_PTRACE), they are those of the broker's user that are
younger than the run. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clusters.agent import cgroup
from clusters.agent.detached import PID
from clusters.agent.disk import unable_to_make
from clusters.agent.guest import bring_back
from clusters.agent.process import state
from clusters.agent.verbs import sweep, unable

RUNS = Path("/var/lib/splitbrain")
MARK = "SPLITBRAIN_RUN"
_SYSTEMD = Path("/run/systemd/system")
_POLICY = Path("/usr/sbin/policy-rc.d")
_END = 30.0  # seconds that the agent may take to undo all and end


class Refused(Exception):
    """Why this machine cannot be taken, in one line."""


class Journal:
    """What was changed for a run. Lines of JSON, each on the disk before what it tells of happens."""

    def __init__(self, run: str) -> None:
        self.path = RUNS / run / "journal.jsonl"

    def note(self, **entry: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[dict[str, Any]]:
        """All that is whole; a last line that is torn tells of nothing that happened."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.path.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found


def look(
    run: str,
    needs: dict[str, str],
    version: Sequence[str],
    data: Sequence[str],
    peers: Sequence[str],
    verbs: Sequence[str] = (),
    disk: Sequence[str] = (),
    limits: dict[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """What this machine has: {missing: {tool: package}, version, data: folders that hold any, ways: the address that
    it reaches each peer from, unable: {verb: why}}. `needs`: commands or paths, with the package of each; `version`: a
    command that prints it; `verbs`: what is planned, of which `disk` needs one of ours, and `limits` control groups."""
    missing = {tool: package for tool, package in needs.items() if not _there(tool)}
    held = [folder for folder in data if _entries(Path(folder))]
    found = {**unable(), **{verb: cgroup.unable(*wanted) for verb, wanted in (limits or {}).items()}}
    if disk and (why := unable_to_make(RUNS / run / "disk")) is not None:
        found.update(dict.fromkeys(disk, f"no disk of its own: {why}"))
    return {
        "missing": missing, "version": _said(version), "data": held, "ways": {peer: _way(peer) for peer in peers},
        "unable": {verb: found[verb] for verb in verbs if found.get(verb)},
    }  # fmt: skip


def install(run: str, packages: Sequence[str]) -> dict[str, Any]:
    """Install Debian packages, without starting their services. They stay. Raises Refused with apt's last words."""
    journal = Journal(run)
    journal.note(installed=list(packages))
    if not _POLICY.exists():
        journal.note(made=str(_POLICY))
        _POLICY.write_text("#!/bin/sh\nexit 101\n")  # 101: no service is to be started
        _POLICY.chmod(0o755)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in (["apt-get", "-q", "update"], ["apt-get", "-qy", "install", *packages]):
            try:
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise Refused(f"no apt-get there to install {', '.join(packages)} with") from None
            if done.returncode:
                words = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
                raise Refused(f"{' '.join(command[:2])} failed: {words[-1]}")
    finally:
        if {"made": str(_POLICY)} in journal.entries():
            _POLICY.unlink(missing_ok=True)
    return {}


def take(
    run: str,
    services: Sequence[str],
    ports: Sequence[int],
    folders: Sequence[str],
    made: Sequence[str],
    users: Sequence[str],
    files: Sequence[dict[str, Any]],
    commands: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Make room for a run's broker; returns {stopped: services, aside: folders whose content was moved aside}.

    Raises Refused when a port is taken, or a command of the broker's own fails.
    """
    journal = Journal(run)
    stopped = [unit for unit in services if _SYSTEMD.is_dir() and _quietly("systemctl", "is-active", "-q", unit)]
    for unit in stopped:
        journal.note(stopped=unit)
        if not _quietly("systemctl", "stop", unit):
            raise Refused(f"its service {unit} would not stop: see `systemctl status {unit}` there")
    for port in ports:
        if not _free(port):
            raise Refused(f"its port {port} is taken by a process that is none of ours: stop it first")
    journal.note(users=list(users), since=time.clock_gettime(time.CLOCK_BOOTTIME))
    aside = [folder for folder in folders if _aside(run, Path(folder), journal)]
    for one in made:
        journal.note(made=one)
    for file in files:
        path = Path(file["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file["data"]))
        path.chmod(file["mode"])
        shutil.chown(path, file["user"], file["user"])
    for command in commands:
        done = subprocess.run(list(command), capture_output=True, text=True, check=False)
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
            raise Refused(f"{command[0]} failed: {words[-1]}")
    return {"stopped": stopped, "aside": aside}


def leave(run: str) -> dict[str, Any]:
    """Take back all that a run changed here; returns {removed: what}. Safe to call again, whatever came in between."""
    removed: list[str] = []
    folder, journal = RUNS / run, Journal(run)
    with contextlib.suppress(OSError, ValueError):
        if (agent := int((folder / PID).read_text())) in marked(run):
            os.kill(agent, signal.SIGTERM)  # on which it undoes every fault
            _await(lambda: state(agent) in (None, "Z"), _END)
    if ours := _end(run):
        removed.append(f"{len(ours)} processes")
    problems = [*sweep(), *bring_back(folder)]
    entries = journal.entries()
    back = {entry["back"] for entry in entries if "back" in entry}
    taken = {entry["taken"] for entry in entries if "taken" in entry}
    for entry in reversed(entries):
        if "aside" in entry:
            place = Path(entry["aside"])
            if not entry["there"]:
                shutil.rmtree(place, ignore_errors=True)
            elif str(place) in taken:
                _back(run, place, journal, again=str(place) in back)
            else:
                _return(place / _hidden(run), place)  # it went down amid moving: nothing there is ours
            removed.append(f"what the run had in {place}")
        elif "made" in entry:
            path = Path(entry["made"])
            if path.is_symlink() or path.exists():
                _remove(path)
                removed.append(str(path))
        elif "stopped" in entry:
            unit = entry["stopped"]
            if not _quietly("systemctl", "start", unit):
                problems.append(f"its service {unit} would not start again: see `systemctl status {unit}` there")
            removed.append(f"the halt of {unit}")
    if problems:
        raise Refused("; ".join(problems))
    if folder.exists():
        shutil.rmtree(folder)
        removed.append(str(folder))
    with contextlib.suppress(OSError):
        RUNS.rmdir()  # unless another run is there
    return {"removed": removed}


def marked(run: str) -> list[int]:
    """The processes of a run."""
    sign = f"{MARK}={run}".encode()
    users, since = _owners(run)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                ours = sign in (entry / "environ").read_bytes().split(b"\0")
            except PermissionError:
                ours = _owner(entry) in users and _began(entry) >= since
            except OSError:
                continue  # it ended while we looked
            if ours:
                found.append(int(entry.name))
    return found


def _owners(run: str) -> tuple[set[int], float]:
    """The ids of the broker's users, and when the run began here, in seconds since boot."""
    users, since = set[int](), float("inf")
    for entry in Journal(run).entries():
        if "users" in entry:
            since = entry["since"]
            for name in entry["users"]:
                with contextlib.suppress(KeyError):
                    users.add(pwd.getpwnam(name).pw_uid)
    return users, since


def _owner(process: Path) -> int | None:
    try:
        return process.stat().st_uid
    except OSError:
        return None


def _began(process: Path) -> float:
    """When a process began, in seconds since boot; 0 when it has ended."""
    try:
        ticks = int((process / "stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def _end(run: str) -> set[int]:
    """Kill whatever bears the run, and what that starts meanwhile."""
    ended: set[int] = set()
    for _ in range(100):
        left = [pid for pid in marked(run) if state(pid) not in (None, "Z")]
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(left)
        time.sleep(0.05)
    # one that is about to end bears nothing any more, and yet holds what it has
    _await(lambda: all(state(pid) in (None, "Z") for pid in ended), _END)
    return ended


def _hidden(run: str) -> str:
    return f".splitbrain-{run}"


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, but for what was moved aside there."""
    try:
        return [entry for entry in folder.iterdir() if not entry.name.startswith(".splitbrain-")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _aside(run: str, folder: Path, journal: Journal) -> bool:
    """Empty a folder for the run's time; whether anything was in it."""
    there = folder.is_dir()
    journal.note(aside=str(folder), there=there)
    if not there:
        folder.mkdir(parents=True)
        return False
    entries = _entries(folder)
    hidden = folder / _hidden(run)
    hidden.mkdir(mode=0o700, exist_ok=True)
    for entry in entries:
        entry.rename(hidden / entry.name)
    journal.note(taken=str(folder))
    return bool(entries)


def _back(run: str, folder: Path, journal: Journal, again: bool) -> None:
    """Remove what the run made in a folder, once, and put back what was there."""
    if not again:
        for entry in _entries(folder):
            _remove(entry)
        journal.note(back=str(folder))
    _return(folder / _hidden(run), folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _return(hidden: Path, folder: Path) -> None:
    if hidden.is_dir():
        for entry in hidden.iterdir():
            entry.rename(folder / entry.name)
        hidden.rmdir()


def _there(tool: str) -> bool:
    if not tool.startswith("/"):
        return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None
    return any(Path("/").glob(tool[1:]))


def _said(command: Sequence[str]) -> str | None:
    if not command:
        return None
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _way(peer: str) -> str | None:
    """The address that packets to a peer leave from; None when there is no way."""
    with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((peer, 9))  # sends nothing
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError:
            return False
    return True


def _quietly(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _await(condition: Callable[[], bool], patience: float) -> None:
    end = time.monotonic() + patience
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


VERBS: dict[str, Callable[..., dict[str, Any]]] = {"look": look, "install": install, "take": take, "leave": leave}


def answer() -> dict[str, Any]:
    """The answer to the request on stdin."""
    try:
        return {"done": VERBS[sys.argv[1]](**json.load(sys.stdin))}
    except Refused as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"{error.strerror or error}: {error.filename}" if error.filename else str(error)}


if __name__ == "__main__":
    print(json.dumps(answer()))
