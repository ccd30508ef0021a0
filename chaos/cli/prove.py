"""`splitbrain prove`: every order of events that a protocol can meet within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from chaos.cli import options
from chaos.cli.display import LiveLine
from chaos.cli.output import GLYPHS, columns, exit_code, out, print_json
from chaos.cli.run import say
from chaos.model import registry
from chaos.model.errors import EXIT_INTERRUPTED, BadInput, did_you_mean
from chaos.model.settings import BadKey, parse_duration, resolve, size
from chaos.search.prove.diagram import diagram
from chaos.search.prove.explore import INTERRUPTED, MEMORY, STATES, TIME, Found, Limits, explore
from chaos.search.prove.model import Model
from chaos.search.prove.picture import picture
from chaos.search.prove.protocols import PROTOCOLS
from chaos.search.prove.trace import Story, events, retell
from chaos.search.prove.world import Worlds
from results.spacetime import standalone
from results.text import count, plural

NONE = "none"
MOST_NODES = 5  # for more, there are too many names that each could have
EVERY = 10.0  # seconds between lines where there is no terminal


@click.command
@click.argument("protocol")
@click.option("--nodes", metavar="N", type=click.IntRange(1, MOST_NODES), default=3, show_default=True)
@click.option("--bounds", "told", metavar="NAME=VALUE,...", multiple=True, help="How far to go. Repeatable.")
@click.option("--mutation", metavar="NAME", default=NONE, help="Break this rule of the protocol.")
@click.option("--max-states", metavar="N", type=click.IntRange(1), help="Give up at so many distinct states.")
@click.option("--time", "longest", metavar="DURATION", default="10m", show_default=True, help="Give up after so long.")
@click.option("--memory", metavar="SIZE", default="4GB", show_default=True, help="Give up when so much is used.")
@click.option(
    "--symmetry/--no-symmetry", default=True, help="Take worlds for one that differ in nodes' names (default)."
)
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Where to write a violation's diagram.")
@options.as_json
def command(
    protocol: str,
    nodes: int,
    told: tuple[str, ...],
    mutation: str,
    max_states: int | None,
    longest: str,
    memory: str,
    symmetry: bool,
    svg: Path | None,
    as_json: bool,
) -> int:
    """Explore every order of deliveries, losses, time-outs and crashes that PROTOCOL can meet within bounds.

    It is the replicas' own code that runs, and what must hold is looked at in every state: one leader a term, and where
    there is a log, that logs match and nothing committed is lost or differs. A violation comes with the shortest way to
    it. Exit code 0: all was explored; 1: violated; 2: given up before the end.

        splitbrain prove blazingmq --nodes 3 --bounds terms=2,scoutings=1,restarts=1

        splitbrain prove rabbitmq-quorum --mutation vote-twice
    """
    model = _model(protocol, nodes, told, mutation)
    if svg is not None and not svg.absolute().parent.is_dir():
        raise BadInput(f"--svg {svg}: there is no directory {svg.absolute().parent}")
    limits = Limits(max_states, _duration(longest), _size(memory))
    worlds = Worlds(model)
    with LiveLine("", every=EVERY) as line:
        found = explore(worlds, limits, symmetry=symmetry, progress=lambda found: line.update(_far(found)))
    story = retell(model, events(worlds, found.trace)) if found.violation else None
    if story is not None and svg is not None:
        svg.write_text(standalone(picture(story)), encoding="utf-8")
        say(f"the space-time diagram is in {svg}")
    valid: object = False if found.violation else ("unknown" if found.cut or not found.led else True)
    if as_json:
        print_json(_summary(model, found, story, valid))
    else:
        _print(model, found, story, valid)
    if found.cut == INTERRUPTED:
        say("interrupted")
        return EXIT_INTERRUPTED
    return exit_code(valid)


def _model(protocol: str, nodes: int, told: Sequence[str], mutation: str) -> Model:
    """What was asked for. Raises BadInput."""
    if protocol in registry.names(registry.SIMULATIONS) and protocol not in PROTOCOLS:
        raise BadInput(f"{protocol} has no model to be explored; known: {', '.join(PROTOCOLS)}")
    if protocol not in PROTOCOLS:
        raise BadInput(f"no protocol {protocol!r} to prove; {did_you_mean(protocol, PROTOCOLS)}")
    chosen = PROTOCOLS[protocol]
    given: dict[str, str] = {}
    for bound in (bound.strip() for text in told for bound in text.split(",")):
        name, equals, value = bound.partition("=")
        if not equals:
            raise BadInput(f"--bounds {bound}: write it as NAME=VALUE, such as terms=2")
        given[name.strip()] = value.strip()
    known = [bound.name for bound in chosen.bounds]
    for name in given:
        if name not in known:
            raise BadInput(f"--bounds {name}: {protocol} has no such bound; {did_you_mean(name, known)}")
    try:
        limits = resolve(chosen.bounds, given, "")
    except BadKey as error:
        raise BadInput(f"--bounds {error.key.lstrip('.')}: {error.problem}") from None
    if mutation not in (NONE, *chosen.mutations):
        raise BadInput(
            f"--mutation {mutation}: {protocol} has none so called; {did_you_mean(mutation, chosen.mutations)}"
        )
    return chosen(tuple(f"n{number}" for number in range(1, nodes + 1)), limits, mutation)


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadInput(f"--time: {error}") from None


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError as error:
        raise BadInput(f"--memory: {error}") from None


def _far(found: Found) -> str:
    """How far it is."""
    return (
        f"{count(found.distinct)} distinct states, {count(found.waiting)} ahead, {found.depth} steps deep, "
        f"{count(round(found.rate))} a second"
    )


_CUT = {STATES: "--max-states", TIME: "--time", MEMORY: "--memory"}


def _print(model: Model, found: Found, story: Story | None, valid: object) -> None:
    console = out()
    glyph, word, colour = GLYPHS[valid]
    if found.violation is not None:
        head = f"{found.violation.kind}: {found.violation.text}"
    elif found.cut is not None:
        why = f"given up by {_CUT[found.cut]}" if found.cut in _CUT else found.cut
        head = f"{why}, with {plural(found.waiting, 'state')} not looked at; no violation in the others"
    elif not found.led:
        head = "nobody ever leads within the bounds, so nothing was put to the test"
    else:
        head = f"{', '.join(model.invariants)}: in every state within the bounds"
    console.print(Text.assemble((f"{glyph} {word}", f"bold {colour}"), f"  {model.name}  {head}"))
    bounds = " ".join(f"{name}={value}" for name, value in model.limits.items())
    broken = [] if model.mutation == NONE else [("mutation", model.mutation)]
    entries = f", {plural(found.committed, 'entry', 'entries')} committed" if found.committed else ""
    columns([
        ("nodes", str(len(model.nodes))),
        ("bounds", bounds),
        *broken,
        ("states", f"{count(found.states)}, {count(found.distinct)} of them distinct"),
        ("depth", plural(found.depth, "step")),
        ("covered", f"{count(found.locals)} states of a node; leaders of {plural(found.led, 'term')}{entries}"),
        ("rate", f"{count(round(found.rate))} distinct states a second, {found.seconds:.1f} s"),
    ])  # fmt: skip
    if story is not None:
        _tell(story)


def _tell(story: Story) -> None:
    """The trace, a line a step; and once more as a diagram."""
    click.echo(f"\n  the shortest way there, {plural(len(story.steps), 'step')}:")
    rows = []
    for step in story.steps:
        sends = "; ".join(f"{words} to {', '.join(targets)}" for words, targets in step.sends)
        rows.append(
            (f"{step.number:3}", step.node, step.what, step.became and f"= {step.became}", sends and f"→ {sends}")
        )
    columns(rows)
    click.echo()
    for line in diagram(story):
        click.echo(f"  {line}")


def _summary(model: Model, found: Found, story: Story | None, valid: object) -> Mapping[str, Any]:
    violation = found.violation and {"kind": found.violation.kind, "message": found.violation.text}
    steps = [] if story is None else [
        {
            "step": step.number, "node": step.node, "what": step.what, "became": step.became or None,
            "sends": [{"message": words, "to": list(targets)} for words, targets in step.sends],
        }
        for step in story.steps
    ]  # fmt: skip
    return {
        "protocol": model.name,
        "valid": valid,
        "nodes": len(model.nodes),
        "bounds": dict(model.limits),
        "mutation": None if model.mutation == NONE else model.mutation,
        "invariants": list(model.invariants),
        "states": found.states,
        "distinct": found.distinct,
        "depth": found.depth,
        "locals": found.locals,
        "led": found.led,
        "committed": found.committed,
        "waiting": found.waiting,
        "cut": found.cut,
        "seconds": round(found.seconds, 3),
        "distinct_per_second": round(found.rate, 1),
        "violation": violation,
        "trace": steps,
    }
