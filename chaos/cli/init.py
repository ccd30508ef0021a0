"""`splitbrain init`: a commented scenario to start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos import scenario
from chaos.model import registry
from chaos.model.errors import BadInput
from chaos.model.settings import Setting
from chaos.scenario_flags import from_flags
from chaos.scenario_text import write_toml
from results.store import writing

_HEAD = """\
# A scenario of splitbrain: which cluster, asked for what, hurt how, and what is expected of it.
# Lines that begin with "# " and a key show the default; take the "# " away to change it.
# Durations carry their unit: "250ms", "10s", "2m".
"""


@click.command
@click.argument("file", default="scenario.toml", type=click.Path(path_type=Path))
@click.option("--broker", metavar="NAME[@VERSION]", default="rabbitmq-quorum", show_default=True, help="The broker.")
@click.option("--on", metavar="WHERE", help="simulated or docker; simulated where the broker can be.")
@click.option("--nodes", metavar="N", help="How many nodes.")
@click.option("--nemesis", metavar="A,B", default="partition", show_default=True, help="What hurts it.")
@click.option("--workload", metavar="NAME", default="queue", show_default=True, help="What is asked of it.")
def command(file: Path, **flags: Any) -> int:
    """Write a commented scenario to FILE (scenario.toml), with every setting there is."""
    resolved = from_flags(None, **flags)
    text = commented(resolved)
    with writing(file):
        try:
            with file.open("x", encoding="utf-8") as made:
                made.write(text)
        except FileExistsError:
            raise BadInput(f"{file} is there already, and is left as it is; name another file") from None
    click.echo(f"{file} written; run it with `splitbrain run {file}`, see its faults with --dry-run")
    return 0


def commented(resolved: scenario.Scenario) -> str:
    """The scenario as TOML, with every setting at its default and its meaning beside it."""
    cluster = resolved.cluster
    broker = cluster.broker if cluster.version is None else f"{cluster.broker}@{cluster.version}"
    group = registry.SIMULATIONS if cluster.on == scenario.SIMULATED else registry.BROKERS
    lines = [
        _HEAD,
        _pair("schema", scenario.SCHEMA),
        _pair("name", resolved.name),
        _pair("seed", resolved.seed, scenario.SEED.meaning),
        "",
        "[cluster]",
        _pair("broker", broker, "see `splitbrain list brokers`"),
        _pair("on", cluster.on, '"simulated", "docker" for real nodes in containers, "ssh" on machines of yours'),
        _pair("nodes", cluster.nodes, scenario.NODES.meaning),
        *_settings(registry.find(group, cluster.broker).settings, header="[cluster.settings]"),
        "",
        "[workload]",
        _pair("name", resolved.workload.name, registry.find(registry.WORKLOADS, resolved.workload.name).meaning),
        *_settings([scenario.TIME, *registry.find(registry.WORKLOADS, resolved.workload.name).settings]),
    ]
    for part in resolved.nemeses:
        nemesis = registry.find(registry.NEMESES, part.name)
        lines += ["", "[[nemesis]]", _pair("name", part.name, nemesis.meaning), *_settings(nemesis.settings)]
    for name, values in resolved.checkers.items():
        settings = [s for s in registry.find(registry.CHECKERS, name).settings if s.name not in resolved.expect]
        followed = [replace(s, default=values[s.name]) if s.follows else s for s in settings]
        lines += _settings(followed, header=f"[checkers.{name}]")
    lines += _settings([scenario.PROGRESS, scenario.FAULTS], header="[expect]")
    return "\n".join(lines) + "\n"


def _settings(settings: Sequence[Setting], header: str | None = None) -> Iterable[str]:
    if settings and header is not None:
        yield ""
        yield header
    for setting in settings:
        if setting.default is None:
            yield f"# {setting.name} =   # {setting.meaning}"
        else:
            yield f"# {_pair(setting.name, setting.default, setting.meaning)}"


def _pair(key: str, value: Any, meaning: str = "") -> str:
    pair = write_toml({key: value}).strip()
    return f"{pair}  # {meaning}" if meaning else pair
