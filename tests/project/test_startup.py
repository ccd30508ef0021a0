"""chaos.startup on folders of packages, in the order in which Python would look."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chaos.startup import PACKAGES, shadowed_package


def packages(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return str(folder)


def test_all_from_one_folder(tmp_path: Path) -> None:
    assert shadowed_package([packages(tmp_path, *PACKAGES)]) is None


def test_as_installed_here() -> None:
    assert shadowed_package() is None


def test_nothing_is_imported(tmp_path: Path) -> None:
    ours = packages(tmp_path, *PACKAGES)
    before = set(sys.modules)
    for name in PACKAGES:
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
    assert shadowed_package([ours]) is None
    assert set(sys.modules) == before


def test_another_package_first_on_the_path(tmp_path: Path) -> None:
    theirs = packages(tmp_path / "theirs", "results")
    ours = packages(tmp_path / "ours", *PACKAGES)
    assert shadowed_package([theirs, ours]) == (
        f"the package 'results' comes from {theirs}/results, but 'chaos' from {ours}/chaos: "
        f"rename or remove the former, or keep {theirs} off PYTHONPATH"
    )


def test_a_module_in_a_single_file_first_on_the_path(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "checkers.py").touch()
    ours = packages(tmp_path / "ours", *PACKAGES)
    line = shadowed_package([str(theirs), ours])
    assert line is not None
    assert line.startswith(f"the package 'checkers' comes from {theirs}/checkers, but 'chaos' from {ours}/chaos")


def test_a_plain_folder_shadows_nothing(tmp_path: Path) -> None:
    """Python prefers a package further down the path to a folder without __init__.py."""
    (tmp_path / "here" / "results").mkdir(parents=True)
    assert shadowed_package([str(tmp_path / "here"), packages(tmp_path / "ours", *PACKAGES)]) is None


@pytest.mark.parametrize("name", PACKAGES[1:])
def test_a_package_that_is_missing(tmp_path: Path, name: str) -> None:
    ours = packages(tmp_path, *(each for each in PACKAGES if each != name))
    assert shadowed_package([ours]) == f"the package '{name}' is missing from this installation: reinstall splitbrain"


def test_one_folder_by_two_names(tmp_path: Path) -> None:
    """A link to our folder is our folder."""
    ours = packages(tmp_path / "ours", *PACKAGES)
    (tmp_path / "link").symlink_to(ours)
    assert shadowed_package([str(tmp_path / "link"), ours]) is None
