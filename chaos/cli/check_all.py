"""`splitbrain check --all`: judge every run of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import click
from rich.text import Text

from chaos.cli.output import GLYPHS, exit_code, out, print_json
from chaos.model.errors import BadInput, did_you_mean
from chaos.model.verdict import Result, Verdict, merge
from chaos.search.spread import cores
from results.checking.apart import Judged, Limits
from results.checking.store import check_store, runs_of
from results.spark.session import Where, opened
from results.text import count, plural, printable

PROCESS, SPARK = "process", "spark"
ENGINES = (PROCESS, SPARK)


def every_run(store: str, engine: str, jobs: int | None, limits: Limits, where: Where, as_json: bool) -> int:
    """Judge every run and tell of those that are not valid. Nothing is written.

    Returns the exit code of the worst: 2 also where there are runs that cannot be judged, or none at all.
    """
    if engine not in ENGINES:
        raise BadInput(f"--engine {engine}: with --all, who runs the checkers; {did_you_mean(engine, ENGINES)}")
    runs = runs_of(store)
    verdicts: Counter[object] = Counter()
    told: dict[str, Any] = {}
    with _judged(store, runs, engine, jobs or cores(), limits, where) as all_:
        for judged in all_:
            valid = _valid(judged)
            verdicts["bad" if judged.bad is not None else valid] += 1
            told[judged.run] = _json(judged, valid)
            if not as_json and valid is not True:
                _print(judged, valid)
    worst = merge(_verdict(valid) for valid in verdicts)
    numbers = {
        "valid": verdicts[True],
        "invalid": verdicts[False],
        "unknown": verdicts["unknown"],
        "cannot be judged": verdicts["bad"],
    }
    if as_json:
        summary = {"valid": worst.to_json(), "engine": engine, "runs": len(told), "verdicts": numbers}
        print_json(summary | {"results": told})
    else:
        parts = ", ".join(f"{count(number)} {word}" for word, number in numbers.items() if number)
        click.echo(f"{plural(len(told), 'run')}: {parts}")
    return exit_code(worst.to_json())


@contextmanager
def _judged(
    store: str, runs: list[str], engine: str, jobs: int, limits: Limits, where: Where
) -> Iterator[Iterator[Judged]]:
    if engine == SPARK:
        from results.spark import check

        with opened(where) as session:
            yield check.check_store(session(), store, runs, limits)
    else:
        with closing(check_store(store, runs, jobs, limits)) as found:
            yield found


def _valid(judged: Judged) -> object:
    return "unknown" if judged.bad is not None else merge(result.verdict for result in judged.results).to_json()


def _verdict(valid: object) -> Verdict:
    return Verdict.UNKNOWN if valid == "bad" else next(one for one in Verdict if one.to_json() == valid)


def _open(judged: Judged) -> list[Result]:
    """Results that keep the run from being valid."""
    return [result for result in judged.results if result.verdict in (Verdict.INVALID, Verdict.UNKNOWN)]


def _json(judged: Judged, valid: object) -> Mapping[str, Any]:
    if judged.bad is not None:
        return {"valid": valid, "bad": judged.bad}
    return {"valid": valid, "checkers": {result.checker: result.to_json() for result in judged.results}}


def _print(judged: Judged, valid: object) -> None:
    glyph, word, colour = GLYPHS[valid]
    why = judged.bad or "; ".join(f"{result.checker}: {result.reason}" for result in _open(judged))
    why = why.removeprefix(f"{judged.run}: ").removeprefix(f"{judged.run}/")
    head = (f"{glyph} {word}", f"bold {colour}")
    out().print(Text.assemble(head, "  ", printable(judged.run), "  ", printable(why or "nothing was judged")))
