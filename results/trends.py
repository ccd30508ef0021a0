"""How scenarios fare from night to night, for each version of a broker: from the tables `runs` and `seeds`.

A night is a day in UTC; a run that is part of a suite's run belongs to the night in which that began. Of several
attempts at the same the first that was judged counts, so that trying again makes nothing look better. How a night
stands is a matter of what was expected: a suite's cell that did what it was to do, such as fail, is no trouble.
What was explored is a trend of its own, since swarms draw other faults than the scenario's runs have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

from chaos.model.errors import BadInput, did_you_mean
from chaos.model.verdict import Verdict
from results.expected import Expected, Stands
from results.store import DONE, FAILED, RUNNING
from results.suite_runs import SuiteRun
from results.tables.load import Loaded
from results.tables.schema import SEEDS
from results.wilson import wilson

Row = Mapping[str, Any]
Group = tuple[str, str, str, bool]  # scenario, broker, version, whether explored

COLUMNS = (
    "run", "day", "scenario", "suite_run", "cell", "attempt", "seed", "broker", "version", "created", "status",
    "problem", "commit", "verdict", "lost", "duplicated", "recovery", "failover", "outage",
)  # fmt: skip
JUDGED = (Verdict.VALID, Verdict.UNKNOWN, Verdict.INVALID)


@dataclass(frozen=True, slots=True)
class Times:
    """A length of time (ns) as the runs of a night had it: in the middle, at worst, and how many runs had one."""

    median: int
    worst: int
    runs: int


@dataclass(frozen=True, slots=True)
class Night:
    """The runs of a night, or of several. lost, duplicated: messages; None where no run counts them. state: how it
    stands by what was expected of its runs, where that is not by their verdicts alone."""

    day: str
    valid: int
    invalid: int
    unknown: int
    lost: int | None
    duplicated: int | None
    recovery: Times | None
    failover: Times | None
    outage: Times | None
    state: Verdict | None = None

    @property
    def runs(self) -> int:
        return self.valid + self.invalid + self.unknown

    @property
    def rate(self) -> float:
        """The share of runs that were valid: a run of which nothing is known did not pass."""
        return self.valid / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true share lies, with 95 % confidence."""
        return wilson(self.valid, self.runs)

    @property
    def worst(self) -> Verdict:
        if self.state is not None:
            return self.state
        if self.invalid:
            return Verdict.INVALID
        return Verdict.UNKNOWN if self.unknown else Verdict.VALID

    def to_json(self) -> dict[str, Any]:
        more = {"runs": self.runs, "rate": self.rate, "interval": list(self.interval)}
        return {**asdict(self), **more, "state": str(self.worst)}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes on now: every night since `day` had a run as bad as the worst of the newest night.

    run: the first of these, with its verdict, seed and commit (of Splitbrain). nights: how many. before: the commit of
    the last run of the night before, None where that is not known. expected: what its cell was to do, where that is not
    to be valid.
    """

    day: str
    nights: int
    run: str
    verdict: Verdict
    seed: int | None
    commit: str | None
    before: str | None
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that is in no figure, and why."""

    run: str
    why: str


@dataclass(frozen=True)
class Trend:
    """One scenario on one version of a broker. `nights` from old to new; `total` sums them up. `expected`: what cells
    of the newest night were to do and did, where that is not to be valid. `explored`: of an exploration's seeds."""

    scenario: str
    broker: str
    version: str | None
    nights: tuple[Night, ...] = ()
    total: Night | None = None
    trouble: Trouble | None = None
    left_out: tuple[LeftOut, ...] = ()
    expected: tuple[str, ...] = ()
    explored: bool = False

    @property
    def name(self) -> str:
        return f"{self.scenario}, explored" if self.explored else self.scenario

    @property
    def on(self) -> str:
        return f"{self.broker} {self.version}" if self.version else self.broker

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "broker": self.broker,
            "version": self.version,
            "explored": self.explored,
            "expected": list(self.expected),
            "nights": [night.to_json() for night in self.nights],
            "total": None if self.total is None else self.total.to_json(),
            "trouble": None if self.trouble is None else asdict(self.trouble),
            "left_out": [asdict(one) for one in self.left_out],
        }


