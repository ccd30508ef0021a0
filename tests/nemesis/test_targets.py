"""Roles: whom they mean, and which cannot be meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.model.settings import BadKey
from nemesis.base import View
from nemesis.targets import ROLES, between, hurt, in_order, targets, usable

THREE = ("n1", "n2", "n3")
FIVE = ("n1", "n2", "n3", "n4", "n5")


@pytest.mark.parametrize(
    ("target", "three", "five"),
    [
        ("one", ("n2",), ("n3",)),
        ("minority", ("n2",), ("n2", "n3")),
        ("majority", ("n1", "n2"), ("n2", "n3", "n4")),
        ("leader", ("n2",), ("n2",)),
        ("all", THREE, FIVE),
        ("n3", ("n3",), ("n3",)),
        ("n3+n1", ("n1", "n3"), ("n1", "n3")),
        ("n1+n4", ("n1",), ("n1", "n4")),  # n4 may be one that another fault holds
    ],
)
def test_whom_a_target_means(target: str, three: tuple[str, ...], five: tuple[str, ...]) -> None:
    assert hurt(target, View(THREE, "n2"), draw=7) == three
    assert hurt(target, View(FIVE, "n2"), draw=7) == five


@pytest.mark.parametrize("target", ROLES)
def test_nobody_is_left_to_hurt(target: str) -> None:
    assert hurt(target, View((), None), draw=1) == ()


def test_there_may_be_no_leader() -> None:
    assert hurt("leader", View(THREE, None), draw=1) == ()
    assert hurt("leader", View(("n1", "n2"), "n3"), draw=1) == ()


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_sizes(count: int, draw: int) -> None:
    nodes = tuple(f"n{number}" for number in range(1, count + 1))
    size = {role: len(hurt(role, View(nodes, "n1"), draw)) for role in ROLES}
    assert size["one"] == size["leader"] == 1
    assert size["all"] == count
    assert 2 * size["majority"] > count >= 2 * (size["majority"] - 1)
    assert 2 * size["minority"] < count <= 2 * (size["minority"] + 1)
    for role in ROLES:
        chosen = hurt(role, View(nodes, "n1"), draw)
        assert list(chosen) == [node for node in nodes if node in chosen]
        assert chosen == hurt(role, View(nodes, "n1"), draw)


def test_a_follower_is_anybody_but_the_leader() -> None:
    assert {hurt("follower", View(THREE, "n2"), draw) for draw in range(50)} == {("n1",), ("n3",)}
    assert {hurt("follower", View(("n1", "n2"), "n3"), draw) for draw in range(50)} == {("n1",), ("n2",)}
    assert hurt("follower", View(THREE, None), draw=1) == ()
    assert hurt("follower", View(("n1",), "n1"), draw=1) == ()


def test_followers_are_all_but_the_leader_and_nobody_where_nobody_leads() -> None:
    assert hurt("followers", View(THREE, "n2"), draw=1) == ("n1", "n3")
    assert hurt("followers", View(("n1", "n2"), "n3"), draw=1) == ("n1", "n2")
    assert hurt("followers", View(THREE, None), draw=1) == ()


def test_the_newest_is_who_was_started_last() -> None:
    assert hurt("newest", View(THREE, "n2", "n3"), draw=1) == ("n3",)
    assert hurt("newest", View(THREE, "n2", None), draw=1) == ()
    assert hurt("newest", View(("n1", "n2"), "n2", "n3"), draw=1) == (), "another fault holds it"


def test_every_node_can_be_the_one() -> None:
    assert {hurt("one", View(THREE, None), draw) for draw in range(50)} == {("n1",), ("n2",), ("n3",)}


def test_targets_that_mean_nobody_are_left_out_or_refused() -> None:
    assert usable(("one", "minority", "n3+n1"), THREE) == ("one", "minority", "n3+n1")
    assert usable(("one", "minority"), ("n1", "n2")) == ("one",)
    with pytest.raises(BadKey) as caught:
        usable(("minority",), ("n1", "n2"))
    assert str(caught.value) == "targets: a minority of 2 is nobody; use 3 nodes or more, or another target"
    with pytest.raises(BadKey) as caught:
        usable(("one", "n1+n4"), THREE)
    assert str(caught.value) == "targets: there is no node 'n4' in 'n1+n4'; the nodes are n1, n2, n3"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (["leadr"], "'leadr' is neither a role nor nodes such as \"n1+n3\"; did you mean 'leader'?"),
        ("one,n0", "'n0' is neither a role nor nodes such as \"n1+n3\"; known: all, follower, followers, leader"),
        ([3], "3 is neither a role nor nodes"),
        ([["one"]], "['one'] is neither a role nor nodes"),
        ([], "[] is not a list of targets"),
        (3, "3 is not a list of targets"),
        ("one,one", "'one,one' names one of them twice"),
    ],
)
def test_values_that_are_no_targets(value: object, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        targets("one").convert(value)
    assert str(caught.value).startswith(problem)


def test_values_that_are_targets() -> None:
    assert targets("one").convert("leader,n1+n3") == targets("one").convert(["leader", "n1+n3"]) == ("leader", "n1+n3")


def test_links() -> None:
    around = between(["n2"], ["clients", "n1"])
    assert around == [["n2", "clients"], ["clients", "n2"], ["n2", "n1"], ["n1", "n2"]]
    assert in_order([*around, ["n1", "n2"]], THREE) == [
        ["n1", "n2"],
        ["n2", "n1"],
        ["n2", "clients"],
        ["clients", "n2"],
    ]
