"""Where a scenario's cluster is that is not made for the run: on hosts over SSH, `[cluster.ssh]` or an inventory; in
somebody's own containers, `[cluster.docker]`; or a broker of the user's own, at the addresses of `cluster.external`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput
from chaos.model.settings import BadKey, format_duration
from chaos.scenario_text import read_file
from clusters.external import EXTERNAL, address
from clusters.hosts import inventory

DOCKER, SSH = "docker", "ssh"
ADDRESSES = "address"
WHERE = "cluster.ssh"


def _containers(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    from clusters.hosts import containers  # with it comes the SDK of an engine

    return containers.understand(table, where)


UNDERSTAND = {DOCKER: _containers, SSH: inventory.understand}


def inline(data: dict[str, Any], folder: Path) -> None:
    """Put what an inventory says in place of its name, beneath what the scenario says itself, so that a stored scenario
    is whole. A relative path is from `folder`. Raises BadInput with the inventory's file and line."""
    cluster = data.get("cluster")
    table = cluster.get(SSH) if isinstance(cluster, dict) else None
    if not isinstance(table, dict) or "inventory" not in table:
        return
    name = table.pop("inventory")
    if not isinstance(name, str):
        raise BadKey(f"{WHERE}.inventory", f"{name!r} is not the name of a file")
    path = folder / Path(name).expanduser()
    told, origin = read_file(path)
    if "name" not in origin.lines:
        del told["name"]  # which it was given for its file's
    try:
        inventory.understand(told)
    except BadKey as error:
        raise BadInput(f"{origin.place(error.key)}{error}") from None
    for key, value in told.items():
        table.setdefault(key, value)


def understand(table: dict[str, Any], on: str) -> dict[str, Any]:
    """What the table of the hosts' kind says; the addresses of a broker of the user's own; nothing where the hosts are
    made for the run. Raises BadKey."""
    if EXTERNAL in table or on == EXTERNAL:
        return _own(table, on)
    for kind in UNDERSTAND:
        where = f"cluster.{kind}"
        if not isinstance(table.get(kind, {}), dict):
            raise BadKey(where, f"{table[kind]!r} is not a table; write [{where}] and its keys below it")
        if kind in table and kind != on:
            raise BadKey(where, f'hosts of another kind: this cluster is {on}; write on = "{kind}", or take them out')
    if on == SSH or on in table:
        return UNDERSTAND[on](table.get(on, {}), f"cluster.{on}")
    return {}


def number(hosts: Mapping[str, Any]) -> int:
    """How many nodes what `understand` gave names; 0 where it names none."""
    return len(hosts.get("host") or hosts.get("containers") or hosts.get(ADDRESSES) or ())


def _own(table: dict[str, Any], on: str) -> dict[str, Any]:
    """The addresses of a broker of the user's own; and the hosts that it is on, where faults are to reach those."""
    found = _addresses(table, on)
    if not isinstance(table.get(SSH, {}), dict):
        raise BadKey(WHERE, f"{table[SSH]!r} is not a table; write [{WHERE}] and its keys below it")
    if SSH in table:
        found[SSH] = inventory.understand(table[SSH], WHERE)
        hosts, addresses = len(found[SSH]["host"]), len(found[ADDRESSES])
        if hosts != addresses:
            raise BadKey(f"{WHERE}.host", f"{hosts} hosts, and {addresses} addresses: each node has one of both")
    return found


def _addresses(table: dict[str, Any], on: str) -> dict[str, Any]:
    key = f"cluster.{EXTERNAL}"
    if on != EXTERNAL:
        raise BadKey(key, f'the addresses of a broker of your own, and this cluster is {on}; write on = "{EXTERNAL}"')
    told = table.get(EXTERNAL)
    if not isinstance(told, list) or not told:
        raise BadKey(key, f'where is it? an address a node: {EXTERNAL} = ["amqp://10.0.0.1", "amqp://10.0.0.2"]')
    try:
        return {ADDRESSES: [address(one) for one in told]}
    except ValueError as error:
        raise BadKey(key, str(error)) from None


def written(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """What the cluster's table says of them, as a person would write it."""
    if ADDRESSES in hosts:
        return {EXTERNAL: hosts[ADDRESSES], **(written(hosts[SSH]) if SSH in hosts else {})}
    told = {key: value for key, value in hosts.items() if value is not None and key != "host"}
    if "host" not in hosts:
        return {DOCKER: told}
    told["silence"] = format_duration(hosts["silence"])
    own = [{key: value for key, value in host.items() if value is not None} for host in hosts["host"]]
    return {SSH: {**told, "host": own}}
