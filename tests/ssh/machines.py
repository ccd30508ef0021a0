"""Machines with a real sshd, in containers that stand for somebody's own hosts: nothing on them is made by us."""

from __future__ import annotations

import io
import json
import socket
import tarfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from chaos.model.schedule import OWN_DISK
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosts.docker import rights
from clusters.hosts.engine import engine
from clusters.images.build import ensure
from tests.docker.inside import run_in

IMAGE = Path(__file__).with_name("image")
TAG = "splitbrain/test-ssh"
VERSION = "4.0"
LABEL = "splitbrain.test"


@dataclass
class Machines:
    """So many hosts on a network of their own, a key that root and keeper take, and a file of known hosts."""

    folder: Path
    addresses: list[str] = field(default_factory=list)
    containers: list[Any] = field(default_factory=list)

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def run(self, number: int, *command: str) -> tuple[int, str]:
        """A command on a machine, not by SSH."""
        return run_in(self.containers[number], *command)

    def sh(self, number: int, script: str) -> str:
        code, said = self.run(number, "sh", "-c", script)
        assert code == 0, said
        return said

    def inventory(self, user: str = "root", hosts: Sequence[int] = (0, 1, 2), **told: Any) -> str:
        """As TOML."""
        lines = [f'user = "{user}"', f'key = "{self.key}"', f'known_hosts = "{self.known_hosts}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in told.items()]
        for number in hosts:
            lines += ["", "[[host]]", f'address = "{self.addresses[number]}"']
        return "\n".join(lines) + "\n"

    def state(self, number: int) -> set[str]:
        """What could be changed on a machine, and is looked at: files, rules, processes, mounts. Not /run/mount, which
        mount(8) makes for itself where no start of a system has."""
        folders = "/etc /var /opt /root /home /run /dev/shm /usr/sbin"
        own = "sshd|sh|ps|sort|find|sed|grep"
        said = self.sh(
            number,
            f"find {folders} -name motd.dynamic -prune -o -path /run/mount -prune -o -printf '%p %y %m %u\\n'; "
            "ls -d /usr/lib/*; cat /etc/hosts /proc/mounts; nft list tables; tc qdisc; "
            "ls /dev /sys/fs/cgroup/*/ | grep -E 'loop|splitbrain'; "
            f"ps -eo user=,comm=,args= | grep -vE '^[a-z]+ +({own})' | sed 's/^/process /'; true",
        )
        return set(said.splitlines())

    def states(self) -> list[set[str]]:
        """Of all machines."""
        return [self.state(number) for number in range(len(self.containers))]


@contextmanager
def machines(folder: Path, number: int, *capabilities: str, image: str = TAG) -> Iterator[Machines]:
    """They are up when this begins, and gone when it ends. Root may do there what containers let it, and this."""
    base = RabbitmqQuorum(VERSION, {}).image()
    ensure(base.folder, base.tag, base.base, print)
    ensure(str(IMAGE), TAG, base.tag, print)
    made = Machines(folder)
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(made.key))
    public = f"{key.get_name()} {key.get_base64()}\n".encode()
    client = engine()
    name = f"splitbrain-test-ssh-{uuid.uuid4().hex[:8]}"
    labels = {LABEL: name}
    network = client.networks.create(name, labels=labels)
    try:
        may = rights(OWN_DISK)
        may["cap_add"] = [*may["cap_add"], *capabilities]
        for _ in range(number):
            container = client.containers.create(image, network=name, labels=labels, init=True, mem_limit="1g", **may)
            made.containers.append(container)
            files = {"root/.ssh/authorized_keys": (0, public), "home/keeper/.ssh/authorized_keys": (1000, public)}
            container.put_archive("/", archive(files))
            container.start()
            container.reload()
            made.addresses.append(container.attrs["NetworkSettings"]["Networks"][name]["IPAddress"])
        known = paramiko.HostKeys()
        for address in made.addresses:
            host_key = greet(address)
            known.add(address, host_key.get_name(), host_key)
        known.save(str(made.known_hosts))
        yield made
    finally:
        for container in made.containers:
            container.remove(force=True, v=True)
        network.remove()


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        for path, (owner, content) in files.items():
            folder = tarfile.TarInfo(path.rpartition("/")[0])
            folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, owner, owner
            packed.addfile(folder)
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.uid, info.gid = len(content), 0o600, owner, owner
            packed.addfile(info, io.BytesIO(content))
    return data.getvalue()


def greet(address: str, patience: float = 30) -> paramiko.PKey:
    """The host key of an sshd, once it listens."""
    end = time.monotonic() + patience
    while True:
        try:
            with socket.create_connection((address, 22), 2) as connection:
                transport = paramiko.Transport(connection)
                transport.start_client(timeout=10)
                key = transport.get_remote_server_key()
                transport.close()
                return key
        except (OSError, EOFError, paramiko.SSHException):
            assert time.monotonic() < end
            time.sleep(0.1)
