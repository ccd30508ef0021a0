"""The ring as a list of members."""

from __future__ import annotations

from clusters.simulated.mirrored.view import View

THREE = View(4, ("n2", "n3", "n1"), (0, 7, 9), ("n1",))


def test_the_right_of_the_last_is_the_master() -> None:
    assert [THREE.right_of(node) for node in THREE.members] == ["n3", "n1", "n2"]
    assert THREE.master == "n2"


def test_who_is_dropped_takes_along_what_is_known_of_it() -> None:
    assert THREE.keeping(["n1", "n2"]) == View(5, ("n2", "n1"), (0, 9), ("n1",))
    assert THREE.keeping(["n3", "n2"]) == View(5, ("n2", "n3"), (0, 7), ())


def test_who_comes_is_the_youngest_and_behind_unless_there_is_nothing_to_have() -> None:
    assert THREE.joined("n4", 12, empty=False) == View(5, ("n2", "n3", "n1", "n4"), (0, 7, 9, 12), ("n1", "n4"))
    assert THREE.joined("n4", 12, empty=True) == View(5, ("n2", "n3", "n1", "n4"), (0, 7, 9, 12), ("n1",))
    assert THREE.joined("n3", 12, empty=False) == View(5, ("n2", "n1", "n3"), (0, 9, 12), ("n1", "n3"))


def test_a_view_stays_the_same_when_a_member_has_been_synchronised() -> None:
    assert THREE.synchronised("n1") == View(4, THREE.members, THREE.since)
    assert THREE.synchronised("n1").same(THREE)
    assert not THREE.same(THREE.keeping(THREE.members))
