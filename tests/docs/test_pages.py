"""What the pages say of the code, held against the code; and that their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest

from chaos.model import errors, op, registry
from chaos.model.history import SCHEMA, History
from chaos.model.settings import resolve
from clusters.hosts import containers, inventory
from nemesis.partition import KINDS as PARTITIONS
from nemesis.targets import ROLES
from results.store import RunDirectory
from tests.docs.pages import DOCS, ROOT, anchors, blocks, first_column, headings, links, name, pages, section
from tests.docs.story import commands, make_targets
from tests.docs.tables import MADE, made

PAGES = pytest.mark.parametrize("page", pages(), ids=name)
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home|Users|tmp)/")


@PAGES
def test_made_parts_are_as_the_code_has_them(page: Path) -> None:
    assert made(page) == page.read_text(encoding="utf-8"), "due: python -m tests.docs.tables"


@PAGES
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name(page)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(there), f"{name(page)} links to {target}; no such heading"


@PAGES
def test_nothing_is_of_one_machine(page: Path) -> None:
    assert not MACHINE.findall(page.read_text(encoding="utf-8"))


@PAGES
def test_make_targets_exist(page: Path) -> None:
    told = [shlex.split(command.line) for block in blocks(page) if block.language == "console"
            for command in commands(block)]  # fmt: skip
    named = {words[1] for words in told if words[0] == "make"}
    named |= set(re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8")))
    assert named <= make_targets()


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            ahead += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link]
    assert set(pages()) <= seen


def test_every_nemesis_has_its_section_and_settings() -> None:
    page = DOCS / "faults.md"
    assert set(registry.names(registry.NEMESES)) <= set(headings(page, 2))
    for nemesis in registry.names(registry.NEMESES):
        assert f"<!-- made: settings nemeses {nemesis} -->" in section(page, nemesis)
    assert first_column(section(page, "partition"), "kind") == list(PARTITIONS)
    assert first_column(section(page, "Whom"), "target") == [*ROLES, "n1+n3"]


@pytest.mark.parametrize("checker", registry.names(registry.CHECKERS))
def test_every_checker_has_its_section_counts_and_anomalies(checker: str) -> None:
    text = section(DOCS / "checkers.md", checker)
    cls = registry.find(registry.CHECKERS, checker)
    assert f"<!-- made: settings checkers {checker} -->" in text
    history = History.from_ops([])
    if checker == "availability":  # says less of a history without publishes
        history = History.from_ops([op.Op(index=0, time=0, process=0, type=op.INVOKE, f="publish", key="q", value=1)])
    counts = cls().check(history, resolve(cls.settings, {}, checker)).counts
    assert first_column(text, "count") == list(counts)
    for kind in re.findall(r'\bAnomaly\(\s*"([a-z_-]+)"', getsource(import_module(cls.__module__))):
        assert f"`{kind}`" in text


@pytest.mark.parametrize("broker", sorted({*registry.names(registry.BROKERS), *registry.names(registry.SIMULATIONS)}))
def test_every_broker_has_a_page_with_its_settings(broker: str) -> None:
    found = {match[0] for match in MADE.findall((DOCS / "brokers" / f"{broker}.md").read_text(encoding="utf-8"))}
    for group in (registry.BROKERS, registry.SIMULATIONS):
        if broker in registry.names(group):
            assert f"settings {group} {broker}" in found


def test_the_settings_of_hosts_over_ssh() -> None:
    page = section(DOCS / "hosts.md", "Machines over SSH")
    assert first_column(page, "setting") == [setting.name for setting in inventory.COMMON]
    assert first_column(page, "key") == [setting.name for setting in inventory.OWN]
    told = first_column(section(DOCS / "hosts.md", "Containers of yours"), "table `cluster.docker`")
    assert told == ["containers", *(setting.name for setting in containers.SETTINGS)]
    for variable in (inventory.PASSWORD, inventory.PASSPHRASE, inventory.SUDO):
        assert f"`{variable}`" in page


@pytest.mark.parametrize("workload", registry.names(registry.WORKLOADS))
def test_every_workload_is_described(workload: str) -> None:
    of_messages = workload in ("queue", "stream")
    page, heading = ("scenarios.md", f"The workload {workload}") if of_messages else ("workloads.md", workload)
    told = section(DOCS / page, heading)
    assert f"<!-- made: settings workloads {workload} -->" in told


def test_the_columns_and_ops_of_histories() -> None:
    page = DOCS / "histories.md"
    assert first_column(section(page, "Columns"), "column") == SCHEMA.names
    told = re.findall(r"^`(\w+)`  ", op.__doc__ or "", re.MULTILINE)
    assert sorted(first_column(section(page, "Ops"), "f")) == sorted(told)


def test_the_scenario_of_what_mirrored_queues_lose_is_that_of_the_controls() -> None:
    (shown,) = [block.text for block in blocks(DOCS / "brokers" / "rabbitmq-mirrored.md") if block.language == "toml"]
    there = (ROOT / "suites" / "mirrored-autoheal.toml").read_text(encoding="utf-8")
    assert tomllib.loads(shown) == tomllib.loads(there)


def test_the_exit_codes() -> None:
    told = [int(code) for code in first_column(section(DOCS / "scenarios.md", "Exit codes"), "code")]
    assert told == [value for key, value in vars(errors).items() if key.startswith("EXIT_") and key != "EXIT_ERROR"] + [
        errors.EXIT_ERROR
    ]


def test_the_files_of_a_run() -> None:
    directory = RunDirectory(Path("run"))
    files = {path.name for path in vars(directory).values() if isinstance(path, Path)} - {"run"}
    told = set(first_column(section(DOCS / "scenarios.md", "Where runs are kept"), "file"))
    assert told == files - {directory.stream.name}


def test_what_the_pages_say_of_extending_is_registered_so() -> None:
    groups = first_column((DOCS / "extending.md").read_text(encoding="utf-8"), "to add")
    assert len(groups) == 7
    text = (DOCS / "extending.md").read_text(encoding="utf-8")
    for group in (registry.BROKERS, registry.SIMULATIONS, registry.NEMESES, registry.WORKLOADS, registry.CHECKERS):
        assert f"`splitbrain.{group}`" in text
