"""Three machines for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ssh.machines import Machines, machines


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("machines"), 3) as made:
        yield made


@pytest.fixture
def untouched(hosts: Machines) -> Iterator[Machines]:
    """What a test does to the machines is taken back when it ends."""
    before = hosts.states()
    yield hosts
    assert [now ^ then for now, then in zip(hosts.states(), before, strict=True)] == [set(), set(), set()]
