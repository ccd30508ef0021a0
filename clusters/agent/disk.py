"""A disk of our own beneath a broker's data: an ext4 in a file, over a loop device, mounted at the data's folder.

What happens to it happens to nothing else: filled, it fills no disk of anybody's; an abort turns it read-only beneath
open files, as an error on a real disk does; and the file system's own shutdown, which its makers test crashes with,
loses what was written and not synced, as no kill can.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from clusters.faults.base import FaultError

FILE = "/var/tmp/splitbrain-disk.img"  # room is taken in it as it is used
_NODES = Path("/var/tmp/splitbrain-device-nodes")  # names those that we made
_CONTROL = "/dev/loop-control"
_TRIAL = 16 << 20  # bytes
_LOOPS = 64  # device nodes to have: containers see none of their host's
_LOOP_MAJOR = 7
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written
_MOUNTS = Path("/proc/self/mounts")
_TRY_WRITE = """
import errno, os, sys
try:
    path = os.path.join(sys.argv[1], ".splitbrain-try")
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, b"?" * 8192)
        os.fsync(file)
    finally:
        os.close(file)
        os.unlink(path)
except OSError as error:
    print(errno.errorcode.get(error.errno, error.errno))
"""


_TIMED_WRITE = """
import os, sys, time
folder, size, *groups = sys.argv[1:]
for group in groups:
    open(group, "w").write(str(os.getpid()))
