"""`splitbrain replay`: a stored run once more, or several times."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from chaos import scenario as scenarios
from chaos.cli import options
from chaos.cli.output import GLYPHS, exit_code, out, print_json
from chaos.cli.run import begin, perform, read_schedule, say
from chaos.controller import Interrupted, refuse
from chaos.model.errors import EXIT_INTERRUPTED, BadInput, SplitbrainError
from chaos.model.schedule import Schedule
from chaos.model.verdict import Verdict, merge
from chaos.scenario import DOCKER, SIMULATED, Scenario
from chaos.search.replay import NODE, ROLE, by_node, kinds, moved, original, recurrence, same_versions
from chaos.search.trial import trial
from results.store import LATEST, RunDirectory, Store
from results.text import plural, printable

MOST = 1000


@click.command
@click.argument("run", default=LATEST)
@click.option("--times", type=click.IntRange(1, MOST), metavar="K", default=1, show_default=True, help="How often.")
@click.option(
    "--by",
    type=click.Choice([ROLE, NODE]),
    default=ROLE,
    show_default=True,
    help="Hurt whoever has the role then (the leader), or the nodes that were hurt.",
)
@click.option("--on", type=click.Choice([SIMULATED, DOCKER]), help="What the cluster is made of; as a rule as it was.")
@click.option("--force", is_flag=True, help="Replay it also with another version of Splitbrain or of what it runs on.")
@options.store
@options.as_json
def command(run: str, times: int, by: str, on: str | None, force: bool, store: Store, as_json: bool) -> int:
    """Run a stored run once more: the same scenario, the same faults.

    A simulated run gives the same history, which its digest shows. On real machines each replay is a run of its own,
    and it is told how often the same anomaly came again. RUN is an id, a unique prefix, `latest` or `last-invalid`.
    """
    directory = store.find(run)
    if directory.running():
        raise BadInput(f"{directory.id} is still running")
    before = scenarios.load(directory.scenario)
    scenario, left_out = moved(before, on or before.cluster.on)
    schedule = read_schedule(directory.schedule, scenario.cluster.names())
    if by == NODE:
        schedule = by_node(schedule, directory.history())
    refuse(scenario, schedule)
    if left_out:
        say(f"not told, since there is no such setting {scenario.cluster.on}: {', '.join(left_out)}")
    if before.cluster.on == scenario.cluster.on == SIMULATED:
        return _again(directory, scenario, schedule, times, force, as_json)
    return _recur(directory, scenario, schedule, times, store, as_json)


def _again(
    directory: RunDirectory, scenario: Scenario, schedule: Schedule, times: int, force: bool, as_json: bool
) -> int:
    """Replay a simulated run; its history is to be the same."""
    if not force:
        same_versions(directory)
    digest = original(directory)
    found: dict[str, Verdict] = {}
    try:
        for _ in range(times):
            tried = trial(scenario, schedule)
            if tried.outcome.interrupted:
                return EXIT_INTERRUPTED
            found[tried.outcome.history.digest()] = tried.verdict
    except Interrupted:
        return EXIT_INTERRUPTED
    others = [other for other in found if other != digest]
    if others and not force:
        raise SplitbrainError(
            f"{directory.id} gave another history: digest {others[0]}, not {digest}. Was its scenario or its schedule "
            "changed since? Else something in it does not come from its seed"
        )
    verdict = merge(found.values())
    if as_json:
        told = {"run": directory.id, "digest": digest, "times": times, "same": not others, "others": others}
        print_json({"valid": verdict.to_json(), **told})
        return exit_code(verdict.to_json())
    glyph, word, colour = GLYPHS[verdict.to_json()]
    how = "same history" if not others else f"another history, digest {others[0]}, not"
    often = f", {times} times" if times > 1 else ""
    out().print(Text.assemble((f"{glyph} {word}", f"bold {colour}"), f"  {directory.id}  {how} {digest}{often}"))
    return exit_code(verdict.to_json())


def _recur(
    directory: RunDirectory, scenario: Scenario, schedule: Schedule, times: int, store: Store, as_json: bool
) -> int:
    """Replay a run where no two are the same: each replay is kept, and how often the anomalies came again is told."""
    before = kinds(directory.read_json(directory.verdict))
    replays: list[tuple[str, dict[str, Any]]] = []
    interrupted = False
    for number in range(1, times + 1):
        replay = begin(store, scenario, schedule)
        verdict = perform(replay, scenario, schedule, keep=False)
        interrupted = verdict is None or len(replay.history().rows("interrupt")) > 0
        if verdict is None or interrupted:
            break
        replays.append((replay.id, verdict))
        _, word, _ = GLYPHS[verdict["valid"]]
        say(f"{number} of {times}: {replay.id}: {word}{_listed(kinds(verdict))}")
    told = recurrence(before, [(_verdict(verdict["valid"]), kinds(verdict)) for _, verdict in replays])
    if as_json:
        print_json(
            {
                "valid": told.verdict.to_json(),
                "run": directory.id,
                "times": told.times,
                "again": dict(told.again),
                "others": dict(told.others),
                "replays": [{"run": id_, "valid": verdict["valid"]} for id_, verdict in replays],
                "interrupted": interrupted,
            }
        )
    else:
        glyph, word, colour = GLYPHS[told.verdict.to_json()]
        head = (f"{glyph} {word}", f"bold {colour}")
        out().print(Text.assemble(head, f"  {directory.id}, replayed {plural(told.times, 'time')}"))
        for name, number in (*told.again.items(), *told.others.items()):
            new = "" if name in told.again else ", which the run itself did not show"
            out().print(f"  {name}: {number} of {told.times}{new}", markup=False)
        if not before:
            out().print("  the run itself showed no anomaly")
    return EXIT_INTERRUPTED if interrupted else exit_code(told.verdict.to_json())


def _verdict(valid: object) -> Verdict:
    """Back from what verdict.json says."""
    return next((verdict for verdict in Verdict if verdict.to_json() == valid), Verdict.UNKNOWN)


def _listed(names: tuple[str, ...]) -> str:
    return f" ({printable(', '.join(names))})" if names else ""
