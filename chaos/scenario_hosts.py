"""Which hosts a scenario's cluster is on, where they are not made for the run: `[cluster.ssh]`, or an inventory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.model.errors import BadInput
from chaos.model.settings import BadKey, format_duration
from chaos.scenario_text import read_file
from clusters.hosts import inventory

SSH = "ssh"
WHERE = "cluster.ssh"


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
    """What `[cluster.ssh]` says, in a cluster on such hosts; nothing elsewhere. Raises BadKey."""
    told = table.get(SSH, {})
    if not isinstance(told, dict):
        raise BadKey(WHERE, f"{told!r} is not a table; write [{WHERE}] and its keys below it")
    if on != SSH:
        if SSH in table:
            raise BadKey(WHERE, f'hosts over SSH, and this cluster is {on}; write on = "{SSH}", or take them out')
        return {}
    return inventory.understand(told, WHERE)


def written(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """The table again, as a person would write it."""
    told = {key: value for key, value in hosts.items() if value is not None and key != "host"}
    told["silence"] = format_duration(hosts["silence"])
    own = [{key: value for key, value in host.items() if value is not None} for host in hosts["host"]]
    return {**told, "host": own}
