"""Scenarios from the command line: flags alone, or on top of a file."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.model import registry
from chaos.model.errors import BadInput
from chaos.model.settings import BadKey
from chaos.scenario import DOCKER, SCHEMA, SSH, Scenario, understand
from chaos.scenario_text import Origin, read_file, set_key
from clusters.external import EXTERNAL
from clusters.hosts.inventory import parse_node

EXAMPLE = "splitbrain run --broker rabbitmq-quorum --nemesis partition,kill --time 60s"


@dataclass(frozen=True, slots=True)
class _Flag:
    """One flag that was given, and which key of a scenario it sets."""

    name: str
    key: str
    value: Any


def from_flags(
    file: Path | None = None,
    *,
    broker: str | None = None,
    on: str | None = None,
    image: str | None = None,
    node: Sequence[str] = (),
    inventory: str | None = None,
    address: Sequence[str] = (),
    container: Sequence[str] = (),
    nodes: int | str | None = None,
    nemesis: str | None = None,
    workload: str | None = None,
    rate: float | str | None = None,
    time: str | None = None,
    seed: int | str | None = None,
    sets: Sequence[str] = (),
    able: Callable[[Scenario], None] = lambda scenario: None,
) -> Scenario:
    """A scenario from the command line alone, or a file's with what the flags change.

    `node` are hosts over SSH, user@address:port, in the order of the nodes; `inventory` is a file of them; `container`
    are containers that are there; `address` are those of a broker of the user's own.
    `nemesis` is a list joined with commas that replaces the file's nemeses and faults ("none": none). `sets` are
    KEY=VALUE with dotted keys (`workload.rate=500`, `nemesis[0].every=5s` or `nemesis.partition.every=5s`), the value
    being TOML or else text. `able` raises BadKey for a scenario that could be read and yet cannot be run. Raises
    BadInput naming the flag, or the file and line.
    """
    nemeses = None
    if nemesis is not None:
        nemeses = [{"name": name.strip()} for name in nemesis.split(",")] if nemesis not in ("", "none") else []
    containers = [name for word in container for name in word.split(",")]
    told = (
        _Flag("--broker", "cluster.broker", broker),
        _Flag("--on", "cluster.on", on),
        _Flag("--image", "cluster.image", image),
        _Flag("--node", "cluster.on", SSH if node and on is None else None),
        _Flag("--node", "cluster.ssh.host", [_host(word) for word in node] or None),
        _Flag("--container", "cluster.on", DOCKER if container and on is None else None),
        _Flag("--container", "cluster.docker.containers", containers or None),
        _Flag("--inventory", "cluster.on", SSH if inventory is not None and on is None else None),
        _Flag("--inventory", "cluster.ssh.inventory", None if inventory is None else str(Path(inventory).absolute())),
        _Flag("--address", "cluster.on", EXTERNAL if address and on is None else None),
        _Flag("--address", "cluster.external", list(address) or None),
        _Flag("--nodes", "cluster.nodes", nodes),
        _Flag("--nemesis", "nemesis", nemeses),
        _Flag("--nemesis", "fault", None if nemeses is None else []),
        _Flag("--workload", "workload.name", workload),
        _Flag("--rate", "workload.rate", rate),
        _Flag("--time", "workload.time", time),
        _Flag("--seed", "seed", seed),
    )
    flags = [*(flag for flag in told if flag.value is not None), *map(_set, sets)]
    base = _read(file)

    def attempt(flags: Sequence[_Flag]) -> tuple[dict[str, Any], Origin]:
        data, origin = copy.deepcopy(base)
        for flag in flags:
            set_key(data, origin, flag.key, copy.deepcopy(flag.value), flag.name)
        if file is None and "name" not in data:
            data["name"] = f"{str(data['cluster'].get('broker')).partition('@')[0]}-{data['workload'].get('name')}"[:64]
        return data, origin

    def usable(flags: Sequence[_Flag]) -> bool:
        try:
            able(understand(attempt(flags)[0], base[1].folder()))
        except BadInput:
            return False
        return True

    data, origin = attempt(flags)
    if file is None and isinstance(data["cluster"], dict) and "broker" not in data["cluster"]:
        raise BadInput(
            f"which broker ({', '.join(_brokers())}), or which scenario file? For example: {EXAMPLE}; "
            "`splitbrain init` writes a scenario"
        )
    try:
        scenario = understand(data, base[1].folder())
        able(scenario)
    except BadKey as error:
        guilty = dict.fromkeys(flag.name for flag in flags if usable([other for other in flags if other is not flag]))
        blamed = f"{' and '.join(guilty)}: " if guilty and error.key not in origin.flags else origin.place(error.key)
        raise BadInput(f"{blamed}{error}") from None
    return scenario


def _read(file: Path | None) -> tuple[dict[str, Any], Origin]:
    if file is None:
        return {"schema": SCHEMA, "cluster": {}, "workload": {"name": "queue"}, "nemesis": []}, Origin()
    if not file.exists() and str(file).partition("@")[0] in _brokers():
        raise BadInput(f"{file}: there is no such file; for the broker of that name write --broker {file}")
    data, origin = read_file(file)
    data.setdefault("nemesis", [])
    return data, origin


def _brokers() -> list[str]:
    return sorted({*registry.names(registry.BROKERS), *registry.names(registry.SIMULATIONS)})


def _host(word: str) -> dict[str, Any]:
    try:
        return parse_node(word)
    except ValueError as error:
        raise BadInput(f"--node: {error}") from None


def _set(assignment: str) -> _Flag:
    key, equals, value = assignment.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set {assignment}: write it as KEY=VALUE, such as workload.rate=500")
    return _Flag("--set", key.strip(), _toml_value(value))


def _toml_value(value: str) -> Any:
    """What a value on the command line means: TOML, else text."""
    try:
        data = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return value
    return data["value"] if len(data) == 1 else value