@dataclass(frozen=True)
class Trends:
    """All of them, those in trouble first. rejected: runs that could not be read into the tables."""

    since: datetime
    trends: tuple[Trend, ...]
    rejected: tuple[LeftOut, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "since": self.since.isoformat(),
            "trends": [trend.to_json() for trend in self.trends],
            "rejected": [asdict(one) for one in self.rejected],
        }


def trends(
    tables: Loaded,
    since: datetime,
    scenarios: Sequence[str] = (),
    brokers: Sequence[str] = (),
    suites: Iterable[SuiteRun] = (),
) -> Trends:
    """What became of the runs created since then, of these scenarios on these brokers (patterns such as "queue-*";
    "rabbitmq-quorum@4.0*" for one with its version), or of all. suites: what was expected; a run of another is to be
    valid.

    Raises BadInput where there are no runs.
    """
    rows = [*_explored(tables)]
    twice = {row["run"] for row in rows}
    rows += [row for row in tables.runs.to_arrow(list(COLUMNS)).to_pylist() if row["run"] not in twice]
    if not rows:
        raise BadInput("there is no run in the tables: `splitbrain ingest` reads a store's runs into them")
    recent = [row for row in rows if _created(row) >= since]
    if not recent:
        newest = f"{max(map(_created, rows)):%Y-%m-%d}"
        raise BadInput(f"no run since {since:%Y-%m-%d}; the newest is of {newest}: go back further with --since")
    chosen = _of(_of(recent, "--scenario", scenarios, _scenario), "--broker", brokers, _broker)
    nights = _nights(chosen)
    expected = Expected(tables, suites, chosen)
    groups: dict[Group, list[Row]] = {}
    for row in chosen:
        group = (row["scenario"] or "", row["broker"] or "", row["version"] or "", "explored" in row)
        groups.setdefault(group, []).append(row)
    found = [_trend(key, group, nights, expected) for key, group in groups.items()]
    found.sort(key=lambda trend: (-_badness(trend), trend.scenario, trend.broker, trend.version or "", trend.explored))
    rejected = tables.rejected.to_arrow(["run", "day", "path", "reason"]).to_pylist()
    told = [row for row in rejected if not row["day"] or row["day"] >= f"{since:%Y-%m-%d}"]
    told.sort(key=lambda row: str(row["path"]))
    return Trends(since, tuple(found), tuple(LeftOut(str(row["path"] or row["run"]), row["reason"]) for row in told))


def _explored(tables: Loaded) -> Iterator[Row]:
    """Seeds of explorations, as rows of runs: by their run where one was kept."""
    columns = [name for name in COLUMNS if name in SEEDS.names]
    for row in tables.seeds.to_arrow([*columns, "kept"]).to_pylist():
        name = row["kept"] or f"{row['run']} seed {row['seed']}"
        yield dict.fromkeys(COLUMNS) | row | {"run": name, "status": DONE, "explored": True}


def _of(rows: list[Row], option: str, patterns: Sequence[str], name: Any) -> list[Row]:
    """The rows that one of the patterns is about. Raises BadInput for a pattern that is about none."""
    if not patterns:
        return rows
    for pattern in patterns:
        if not any(_about(pattern, name(row)) for row in rows):
            known = {name(row)[0] for row in rows}
            raise BadInput(f"{option} {pattern}: no run of it; {did_you_mean(pattern, known)}")
    return [row for row in rows if any(_about(pattern, name(row)) for pattern in patterns)]


