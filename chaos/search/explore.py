"""Many seeds of a simulated scenario: which failures there are, told apart, and what was covered on the way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from chaos.controller import Interrupted
from chaos.model.errors import SplitbrainError
from chaos.model.verdict import Verdict
from chaos.scenario import Scenario
from chaos.search.coverage import Coverage, coverage
from chaos.search.failures import Failure, Key, failures
from chaos.search.keep import keep
from chaos.search.swarm import draw
from chaos.search.trial import Trial, trial
from results.store import Store
from results.tables.explored import numbers

Spread: TypeAlias = Callable[[Callable[[int], "Seed"], Iterable[int]], Generator[tuple[int, "Seed"], None, None]]
ALIKE = 10
RUN = "run"  # stands for a checker where the run itself failed


@dataclass(frozen=True)
class Seed:
    """What became of one seed. `why`: of each checker that could not say, the reason. `digest`: of its history. `run`:
    where it is kept, if whoever ran it did that. `verdicts`: of each checker. `numbers`: what they counted and
    measured, by columns of the table `runs`."""

    seed: int
    verdict: Verdict
    failures: tuple[Failure, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    digest: str | None = None
    run: str | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "verdict": self.verdict.value,
            "failures": [failure.to_json() for failure in self.failures],
            "why": dict(self.why),
            "coverage": self.coverage.to_json(),
            "digest": self.digest,
            "run": self.run,
            "verdicts": {name: verdict.value for name, verdict in self.verdicts.items()},
            "numbers": dict(self.numbers),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Seed:
        """Read back. Raises KeyError, TypeError or ValueError for what is none."""
        return Seed(
            data["seed"],
            Verdict(data["verdict"]),
            tuple(Failure.from_json(failure) for failure in data["failures"]),
            data["why"],
            Coverage.from_json(data["coverage"]),
            data["digest"],
            data["run"],
            {name: Verdict(verdict) for name, verdict in data["verdicts"].items()},
            data["numbers"],
        )


@dataclass(frozen=True)
class Found:
    """A distinct failure. first: the seed that met it first. seeds: how many met it. run: where the first is kept."""

    failure: Failure
    first: int
    seeds: int
    run: str | None

    def to_json(self) -> dict[str, Any]:
        return {**self.failure.to_json(), "first": self.first, "seeds": self.seeds, "run": self.run}


class Exploration:
    """The sum of the seeds so far. It depends on them and their order only, not on who ran them."""

    def __init__(self) -> None:
        self.verdicts: dict[Verdict, int] = {}
        self.found: dict[Key, Found] = {}
        self.unknowns: list[Seed] = []
        self.coverage = Coverage()

    def new(self, seed: Seed) -> tuple[Failure, ...]:
        """Those of its failures that no seed before it has met."""
        return tuple(failure for failure in seed.failures if failure.key not in self.found)

    def add(self, seed: Seed, run: str | None) -> None:
        """Count it in. `run`: where it is kept, if it is."""
        self.verdicts[seed.verdict] = self.verdicts.get(seed.verdict, 0) + 1
        self.coverage += seed.coverage
        if seed.verdict is Verdict.UNKNOWN:
            self.unknowns.append(seed)
        for failure in seed.failures:
            known = self.found.get(failure.key, Found(failure, seed.seed, 0, run))
            self.found[failure.key] = replace(known, seeds=known.seeds + 1)

    @property
    def seeds(self) -> int:
        """How many were counted in."""
        return sum(self.verdicts.values())

    @property
    def verdict(self) -> Verdict:
        """Invalid if any seed is; unknown if not one is valid, since nothing was shown then."""
        for verdict in (Verdict.INVALID, Verdict.VALID):
            if verdict in self.verdicts:
                return verdict
        return Verdict.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """As JSON data, failures in the order in which they were met."""
        return {
            "valid": self.verdict.to_json(),
            "seeds": self.seeds,
            "verdicts": {verdict.value: self.verdicts.get(verdict, 0) for verdict in _COUNTED},
            "failures": [found.to_json() for found in self.found.values()],
            "unknowns": [{"seed": seed.seed, "why": dict(seed.why)} for seed in self.unknowns],
            "coverage": self.coverage.to_json(),
        }


_COUNTED = (Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN)


def explore(
    scenario: Scenario,
    seeds: Iterable[int],
    *,
    spread: Spread,
    swarm: bool,
    done: Mapping[int, Seed],
    store: Path | None = None,
) -> Generator[Seed, None, None]:
    """What becomes of each seed, in order; those `done` already are taken from there. Close it to stop early.

    spread: who runs them. swarm: each seed has some of the scenario's faults in play (see `chaos.search.swarm`), not
    all of them. store: where every run is kept, by whoever ran it. Raises KeyboardInterrupt when a run was interrupted.
    """
    wanted = list(seeds)
    fresh = spread(partial(look, scenario, swarm, store), [seed for seed in wanted if seed not in done])
    try:
        for seed in wanted:
            yield done[seed] if seed in done else next(fresh)[1]
    finally:
        fresh.close()


def look(scenario: Scenario, swarm: bool, store: Path | None, seed: int) -> Seed:
    """Run one seed. A run that fails, of whatever, is one of which nothing is known; but what cannot be imported is no
    matter of the seed: that raises SplitbrainError."""
    try:
        tried = attempt(scenario, swarm, seed)
        run = None if store is None else keep(Store(store), tried).id
    except ImportError as error:
        raise SplitbrainError(f"no seed can be run here: {error}") from error
    except Exception as error:
        return lost(seed, str(error) if isinstance(error, SplitbrainError) else f"{type(error).__name__}: {error}")
    history = tried.outcome.history
    return Seed(
        seed,
        tried.verdict,
        failures(history, tried.results),
        tried.why(Verdict.UNKNOWN) if tried.verdict is Verdict.UNKNOWN else {},
        coverage(history),
        history.digest(),
        run,
        {name: result.verdict for name, result in tried.results.items()},
        numbers(tried.results),
    )


def lost(seed: int, why: str) -> Seed:
    """A seed whose run failed."""
    return Seed(seed, Verdict.UNKNOWN, why={RUN: f"the run failed: {why}"})


class Alike:
    """Raises SplitbrainError when the runs of the first ALIKE seeds have all failed, and alike: that is no matter of
    the seeds."""

    def __init__(self) -> None:
        self._whys: list[str] | None = []

    def add(self, seed: Seed) -> None:
        """The next seed, in order."""
        if self._whys is None:
            return
        self._whys.append(seed.why.get(RUN, ""))
        if not self._whys[0] or self._whys[-1] != self._whys[0]:
            self._whys = None
        elif len(self._whys) == ALIKE:
            raise SplitbrainError(f"the first {ALIKE} seeds have come to the same: {self._whys[0]}")


def attempt(scenario: Scenario, swarm: bool, seed: int) -> Trial:
    """The run of one seed. Raises KeyboardInterrupt when it was interrupted."""
    try:
        tried = trial(draw(scenario, seed) if swarm else replace(scenario, seed=seed))
    except Interrupted:
        raise KeyboardInterrupt from None
    if tried.outcome.interrupted:
        raise KeyboardInterrupt
    return tried


def keep_seed(store: Store, scenario: Scenario, swarm: bool, seed: Seed) -> str:
    """Run a seed once more, and keep it: the id of the run.

    Raises SplitbrainError when it does not come out the same, which would be an error of ours.
    """
    tried = attempt(scenario, swarm, seed.seed)
    if (digest := tried.outcome.history.digest()) != seed.digest:
        raise SplitbrainError(
            f"seed {seed.seed} gave another history when it was run again ({digest}, not {seed.digest}): something in "
            "this scenario does not come from its seed"
        )
    return keep(store, tried).id
