"""`splitbrain shrink`: from a run with an anomaly to one as small as can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from chaos import scenario as scenarios
from chaos.cli import options
from chaos.cli.display import LiveLine
from chaos.cli.output import out, print_json
from chaos.cli.run import read_schedule, say
from chaos.controller import refuse
from chaos.model.errors import EXIT_INTERRUPTED, EXIT_VALID, BadInput, did_you_mean
from chaos.model.settings import parse_duration
from chaos.scenario import SIMULATED
from chaos.search.keep import keep
from chaos.search.replay import kinds, moved
from chaos.search.reproduction import PICTURE, SCENARIO, TEST, Reproduction, described, reproduction
from chaos.search.shrink import INTERRUPTED, Shrunk, Smallest, explicit, shrink
from chaos.search.spread import cores
from results.spacetime import standalone
from results.store import LAST_INVALID, RunDirectory, Store, writing
from results.text import plural, printable

EVERY = 5.0  # seconds between lines where there is no terminal
_FIRST = ("messages", "leaders", "order")


@click.command
@click.argument("run", default=LAST_INVALID)
@click.option("--anomaly", metavar="KIND", help='Which to keep, such as "messages.lost"; as a rule the first.')
@click.option("--jobs", metavar="N", type=click.IntRange(1, 1024), help="How many at a time (default: one a core).")
@click.option("--budget", metavar="TIME", default="2m", show_default=True, help="How long to try at most.")
@click.option("--out", "directory", type=click.Path(path_type=Path, file_okay=False), help="Where to write the files.")
@options.store
@options.as_json
def command(
    run: str, anomaly: str | None, jobs: int | None, budget: str, directory: Path | None, store: Store, as_json: bool
) -> int:
    """Make a run with an anomaly as small as can be: fewer faults, nodes, clients and messages, less time.

    Writes a scenario, a test that fails because of it, and a space-time diagram, into the run's directory or --out; and
    keeps the small run as a run of its own. RUN is an id, a unique prefix, `latest` or `last-invalid`.
    """
    seconds = _seconds(budget)
    source = store.find(run)
    wanted = _anomaly(source, anomaly)
    start = _start(source, wanted)
    with Steps(wanted) as steps:
        shrunk = shrink(start, wanted, jobs=jobs or cores(), budget=seconds, told=steps.told)
    if shrunk.stopped:
        say(f"{shrunk.stopped}: this is the smallest so far")
    made = reproduction(shrunk, wanted, source.id)
    kept = keep(store, made.trial)
    files = _write(directory or source.path, made)
    if as_json:
        print_json(_json(source, kept, wanted, shrunk, files))
    else:
        _print(kept, wanted, shrunk, made, files)
    return EXIT_INTERRUPTED if shrunk.stopped == INTERRUPTED else EXIT_VALID


def _seconds(budget: str) -> float:
    try:
        ns = parse_duration(budget)
    except ValueError as error:
        raise BadInput(f"--budget {error}") from None
    if ns <= 0:
        raise BadInput(f'--budget {budget}: no time at all: write a duration above zero, such as "2m"')
    return ns / 1e9


def _anomaly(source: RunDirectory, asked: str | None) -> str:
    """The anomaly to keep. Raises BadInput for a run that has none, or not that one."""
    if source.running():
        raise BadInput(f"{source.id} is still running")
    verdict = source.read_json(source.verdict)
    if not verdict:
        raise BadInput(f"{source.id} has no verdict: `splitbrain check {source.id}` gives one")
    found = kinds(verdict)
    if not found:
        was = {True: "valid", False: "invalid"}.get(verdict["valid"], "unknown")
        raise BadInput(f"{source.id} was {was}: it shows no anomaly, so there is nothing to shrink")
    if asked is not None and asked not in found:
        raise BadInput(f"--anomaly {asked}: {source.id} does not show it; {did_you_mean(asked, found)}")
    return asked or min(found, key=_rank)


def _rank(anomaly: str) -> int:
    """What is about the messages themselves comes first, as in a report."""
    checker = anomaly.partition(".")[0]
    return _FIRST.index(checker) if checker in _FIRST else len(_FIRST)


def _start(source: RunDirectory, anomaly: str) -> Smallest:
    """The run as a scenario to begin with; of a real cluster, its simulated twin."""
    before = scenarios.load(source.scenario)
    if before.cluster.on != SIMULATED:
        try:
            scenario, left_out = moved(before, SIMULATED)
        except BadInput as error:
            raise BadInput(f"{source.id} is of a real cluster, and only simulated ones are shrunk: {error}") from None
        more = f", without {', '.join(left_out)}" if left_out else ""
        say(f"{source.id} is of a real cluster: its simulated twin is shrunk{more}")
    else:
        scenario = before
    schedule = read_schedule(source.schedule, scenario.cluster.names())
    refuse(scenario, schedule)
    return explicit(scenario, schedule, anomaly)


def _write(directory: Path, made: Reproduction) -> list[Path]:
    texts = {SCENARIO: made.toml, TEST: made.test}
    if picture := made.picture:  # there is none of a broker whose messages nobody notes
        texts[PICTURE] = standalone(picture)
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    there = RunDirectory(directory)
    for name, text in texts.items():
        there.write(directory / name, text)
    return [directory / name for name in texts]


def _json(source: RunDirectory, kept: RunDirectory, anomaly: str, shrunk: Shrunk, files: list[Path]) -> dict[str, Any]:
    def size(smallest: Smallest) -> dict[str, Any]:
        case = smallest.case
        return {
            "faults": len(case.faults),
            "nodes": case.cluster.nodes,
            "messages": smallest.published,
            "seconds": case.workload.time_ns / 1e9,
            **{
                name: case.workload.options[name]
                for name in ("producers", "consumers")
                if name in case.workload.options
            },
        }

    return {
        "run": source.id,
        "anomaly": anomaly,
        "before": size(shrunk.before),
        "after": size(shrunk.after),
        "tried": shrunk.after.tried,
        "stopped": shrunk.stopped or None,
        "shrunk": kept.id,
        "report": str(kept.report),
        "files": [str(path) for path in files],
    }


def _print(kept: RunDirectory, anomaly: str, shrunk: Shrunk, made: Reproduction, files: list[Path]) -> None:
    console = out()
    console.print(f"{anomaly}: {printable(made.anomaly.message)}", markup=False)
    for word, smallest in (("from", shrunk.before), ("to", shrunk.after)):
        console.print(f"  {word:4}  {_size(smallest)}", markup=False)
    console.print(f"run: {kept.id}", markup=False)
    console.print(f"report: {kept.report}", markup=False)
    for path in files:
        console.print(f"wrote: {path}", markup=False)


def _size(smallest: Smallest) -> str:
    return f"{described(smallest.case)}, {plural(smallest.published, 'message')}"


class Steps(LiveLine):
    """What is tried and how small it is by now: a live line on a terminal; elsewhere a line every five seconds."""

    def __init__(self, anomaly: str) -> None:
        super().__init__(f"{anomaly}: it is run once more", every=EVERY)
        self._anomaly = anomaly

    def told(self, smallest: Smallest) -> None:
        """The smallest so far."""
        self.update(f"{self._anomaly}: {_size(smallest)}; {smallest.tried:,} tried, now fewer or less: {smallest.by}")
