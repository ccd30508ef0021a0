"""The plugin for those who ask for it: a scenario as a test, and what is told when it fails."""

from __future__ import annotations

import pytest

HEAD = """\
schema = 1
seed = 1

[cluster]
broker = "rabbitmq-quorum"
{settings}

[workload]
name = "queue"
rate = 5
time = "3s"
producers = 1
consumers = 1
"""
FINE = HEAD.format(settings="")
FAULT = '\n[[fault]]\nnemesis = "partition"\nkind = "leader"\ntarget = "n1"\nfor = "2500ms"\n'
BROKEN = HEAD.format(settings='settings = { mutation = "confirm-before-commit" }') + FAULT

TESTS = """
from chaos.pytest_plugin import Splitbrain

def test_fine(splitbrain: Splitbrain) -> None:
    assert splitbrain.is_valid("fine.toml").outcome.history is not None
    splitbrain.shows_no("messages.lost", "fine.toml")

def test_another_anomaly(splitbrain: Splitbrain) -> None:
    splitbrain.shows_no("messages.duplicated", "broken.toml")

def test_broken(splitbrain: Splitbrain) -> None:
    splitbrain.is_valid("broken.toml")

def test_lost(splitbrain: Splitbrain) -> None:
    splitbrain.shows_no("messages.lost", "broken.toml")

def test_missing(splitbrain: Splitbrain) -> None:
    splitbrain.run("missing.toml")

def test_misspelt(splitbrain: Splitbrain) -> None:
    splitbrain.run("misspelt.toml")

def test_real(splitbrain: Splitbrain) -> None:
    splitbrain.run("real.toml")
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In a process of its own: NumPy is not loaded twice in one."""
    files = {
        "fine": FINE,
        "broken": BROKEN,
        "misspelt": FINE.replace("rate", "rat"),
        "real": FINE.replace("[workload]", 'on = "docker"\n[workload]'),
    }
    for name, text in files.items():
        pytester.path.joinpath(f"{name}.toml").write_text(text)
    pytester.makepyfile(test_it=TESTS)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_promises_kept_and_broken(pytester: pytest.Pytester) -> None:
    result = run(pytester, "-p", "chaos.pytest_plugin", "-v")
    result.assert_outcomes(passed=2, failed=5)
    result.stdout.fnmatch_lines(["*::test_fine PASSED*", "*::test_another_anomaly PASSED*"])
    result.stdout.fnmatch_lines(
        [
            "*_ test_broken _*",
            "broken.toml is invalid",
            "messages: *lost (*",
            "  messages.lost: message * was confirmed and never delivered, though q1 was drained completely",
            "*s  client 0 publishes message * to q1 through n1",
            "*s  the broker confirms it through n1 after *: it promises to keep it",
            "*the message had never come: it is lost",
            "see more with: splitbrain run broken.toml",
            "*_ test_lost _*",
            "broken.toml is invalid",
            "messages: *lost (*",
            "*_ test_missing _*",
            "*missing.toml: cannot be read: No such file or directory",
            "*misspelt.toml:10: workload.rat: unknown setting 'rat'; did you mean 'rate'?",
            "*real.toml: its cluster is on docker; only simulated ones are run here",
        ]
    )
    assert "During handling" not in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_nobody_has_it_who_did_not_ask(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(splitbrain): pass")
    pytester.runpytest().assert_outcomes(errors=1)
