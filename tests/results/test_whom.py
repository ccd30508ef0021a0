from __future__ import annotations

import pytest

from chaos.model.schedule import Action, whom


def cut(*links: str) -> Action:
    return Action("cut", (), {"links": [list(link.split(">")) for link in links], "service": None})


def both(*pairs: str) -> Action:
    ways = [f"{one}>{other}" for one, other in (pair.split("-") for pair in pairs)]
    return cut(*ways, *(">".join(reversed(way.split(">"))) for way in ways))


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([], ""),
        ([Action("kill", ("n1", "n3"))], "n1, n3"),
        ([Action("pause", ("n1",)), Action("pause", ("n2",))], "n1, n2"),
        ([both("n1-n2", "n1-n3")], "n1 | n2 n3"),
        ([both("n1-n3", "n1-n4", "n1-n5", "n2-n3", "n2-n4", "n2-n5")], "n1 n2 | n3 n4 n5"),
        ([both("n1-n3")], "n1 | n3"),
        ([both("n1-n3", "n1-n4", "n2-n4", "n2-n5", "n3-n5")], "n1-n3 n1-n4 n2-n4 n2-n5 n3-n5"),
        ([cut("n1>n2", "n1>n3")], "n1>n2 n1>n3"),
        ([Action("loss", ("n1", "n2"), {"links": [["n1", "n2"]], "probability": 0.1})], "n1, n2"),
    ],
)
def test_whom(actions: list[Action], words: str) -> None:
    assert whom(actions) == words
