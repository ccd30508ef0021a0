"""Which machines are the nodes, and how they are reached over SSH: `[cluster.ssh]` of a scenario, or an inventory.

Both are the same: settings for all hosts, and a table `host` for each, in the order n1, n2, ... No secret is ever in
it: passwords come from the environment alone (see `clusters.hosts.shell`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.kernel.clock import SECOND
from chaos.model.errors import did_you_mean
from chaos.model.settings import BadKey, Setting, boolean, duration, integer, optional, text

PORT = 22
PASSWORD, PASSPHRASE, SUDO = "SPLITBRAIN_SSH_PASSWORD", "SPLITBRAIN_SSH_PASSPHRASE", "SPLITBRAIN_SUDO_PASSWORD"
_SECRET = re.compile(r"pass|secret|token")
_NODE = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<address>[^@:\s\[\]]+))(?::(?P<port>\d+))?"
)


def _address(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or value.startswith("-") or re.search(r"[\s@/\[\]]", value):
        raise ValueError(f"{value!r} is not a host's name or address")
    return value


def _silence(value: object) -> int:
    ns = duration(value)
    if ns < 3 * SECOND:
        raise ValueError(f'{value!r} is too short: the controller is heard once a second, so write at least "3s"')
    return ns


_USER = Setting("user", optional(text), None, "whom to log in as; your own name where none is given")
_PORT = Setting("port", integer(1, 65535), PORT, "where its sshd listens")
_KEY = Setting("key", optional(text), None, "a file with a private key; else those of ssh-agent and ~/.ssh are tried")
COMMON: Sequence[Setting] = (
    _USER,
    _PORT,
    _KEY,
    Setting("known_hosts", optional(text), None, "a file of known host keys, beside your own and the system's"),
    Setting("check_host_key", boolean, True, "whether a host that is not in known_hosts is refused"),
    Setting("silence", _silence, "60s", "how long a host hears nothing of us before it undoes every fault by itself"),
    Setting("install", boolean, False, "whether to install, with apt, what is missing of the broker and our tools"),
    Setting("aside", boolean, False, "whether a broker with data may be stopped, its data moved aside until the end"),
)
OWN: Sequence[Setting] = (
    Setting("address", _address, None, "its name or address"),
    Setting("inside", optional(_address), None, "its address as the other hosts know it, where that is another"),
    _USER,
    _PORT,
    _KEY,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """One host: how to reach it, and the address by which the other nodes do."""

    address: str
    port: int
    user: str | None
    key: str | None
    inside: str | None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{user}{host}" + ("" if self.port == PORT else f":{self.port}")


@dataclass(frozen=True, slots=True)
class Inventory:
    """All hosts, and what holds for all of them. silence: ns."""

    machines: tuple[Machine, ...]
    known_hosts: str | None
    check_host_key: bool
    silence: int
    install: bool
    aside: bool


def parse_node(word: str) -> dict[str, Any]:
    """`[user@]address[:port]` as a host's table; an IPv6 address in brackets. Raises ValueError."""
    found = _NODE.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is not a host: write user@address, or user@address:port")
    table = {"address": found["six"] or found["address"], "user": found["user"]}
    if found["port"]:
        table["port"] = int(found["port"])
    return {key: value for key, value in table.items() if value is not None}


def understand(table: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Every setting of a table, with its hosts, resolved. Raises BadKey; `where` is the table's own key."""
    try:
        return _understand(table)
    except BadKey as error:
        raise BadKey(f"{where}.{error.key}" if where else error.key, error.problem) from None


def _understand(table: Mapping[str, Any]) -> dict[str, Any]:
    hosts = table.get("host")
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, dict) for host in hosts):
        raise BadKey(
            "host",
            "no hosts: write for each a table [[host]] of its address (in a scenario [[cluster.ssh.host]]), or "
            "say --node, or name an --inventory",
        )
    told = {key: value for key, value in table.items() if key != "host"}
    common = _resolve(COMMON, told, "")
    usual = {setting.name: common[setting.name] for setting in OWN if setting.name in common}
    own = []
    for number, host in enumerate(hosts):
        place = f"host[{number}]."
        if "address" not in host:
            raise BadKey(f"{place}address", "missing: the host's name or address")
        own.append(_resolve(OWN, {**usual, **host}, place))
    for number, host in enumerate(own):
        for earlier in own[:number]:
            if (host["address"], host["port"]) == (earlier["address"], earlier["port"]):
                raise BadKey(f"host[{number}].address", f"{host['address']} is there twice")
    return {**common, "host": own}


def inventory(told: Mapping[str, Any]) -> Inventory:
    """From what `understand` gave."""
    machines = tuple(Machine(**host) for host in told["host"])
    names = ("known_hosts", "check_host_key", "silence", "install", "aside")
    return Inventory(machines, **{name: told[name] for name in names})


def _resolve(settings: Sequence[Setting], given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    known = [setting.name for setting in settings]
    for key in given:
        if key not in known and _SECRET.search(key):
            raise BadKey(f"{prefix}{key}", f"no password belongs in a file: put it into {PASSWORD} (or {SUDO})")
        if key not in known:
            raise BadKey(f"{prefix}{key}", f"unknown key {key!r}; {did_you_mean(key, known)}")
    values = {}
    for setting in settings:
        try:
            values[setting.name] = setting.convert(given.get(setting.name, setting.default))
        except ValueError as error:
            raise BadKey(f"{prefix}{setting.name}", str(error)) from None
    return values
