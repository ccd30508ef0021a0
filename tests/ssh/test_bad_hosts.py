"""Hosts that cannot be used: a line that names the host and the remedy, and nothing left behind."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chaos.model.errors import SplitbrainError
from clusters.brokers.rabbitmq_quorum import RabbitmqQuorum
from clusters.hosts import inventory
from clusters.hosts.inventory import PASSPHRASE, PASSWORD, SUDO
from clusters.hosts.ssh import SshHosts
from tests.docker.cli import splitbrain
from tests.docker.cluster import new_run
from tests.ssh.cli import errors, told
from tests.ssh.machines import VERSION, Machines

pytestmark = pytest.mark.docker


def taking(toml: str, version: str = VERSION, reports: list[str] | None = None) -> None:
    """Take those machines for a run, and give them back."""
    told = inventory.inventory(inventory.understand(tomllib.loads(toml)))
    hosts = SshHosts(new_run(), told, RabbitmqQuorum(version, {}))

    async def main() -> None:
        names = [f"n{number}" for number in range(1, len(told.machines) + 1)]
        await hosts.up(names, (reports if reports is not None else []).append)
        await hosts.down()

    asyncio.run(main())


def refused(toml: str, version: str = VERSION) -> str:
    """Why those machines cannot be taken."""
    with pytest.raises(SplitbrainError) as raised:
        taking(toml, version)
    return str(raised.value)


def test_an_address_where_no_sshd_listens(untouched: Machines, tmp_path: Path) -> None:
    """By the command itself: exit 255, one line."""
    address = untouched.addresses[0]
    done = splitbrain(tmp_path, *told(untouched, tmp_path, inventory=untouched.inventory(hosts=[0], port=2222)))
    assert (done.returncode, errors(done)) == (
        255,
        [
            f"splitbrain: error: n1 (root@{address}:2222): no SSH at [{address}]:2222 (Connection refused): is sshd "
            "running there, and the port right?"
        ],
    )


def test_a_name_that_is_nobodys(untouched: Machines) -> None:
    inventory = untouched.inventory(hosts=[]) + '[[host]]\naddress = "no-such-host.invalid"\n'
    said = refused(inventory)
    assert said.startswith("n1 (root@no-such-host.invalid): no such host is known (")
    assert said.endswith("): check the address")


def test_a_wrong_key_a_locked_one_and_none(
    untouched: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, wrong = untouched.addresses[0], tmp_path / "wrong"
    inventory = untouched.inventory(hosts=[0]).replace(str(untouched.key), str(wrong))
    assert refused(inventory) == (
        f"n1 (root@{address}): its key {wrong} cannot be read here (No such file or directory): name another"
    )
    wrong.write_text("-----BEGIN NONSENSE-----\n")
    assert refused(inventory) == f"n1 (root@{address}): its key {wrong} is no private key"
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(wrong), password="open-sesame")
    assert refused(inventory) == (
        f"n1 (root@{address}): the key {wrong} is locked: put its passphrase into {PASSPHRASE}, or use ssh-agent"
    )
    monkeypatch.setenv(PASSPHRASE, "open-sesame")
    assert refused(inventory) == (
        f"n1 (root@{address}): it takes neither the key {wrong} nor a password of root: name the right user and key, "
        f"or put the password into {PASSWORD}"
    )


def test_a_host_that_is_not_known_and_one_that_is_another(untouched: Machines, tmp_path: Path) -> None:
    address = untouched.addresses[1]
    known = paramiko.HostKeys(str(untouched.known_hosts))
    key = known[address]["ssh-ed25519"]
    nobody = tmp_path / "known_hosts"
    nobody.touch()
    inventory = untouched.inventory(hosts=[1]).replace(str(untouched.known_hosts), str(nobody))
    assert refused(inventory) == (
        f"n1 (root@{address}): its host key (ssh-ed25519 {key.fingerprint}) is not in known_hosts: compare it with the "
        f"host's own, then `ssh-keyscan {address} >> ~/.ssh/known_hosts`"
    )
    other = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    nobody.write_text(f"{address} {other}\n")
    assert refused(inventory) == (
        f"n1 (root@{address}): its host key (ssh-ed25519 {key.fingerprint}) is not the one in known_hosts: it is "
        f"another machine, or installed anew; if that is so, `ssh-keygen -R {address}` and add it again"
    )


def test_users_that_cannot_become_root(untouched: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    address = untouched.addresses[0]
    assert refused(untouched.inventory("keeper", hosts=[0])) == (
        f"n1 (keeper@{address}): sudo wants a password of keeper (sudo: a password is required): put it into {SUDO}, "
        "allow keeper sudo without one, or log in as root"
    )
    monkeypatch.setenv(PASSWORD, "open-sesame")
    assert refused(untouched.inventory("guest", hosts=[0])) == (
        f"n1 (guest@{address}): guest may not use sudo with that password (guest is not in the sudoers file.): check "
        f"{SUDO}"
    )


def test_a_broker_of_another_version_and_one_that_has_data(untouched: Machines) -> None:
    address = untouched.addresses[0]
    said = refused(untouched.inventory(hosts=[0]), "3.10")
    assert said.startswith(f"n1 (root@{address}): it has RabbitMQ {VERSION}.")
    assert said.endswith("it is set up here as 3.10; name the version that it is of, or one near it: @4.0 or @3.10")
    untouched.sh(0, "mkdir -p /var/lib/rabbitmq/mnesia/old")
    try:
        assert refused(untouched.inventory(hosts=[0])) == (
            f"n1 (root@{address}): its broker has data in /var/lib/rabbitmq/mnesia: if it may be stopped for the run, "
            "and its data moved aside and back in the end, say so with aside = true"
        )
    finally:
        untouched.sh(0, "rm -rf /var/lib/rabbitmq/mnesia")


def test_another_run_on_it_a_port_that_is_taken_and_no_python(untouched: Machines) -> None:
    hosts, address = untouched, untouched.addresses[2]
    inventory = hosts.inventory(hosts=[2])
    hosts.sh(2, "mkdir -p /var/lib/splitbrain/20260101-of-another")
    try:
        assert refused(inventory) == (
            f"n1 (root@{address}): the run 20260101-of-another is on it: wait for its end, or `splitbrain clean "
            "20260101-of-another`"
        )
    finally:
        hosts.sh(2, "rm -rf /var/lib/splitbrain")
    taken = "import socket, time; s = socket.socket(); s.bind(('', 5672)); s.listen(); time.sleep(600)"
    hosts.containers[2].exec_run(["python3", "-c", taken], detach=True)
    try:
        assert refused(inventory) == (
            f"n1 (root@{address}): its port 5672 is taken by a process that is none of ours: stop it first"
        )
    finally:
        hosts.sh(2, "pkill -x python3")
    hosts.sh(2, "mv /usr/bin/python3 /usr/bin/python3.away")
    try:
        assert refused(inventory) == (f"n1 (root@{address}): it has no python3: apt-get install python3 there")
    finally:
        hosts.sh(2, "mv /usr/bin/python3.away /usr/bin/python3")


def test_a_missing_tool_is_named_or_installed(hosts: Machines, tmp_path: Path) -> None:
    """What was installed stays, so this is the last test."""
    address = hosts.addresses[1]
    hosts.sh(1, "dpkg --purge --force-depends nftables")
    partition = ("--nemesis", "partition", "--time", "60s")
    done = splitbrain(tmp_path, *told(hosts, tmp_path, *partition, inventory=hosts.inventory(hosts=[1, 2])))
    assert (done.returncode, errors(done)) == (
        255,
        [
            f"splitbrain: error: nemesis 'partition' needs 'cut', which this cluster cannot do: n1 (root@{address}): "
            "there is no nft command on the node (Debian package nftables)"
        ],
    )
    reports: list[str] = []
    taking(hosts.inventory(hosts=[1], install=True), reports=reports)
    assert f"n1 (root@{address}): installing nftables" in reports
    assert hosts.run(1, "nft", "--version")[0] == 0
    assert hosts.sh(1, "cat /usr/sbin/policy-rc.d") == "#!/bin/sh\nexit 101\n", "it was there before"
