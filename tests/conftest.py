"""What all tests share: container tests where there is an engine, and a list of those that were left out.

SPLITBRAIN_REQUIRE=docker (a comma-separated list of markers) says that these must run here: then a test so marked that
is skipped, for whatever reason, fails the session.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from results.spark import java

# How long an example takes, or its making, says more of the machine than of the code.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")

# Markers that stand for something a machine may not have.
NEEDS = ("docker", "spark")
# Container tests go by files, two side by side: these take longest, and begin first.
LONGEST = ("tests/docker/test_smoke.py", "tests/docker/test_rabbitmq.py")
SKIPPED = pytest.StashKey[list[tuple[str, str, str]]]()  # marker, test, reason


@cache
def docker_trouble() -> str:
    """Why no Docker engine can be used here; empty when one answers."""
    import docker

    try:
        client = docker.from_env(timeout=10)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # no socket, no rights, a dead engine: each raises something else
        return f"no Docker engine answers ({' '.join(str(error).split())[:120]})"
    return ""


def required() -> set[str]:
    return {name.strip() for name in os.environ.get("SPLITBRAIN_REQUIRE", "").split(",")} - {""}


def pytest_configure(config: pytest.Config) -> None:
    unknown = required() - set(NEEDS)
    if unknown:
        raise pytest.UsageError(f"SPLITBRAIN_REQUIRE: {', '.join(sorted(unknown))} is none of {', '.join(NEEDS)}")
    config.stash[SKIPPED] = []
    # Whoever runs us in the background (nohup, `&`) ignores these, and the commands under test would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_runtest_setup(item: pytest.Item) -> None:
    # At set-up, not at collection: a session that selects no container test asks no engine.
    if item.get_closest_marker("docker") and (trouble := docker_trouble()):
        pytest.skip(trouble)
    if item.get_closest_marker("spark") and (trouble := java.trouble() or ""):
        pytest.skip(trouble)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for marker in NEEDS:
            if item.get_closest_marker(marker):
                item.config.stash[SKIPPED].append((marker, item.nodeid, reason.removeprefix("Skipped: ")))
    return report


def failing(config: pytest.Config) -> bool:
    return any(marker in required() for marker, _, _ in config.stash[SKIPPED])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if failing(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = config.stash[SKIPPED]
    if not skipped:
        return
    terminalreporter.section(f"tests left out: {len(skipped)}", yellow=True)
    for marker, test, reason in skipped:
        terminalreporter.line(f"{marker}: {test}: {reason}")
    if failing(config):
        terminalreporter.line(f"SPLITBRAIN_REQUIRE={os.environ['SPLITBRAIN_REQUIRE']}: a skip is a failure", red=True)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Histories recorded by other projects' checkers, kept beside this repository; skips where they are not."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("no corpus of histories at ../shared/corpus")
    return folder