path = os.path.join(folder, ".splitbrain-timed")
file = os.open(path, os.O_CREAT | os.O_WRONLY)
begun = time.monotonic()
os.write(file, bytes(int(size)))
os.fsync(file)
print(time.monotonic() - begun)
os.close(file)
os.unlink(path)
"""


class Disk:
    """The disk beneath `folder`, of so many bytes, for a broker that runs as `user`. There is none before `make`."""

    def __init__(self, folder: str, user: str, size: int, file: str = FILE) -> None:
        self.folder, self.user, self.size, self.file = Path(folder), user, size, file

    def make(self) -> None:
        """Make it, and mount it over the folder, empty. Raises FaultError."""
        _device_nodes()
        with open(self.file, "wb") as file:
            file.truncate(self.size)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", self.file)  # -m 0: full for root is full for all
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mount()
        shutil.chown(self.folder, self.user, self.user)

    def mount(self) -> None:
        """Mount it, as after a start of the machine: its journal is played back. Raises FaultError."""
        _run("mount", "-o", "loop,errors=remount-ro", self.file, str(self.folder))

    def unmount(self, patience: float = 10) -> None:
        """Unmount it. Raises FaultError when something holds it for longer than `patience` seconds."""
        end = time.monotonic() + patience
        while self.options() is not None:
            try:
                _run("umount", str(self.folder))
            except FaultError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def abort(self) -> None:
        """From now on nothing can be written, by whoever has what open. Raises FaultError."""
        _run("mount", "-o", "remount,abort", str(self.folder))

    def shut_down(self) -> None:
        """Whatever was not synced is lost, and nothing works on it any more but `unmount`. Raises OSError."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NO_FLUSH))
        finally:
            os.close(folder)

    def settle(self) -> None:
        """Sync all that is on it. Raises FaultError."""
        _run("sync", "--file-system", str(self.folder))

    def options(self) -> tuple[str, ...] | None:
        """With what it is mounted, as the kernel has it; None when it is not."""
        for line in reversed(_MOUNTS.read_text().splitlines()):
            _, folder, _, options, *_ = line.split()
            if folder == str(self.folder):
                return tuple(options.split(","))
        return None

    def device(self) -> str | None:
        """Its loop device as "major:minor"; None when it is not mounted."""
        if self.options() is None:
            return None
        device = os.stat(self.folder).st_dev
        return f"{os.major(device)}:{os.minor(device)}"

    def refuses(self) -> str | None:
        """Why a synced write of the broker's user fails now, as the name of the error; None when it does not."""
        done = subprocess.run(
            [sys.executable, "-c", _TRY_WRITE, str(self.folder)],
            user=self.user,
            group=self.user,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.stdout.strip() or (done.stderr.strip().splitlines()[-1] if done.returncode else None)

    def write_takes(self, size: int, groups: Sequence[Path]) -> float:
        """Seconds that so many bytes take that we write and sync, as a member of control groups."""
        command = [sys.executable, "-c", _TIMED_WRITE, str(self.folder), str(size), *map(str, groups)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise FaultError(f"a write to {self.folder} cannot be timed: {done.stderr.strip().splitlines()[-1]}")
        return float(done.stdout)

    def remove(self) -> None:
        """Unmount it, now or once nobody holds it, and remove its file."""
        if self.options() is not None:
            _run("umount", "--lazy", str(self.folder))
        Path(self.file).unlink(missing_ok=True)


def unable_to_make(folder: Path) -> str | None:
    """Why no disk can be made here, or None: a small one is, over a folder of ours, and removed with it."""
    disk = Disk(str(folder), "root", _TRIAL)
    try:
        disk.make()
    except (FaultError, OSError) as error:
        return str(error)
    finally:
        with contextlib.suppress(FaultError):
            disk.remove()
        shutil.rmtree(folder, ignore_errors=True)
        _remove_device_nodes()
    return None


def _device_nodes() -> None:
    """Have nodes of loop devices where no devtmpfs has them; noted first, to be removed. Raises FaultError."""
    if any(line.split()[1:3] == ["/dev", "devtmpfs"] for line in _MOUNTS.read_text().splitlines()):
        return
    wanted = {f"/dev/loop{number}": os.makedev(_LOOP_MAJOR, number) for number in range(_LOOPS)}
    made = [path for path in (*wanted, _CONTROL) if not os.path.exists(path)]
    if not made:
        return
    with _NODES.open("a") as noted:
        noted.writelines(f"{path}\n" for path in made)
    try:
        for path in made:
            kind, device = (stat.S_IFBLK, wanted[path]) if path in wanted else (stat.S_IFCHR, os.makedev(10, 237))
            os.mknod(path, 0o660 | kind, device)
    except OSError as error:
        raise FaultError(f"no node of a loop device can be made ({error.strerror})") from None


def _remove_device_nodes() -> None:
    with contextlib.suppress(FileNotFoundError):
        for path in _NODES.read_text().split():
            Path(path).unlink(missing_ok=True)
        _NODES.unlink()


def fill(path: Path) -> None:
    """Take all the room that is left on a file's disk with that file."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        room = os.statvfs(path)
        chunk = max(room.f_bsize, room.f_bavail * room.f_bsize)
        while chunk >= room.f_bsize:
            try:
                os.posix_fallocate(file, os.fstat(file).st_size, chunk)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                chunk //= 2
    finally:
        os.close(file)


def sweep() -> None:
    """Remove what is left of a disk whose agent was killed: the file, and what is mounted of it."""
    for mounted in _mounted():
        _run("umount", "--lazy", mounted)
    Path(FILE).unlink(missing_ok=True)
    _remove_device_nodes()


def _mounted() -> Iterable[str]:
    for line in _MOUNTS.read_text().splitlines():
        device, folder, *_ = line.split()
        backing = Path("/sys/block") / Path(device).name / "loop/backing_file"
        if device.startswith("/dev/loop") and backing.exists() and backing.read_text().strip() == FILE:
            yield folder


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        raise FaultError(f"there is no {argv[0]} on the node (Debian packages mount, e2fsprogs)") from None
    except subprocess.TimeoutExpired:
        raise FaultError(f"{argv[0]} did not end within 30 s") from None
    if done.returncode:
        problem = (done.stderr.strip() or "no message").splitlines()[0]
        raise FaultError(f"{argv[0]} failed (has the node CAP_SYS_ADMIN, and loop devices?): {problem}")
