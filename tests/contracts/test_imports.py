"""Who may import whom: the layers of pyproject.toml hold, and what runs on a broker's node stands alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from chaos.startup import PACKAGES

ROOT = Path(__file__).parents[2]
# What is carried to a node, where there is a bare python3.
CARRIED = ("clusters.agent", "clusters.faults")
STARTED = ("clusters.agent.__main__", "clusters.agent.detached", "clusters.agent.relay", "clusters.agent.machine")


def test_arrows_run_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_agent_uses_nothing_but_the_standard_library() -> None:
    todo, seen, foreign = [*STARTED], set[str](), []
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        if not module.startswith(CARRIED):
            if module.split(".")[0] not in sys.stdlib_module_names:
                foreign.append(module)
        elif file := source(module):
            todo += imported(file)
    assert foreign == []
    assert "json" in seen


def source(module: str) -> Path | None:
    """The file of one of our modules; None for a name that is something inside one."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def imported(file: Path) -> list[str]:
    """All that a file imports, by full name: for `from a import b` both a and a.b, as b may be a module."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: a relative import"
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


# A package of somebody else may add to them.
ENTRIES = [
    entry
    for group in ("brokers", "simulations", "nemeses", "workloads", "checkers")
    for entry in entry_points(group=f"splitbrain.{group}")
    if entry.value.startswith(PACKAGES)
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.group}:{entry.name}")
def test_every_name_that_a_scenario_can_use_leads_to_its_class(entry: EntryPoint) -> None:
    assert isinstance(entry.load(), type)


def test_whoever_simulates_imports_no_sdk_of_an_engine_and_no_ssh() -> None:
    code = (
        "import sys, chaos.cli.run; from chaos import scenario;"
        "told = {'schema': 1, 'name': 'a', 'cluster': {'broker': 'rabbitmq-quorum', 'on': 'simulated'}};"
        "scenario.from_data(told | {'workload': {'name': 'queue', 'time': '1s'}});"
        "print({'docker', 'paramiko'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_pyspark_is_imported_by_the_pipeline_only_and_by_no_command_before_it_needs_it() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    users = {file for file in files if any(name.split(".")[0] == "pyspark" for name in imported(file))}
    assert users
    assert all(file.is_relative_to(ROOT / "results" / "spark") for file in users)
    commands = ", ".join(f"chaos.cli.{name}" for name in ("check", "doctor", "ingest", "run"))
    code = f"import sys, {commands}; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