def _about(pattern: str, names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _scenario(row: Row) -> tuple[str, ...]:
    return (row["scenario"] or "",)


def _broker(row: Row) -> tuple[str, ...]:
    return row["broker"] or "", f"{row['broker']}@{row['version']}"


def _created(row: Row) -> datetime:
    created = row["created"]
    return created if isinstance(created, datetime) else datetime.strptime(row["day"], "%Y-%m-%d").replace(tzinfo=UTC)


def _nights(rows: Iterable[Row]) -> dict[str, str]:
    """Of each suite's run the day on which it began."""
    begun: dict[str, str] = {}
    for row in rows:
        if row["suite_run"] is not None:
            begun[row["suite_run"]] = min(begun.get(row["suite_run"], row["day"]), row["day"])
    return begun


def _trend(key: Group, rows: list[Row], nights: Mapping[str, str], expected: Expected) -> Trend:
    scenario, broker, version, explored = key
    in_order = sorted(rows, key=lambda row: (_created(row), row["seed"] if explored else 0, row["run"]))
    counted, left_out = _count(in_order, expected)
    stands = expected.judge(counted)
    days: dict[str, list[Row]] = {}
    for row in counted:
        days.setdefault(nights.get(row["suite_run"] or "", row["day"]), []).append(row)
    days = dict(sorted(days.items()))
    told = tuple(_night(day, runs, stands) for day, runs in days.items())
    total = _night("all", counted, stands) if counted else None
    trouble = _trouble(told, days, stands)
    newest = [stands[row["run"]].expected for row in days[told[-1].day]] if told and trouble is None else []
    did = tuple(dict.fromkeys(words for words in newest if words is not None))
    return Trend(scenario, broker, version or None, told, total, trouble, tuple(left_out), did, explored)


def _count(rows: Sequence[Row], expected: Expected) -> tuple[list[Row], list[LeftOut]]:
    """Which runs count, in order, and why the others do not."""
    counted: dict[tuple[Any, ...], Row] = {}
    left_out = []
    for row in sorted(rows, key=lambda row: row["attempt"] or 1):  # stable: within an attempt by time
        again = expected.key(row)
        why = _uncounted(row)
        if why is None and again in counted:
            why = "a further attempt; the first that was judged counts"
        if why is None:
            counted[again] = row
        else:
            left_out.append(LeftOut(row["run"], why))
    place = {row["run"]: at for at, row in enumerate(rows)}
    return sorted(counted.values(), key=lambda row: place[row["run"]]), left_out


def _uncounted(row: Row) -> str | None:
    if row["status"] == FAILED:
        return f"it failed: {row['problem']}" if row["problem"] else "it failed"
    if row["verdict"] not in {verdict.value for verdict in JUDGED}:
        return "it was still running, or cut off" if row["status"] == RUNNING else "it has no verdict"
    return None


def _night(day: str, rows: Sequence[Row], stands: Mapping[str, Stands]) -> Night:
    verdicts = Counter(Verdict(row["verdict"]) for row in rows)
    state = max((stands[row["run"]].state for row in rows), key=lambda verdict: verdict.rank)
    by_verdict = max(verdicts, key=lambda verdict: verdict.rank)
    return Night(
        day,
        valid=verdicts[Verdict.VALID],
        invalid=verdicts[Verdict.INVALID],
        unknown=verdicts[Verdict.UNKNOWN],
        lost=_sum(rows, "lost"),
        duplicated=_sum(rows, "duplicated"),
        recovery=_times(rows, "recovery"),
        failover=_times(rows, "failover"),
        outage=_times(rows, "outage"),
        state=None if state is by_verdict else state,
    )


def _sum(rows: Sequence[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _times(rows: Sequence[Row], name: str) -> Times | None:
    known = [row[name] for row in rows if row[name] is not None]
    return Times(round(median(known)), max(known), len(known)) if known else None


def _trouble(
    nights: Sequence[Night], days: Mapping[str, Sequence[Row]], stands: Mapping[str, Stands]
) -> Trouble | None:
    if not nights or nights[-1].worst is Verdict.VALID:
        return None
    bad = nights[-1].worst.rank
    first = len(nights)
    while first and nights[first - 1].worst.rank >= bad:
        first -= 1
    day = nights[first].day
    run = next(row for row in days[day] if stands[row["run"]].state.rank >= bad)
    before = days[nights[first - 1].day][-1]["commit"] if first else None
    stand, many = stands[run["run"]], len(nights) - first
    return Trouble(day, many, run["run"], stand.state, run["seed"], run["commit"], before, stand.expected)


def _badness(trend: Trend) -> int:
    return trend.trouble.verdict.rank if trend.trouble else 0
