"""From results to what is kept of them: verdict.json, junit.xml and report.html of a run."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from chaos.model.errors import SplitbrainError
from chaos.model.history import History
from chaos.model.verdict import Result, Verdict, merge
from results import report
from results.junit import junit
from results.store import RunDirectory


def summary(
    results: Sequence[Result], history: History | None, *, run: str | None, seed: int | None, digest: str | None
) -> dict[str, Any]:
    """A verdict as JSON data: what verdict.json holds and `--json` prints."""
    return {
        "valid": merge(result.verdict for result in results).to_json(),
        "run": run,
        "seed": seed,
        "digest": digest,
        "ops": len(history) if history is not None else 0,
        "cut": history.cut if history is not None else None,
        "checkers": {result.checker: result.to_json() for result in results},
    }


def publish(
    directory: RunDirectory, history: History | None, results: Sequence[Result], *, problem: str | None = None
) -> Verdict:
    """Keep what was concluded about a run. `problem`: what ended it before there was anything to judge.

    The report is always written, in a plain form where the full one cannot be drawn. verdict.json is written last:
    where there is one, the others are there. Raises SplitbrainError when something cannot be written.
    """
    run = directory.run()
    digest = history.digest() if history is not None else None
    verdict = merge(result.verdict for result in results)
    try:
        page = report.draw(directory, history, results, digest=digest, problem=problem)
    except SplitbrainError:
        raise
    except Exception as error:
        page = _plain(directory.id, verdict, results, f"{type(error).__name__}: {error}")
    directory.write(directory.report, page)
    length = int(history.time[-1]) / 1e9 if history is not None and len(history) else 0.0
    created = datetime.fromisoformat(run.created).astimezone(UTC)
    directory.write(directory.junit, junit(run.name, results, created=created, seconds=length))
    data = summary(results, history, run=directory.id, seed=run.seed, digest=digest)
    directory.write_json(directory.verdict, {"schema": 1, **data, "problem": problem})
    return verdict


def _plain(run: str, verdict: Verdict, results: Sequence[Result], problem: str) -> str:
    rows = "".join(
        f"<li><b>{html.escape(result.checker)}</b>: {result.verdict}: {html.escape(result.reason)}</li>"
        for result in results
    )
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{verdict}: {html.escape(run)}</title>'
        f"<h1>{verdict}</h1><p>{html.escape(run)}</p><ul>{rows}</ul>"
        f"<p>The full report could not be drawn: {html.escape(problem)}</p></html>\n"
    )
