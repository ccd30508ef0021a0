"""What the small files of a run say of it: its row among the runs, but for what is counted."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chaos.model.errors import BadInput
from results.store import Run

Files = Mapping[str, bytes]


def describe(files: Files) -> dict[str, Any]:
    """What is known of a run from run.json, scenario.toml, versions.json and verdict.json, as far as they are there.

    `asked`: whether its scenario asks the checker `messages`; `limit`: the delivery limit that it is told. Raises
    BadInput where run.json is missing or not the record of a run.
    """
    if "run.json" not in files:
        raise BadInput("no run.json: it is not the directory of a run, or only half of one")
    try:
        run = Run(**json.loads(files["run.json"]))
        created = datetime.fromisoformat(run.created)
        created = (created if created.tzinfo else created.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError) as error:
        raise BadInput(f"run.json: not the record of a run: {error}") from None
    scenario, versions, verdict = _toml(files), _json(files, "versions.json"), _json(files, "verdict.json")
    checkers = _table(scenario.get("checkers"))
    limit = _table(checkers.get("messages")).get("delivery_limit", 0)
    return {
        "day": f"{created:%Y-%m-%d}",
        "scenario": run.name,
        "suite_run": run.suite_run,
        "cell": run.cell,
        "attempt": run.attempt,
        "seed": run.seed,
        "broker": run.broker,
        "version": version_of(scenario, versions),
        "on": run.on,
        "created": created,
        "status": run.status,
        "problem": run.problem,
        "splitbrain": _word(versions.get("splitbrain")),
        "commit": _word(versions.get("commit")),
        "python": _word(versions.get("python")),
        "digest": _word(verdict.get("digest")),
        "asked": "messages" in checkers or not checkers,
        "limit": limit if isinstance(limit, int) else 0,
    }


def version_of(scenario: Mapping[str, Any], versions: Mapping[str, Any]) -> str | None:
    """The broker's: as it was asked for, else as the run found it ("lavinmq 2.1, simulated")."""
    asked = str(_table(scenario.get("cluster")).get("broker", "")).partition("@")[2]
    told = str(versions.get("broker") or "").partition(",")[0].split()
    return asked or (told[1] if len(told) > 1 else None)


def _json(files: Files, name: str) -> Mapping[str, Any]:
    try:
        return _table(json.loads(files.get(name) or b"{}"))
    except ValueError:
        return {}


def _toml(files: Files) -> Mapping[str, Any]:
    try:
        return tomllib.loads(files.get("scenario.toml", b"").decode())
    except ValueError:
        return {}


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
