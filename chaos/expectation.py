"""What a suite expects of a scenario over its seeds, and whether that is what was seen.

Both directions count: a design that is said to lose must be seen to lose, and for the right reason. So an expectation
says how many of the seeds must meet it, and it is met or it is not; a run that shows nothing (*unknown*) meets none.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from chaos.model.settings import BadKey, format_duration, parse_duration
from chaos.model.verdict import Result, Verdict, merge
from checkers.base import several

ALL = "all"
_ANOMALY = re.compile(r"[a-z-]+\.[A-Za-z_-]+")
_VERDICTS = {True: Verdict.VALID, False: Verdict.INVALID, "unknown": Verdict.UNKNOWN}
KEYS = ("valid", "anomaly", "at_least", "measure", "between", "ratio")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a seed showed. `measured`: the number asked for, None where the run has none; `versus`: the same of the run
    that it is compared with."""

    seed: int
    verdict: Verdict
    anomalies: tuple[str, ...] = ()
    why: str = ""
    measured: float | None = None
    versus: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an expectation is met by what was seen, which `observed` says in a few words; `missed`: the seeds that
    did not do their part, with what they did instead."""

    met: bool
    observed: str
    missed: tuple[Seen, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """verdict: that the runs are to have. anomalies: each run must show one of these ("checker.kind").

    measure: a number of each run, "checker.count"; between: its least and greatest; ratio: the least and greatest of
    its median divided by that of the runs that it is compared with.
    at_least: how many seeds must do so: a count, or a share as a float (1.0 = all). A ratio needs none.
    """

    verdict: Verdict | None = None
    anomalies: tuple[str, ...] = ()
    at_least: int | float = 1.0
    measure: str | None = None
    between: tuple[float, float] | None = None
    ratio: tuple[float, float] | None = None

    def wanted(self, seeds: int, repeat: int = 1) -> int:
        """How many of so many runs must meet it, where each seed is run `repeat` times."""
        if isinstance(self.at_least, int):
            return min(self.at_least * repeat, seeds)
        return ceil(round(self.at_least * seeds, 6))

    def says(self) -> str:
        """In a few words: "messages.lost in 50% of the seeds"."""
        parts = []
        if self.verdict is not None:
            parts.append(" or ".join(self.anomalies) if self.anomalies else str(self.verdict))
        if self.between is not None:
            parts.append(f"{self.measure} {_range(self.measure, *self.between)}")
        if self.ratio is not None:
            return f"median {self.measure}, ratio {_range(None, *self.ratio)}"
        share = self.at_least
        if isinstance(share, int):
            many = several(share, "seed")
        else:
            many = "all seeds" if share == 1 else f"{share:.0%} of the seeds"
        return f"{' and '.join(parts)} in {many}"

    def judge(self, seen: Sequence[Seen], planned: int | None = None, repeat: int = 1) -> Judgement:
        """Whether what was seen, seed by seed, is what was expected. With more runs `planned` than were seen: whether
        it can still be, however the others come out."""
        planned = len(seen) if planned is None else planned
        left = planned - len(seen)
        if self.ratio is not None:
            if left:
                return Judgement(True, f"{len(seen)} of {planned}: medians are compared when all are there")
            return self._compare(seen)
        hits = [one for one in seen if self._hit(one)]
        missed = tuple(one for one in seen if not self._hit(one))
        observed = f"{len(hits)} of {len(seen)}{f' ({planned} in all)' if left else ''}"
        told = _measures(self.measure, [one.measured for one in seen]) if self.measure else _others(missed)
        met = len(hits) + left >= self.wanted(planned, repeat)
        return Judgement(met, f"{observed}{f': {told}' if told else ''}", missed)

    def to_json(self) -> dict[str, Any]:
        """As data, which `from_json` makes an equal expectation of."""
        data = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {**data, "verdict": None if self.verdict is None else str(self.verdict)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Expectation:
        """What `to_json` made of it. Raises KeyError, TypeError or ValueError for anything else."""
        low_high = {key: None if data[key] is None else (data[key][0], data[key][1]) for key in ("between", "ratio")}
        verdict = None if data["verdict"] is None else Verdict(data["verdict"])
        return Expectation(verdict, tuple(data["anomalies"]), data["at_least"], data["measure"], **low_high)

    def _hit(self, one: Seen) -> bool:
        if self.verdict is not None and one.verdict is not self.verdict:
            return False
        if self.anomalies and not any(anomaly in one.anomalies for anomaly in self.anomalies):
            return False
        if self.between is None:
            return True
        return one.measured is not None and self.between[0] <= one.measured <= self.between[1]

    def _compare(self, seen: Sequence[Seen]) -> Judgement:
        assert self.ratio is not None
        ours = [one.measured for one in seen if one.measured is not None]
        theirs = [one.versus for one in seen if one.versus is not None]
        missed = tuple(one for one in seen if one.measured is None or one.versus is None)
        if missed or not seen:
            return Judgement(False, f"{len(missed)} of {len(seen)} have no {self.measure}", missed)
        one, other = statistics.median(ours), statistics.median(theirs)
        if not other:
            return Judgement(False, f"median {_number(self.measure, one)} against 0", ())
        ratio = one / other
        said = f"ratio {ratio:.2f} (medians {_number(self.measure, one)}, {_number(self.measure, other)})"
        return Judgement(self.ratio[0] <= ratio <= self.ratio[1], said, ())


def understand(table: Mapping[str, Any], where: str, compared: bool) -> Expectation:
    """An expectation as a suite has it. Raises BadKey with a key below `where` for one that says too little or too
    much: above all, one that does not say of how many seeds it is meant."""
    for key in table:
        if key not in KEYS:
            raise BadKey(f"{where}.{key}", f"unknown key {key!r}; known: {', '.join(KEYS)}")
    ratio = _span(table, "ratio", where)
    between = _span(table, "between", where)
    measure = table.get("measure")
    if measure is not None and not (isinstance(measure, str) and re.fullmatch(r"[a-z-]+\.[A-Za-z_.-]+", measure)):
        raise BadKey(f"{where}.measure", f"{measure!r} is not a number of a checker, such as availability.longest_gap")
    if (measure is None) != (ratio is None and between is None):
        raise BadKey(where, "`measure` and one of `between` and `ratio` go together: of what, and how much")
    if (ratio is not None) != compared:
        raise BadKey(where, "`ratio` compares with what `versus` of the scenario says: write both or neither")
    if ratio is not None:
        for key in ("valid", "anomaly", "at_least", "between"):
            if key in table:
                raise BadKey(
                    f"{where}.{key}", "a ratio is of medians over all seeds, and nothing else is expected then"
                )
        return Expectation(measure=measure, ratio=ratio)
    verdict = None
    if "valid" in table:
        if table["valid"] not in (True, False, "unknown"):
            raise BadKey(f"{where}.valid", f'{table["valid"]!r} is neither true nor false nor "unknown"')
        verdict = _VERDICTS[table["valid"]]
    if verdict is None and between is None:
        raise BadKey(where, 'it says nothing: write `valid = true`, or `valid = false, anomaly = "messages.lost"`')
    return Expectation(verdict, _anomalies(table, where, verdict), _at_least(table, where), measure, between)


def _anomalies(table: Mapping[str, Any], where: str, verdict: Verdict | None) -> tuple[str, ...]:
    told = table.get("anomaly", [])
    named = (told,) if isinstance(told, str) else tuple(told) if isinstance(told, list) else (told,)
    for anomaly in named:
        if not isinstance(anomaly, str) or not _ANOMALY.fullmatch(anomaly):
            raise BadKey(f"{where}.anomaly", f"{anomaly!r} is not checker.kind, such as messages.lost")
    if named and verdict in (None, Verdict.VALID):
        raise BadKey(
            f"{where}.anomaly", 'an anomaly makes a run invalid, or unknown: write valid = false, or "unknown"'
        )
    if verdict is Verdict.INVALID and not named:
        raise BadKey(where, 'why is it to be invalid? write anomaly = "messages.lost", or another')
    return named


def _at_least(table: Mapping[str, Any], where: str) -> int | float:
    if "at_least" not in table:
        raise BadKey(where, 'of how many seeds is it meant? write at_least = "all", or "80%", or 3')
    told = table["at_least"]
    if told == ALL:
        return 1.0
    if isinstance(told, int) and not isinstance(told, bool) and told >= 1:
        return told
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", told) if isinstance(told, str) else None
    if found is None or not 0 < float(found[1]) <= 100:
        raise BadKey(
            f"{where}.at_least", f'{told!r} is neither "all", nor a share such as "80%", nor a count such as 3'
        )
    return float(found[1]) / 100


def _span(table: Mapping[str, Any], key: str, where: str) -> tuple[float, float] | None:
    if key not in table:
        return None
    told = table[key]
    problem = f'{told!r} is not a least and a greatest value, such as [1, 5], or ["0s", "12s"]'
    if not isinstance(told, list) or len(told) != 2:
        raise BadKey(f"{where}.{key}", problem)
    try:
        low, high = (float(parse_duration(value)) if isinstance(value, str) else float(value) for value in told)
    except (TypeError, ValueError):
        raise BadKey(f"{where}.{key}", problem) from None
    if not low <= high:
        raise BadKey(f"{where}.{key}", f"{problem}: the first is above the second")
    return low, high


def measured(results: Mapping[str, Result], measure: str) -> float | None:
    """The number of that name, "checker.name": a count, or else a metric. None where there is none."""
    checker, _, name = measure.partition(".")
    result = results.get(checker)
    if result is None:
        return None
    value = result.counts.get(name, result.metrics.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def seen(seed: int, results: Mapping[str, Result], measure: str | None) -> Seen:
    """What the checkers of one run say, as an expectation looks at it."""
    verdict = merge(result.verdict for result in results.values())
    kinds = (f"{name}.{anomaly.kind}" for name, result in results.items() for anomaly in result.anomalies)
    why = next((f"{name}: {one.reason}" for name, one in results.items() if one.verdict is verdict), "")
    number = None if measure is None else measured(results, measure)
    return Seen(seed, verdict, tuple(dict.fromkeys(kinds)), why if verdict is not Verdict.VALID else "", number)


def _others(missed: Sequence[Seen]) -> str:
    """What those did that did not do what was expected."""
    did = Counter(", ".join(one.anomalies) or str(one.verdict) for one in missed)
    return "; ".join(f"{number} {what}" for what, number in sorted(did.items(), key=lambda item: (-item[1], item[0])))


def _measures(measure: str, values: Sequence[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "none has it"
    low, middle, high = known[0], statistics.median(known), known[-1]
    if low == high:
        return _number(measure, low)
    return f"{_number(measure, low)} to {_number(measure, high)}, median {_number(measure, middle)}"


TIMES = ("gap", "overlap", "vacancy", "time", "recovery")  # how the names of those measures end that are times, in ns


def _number(measure: str | None, value: float) -> str:
    if measure is not None and measure.rpartition("_")[2] in TIMES:
        return format_duration(round(value / 1e6) * 1_000_000) if value >= 1e6 else format_duration(int(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _range(measure: str | None, low: float, high: float) -> str:
    if low == high:
        return f"= {_number(measure, low)}"
    if high == float("inf"):
        return f"at least {_number(measure, low)}"
    if low in (0, float("-inf")):
        return f"at most {_number(measure, high)}"
    return f"{_number(measure, low)} to {_number(measure, high)}"
