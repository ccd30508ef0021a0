"""Who keeps a mirrored queue, in order of age: the ring."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class View(NamedTuple):
    """`members`: the eldest first, which is the master. `since`: at which number of the ring each came in: it has what
    was published after that. `behind`: those of them that are not synchronised. A change makes a view of the next
    number; two sides of a partition may make different ones of the same number."""

    number: int
    members: tuple[str, ...]
    since: tuple[int, ...]
    behind: tuple[str, ...] = ()

    @property
    def master(self) -> str:
        return self.members[0]

    def right_of(self, node: str) -> str:
        """The next in the ring; the last one's is the master."""
        return self.members[(self.members.index(node) + 1) % len(self.members)]

    def since_of(self, node: str) -> int:
        return self.since[self.members.index(node)]

    def same(self, other: View) -> bool:
        """Whether it is that view, whoever has been synchronised in it meanwhile."""
        return self.number == other.number and self.members == other.members

    def keeping(self, nodes: Collection[str]) -> View:
        """The next view, of the members that are among these."""
        kept = [(node, since) for node, since in zip(self.members, self.since, strict=True) if node in nodes]
        members = tuple(node for node, _ in kept)
        behind = tuple(node for node in self.behind if node in members)
        return View(self.number + 1, members, tuple(since for _, since in kept), behind)

    def joined(self, node: str, since: int, empty: bool) -> View:
        """The next view, where a node has come in as the youngest, with nothing; which is all there is in an empty
        queue."""
        rest = self.keeping([member for member in self.members if member != node])
        behind = rest.behind if empty else (*rest.behind, node)
        return View(self.number + 1, (*rest.members, node), (*rest.since, since), behind)

    def synchronised(self, node: str) -> View:
        """The same view, in which a member has all that the master has."""
        return self._replace(behind=tuple(other for other in self.behind if other != node))


NOBODY = View(0, (), ())
