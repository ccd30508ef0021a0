"""The files that a node keeps."""

from clusters.simulated.lavinmq.store import ADD, DEFINITIONS, DELETE, Other, Store


def store(*changes: tuple[object, ...], segment: int = 3) -> Store:
    made = Store(segment)
    for change in changes:
        made.apply(change)
    return made


def test_a_queue_is_what_its_segments_have_less_what_is_acknowledged() -> None:
    names = Store(3)
    changes = [(ADD, names.messages_file("q", number), (number, f"m{number}")) for number in range(1, 6)]
    acks = [(ADD, names.acks_file("q", number), number) for number in (2, 5)]
    made = store((ADD, DEFINITIONS, "q"), *changes, *acks)
    assert made.queues() == ("q",)
    assert made.load("q") == ([(1, "m1"), (3, "m3"), (4, "m4")], {0: 2, 1: 1}, 6)
    assert made.load("other") == ([], {}, 1)


def test_a_queue_whose_name_is_the_beginning_of_another_is_itself() -> None:
    made = store((ADD, "q/msgs.0", (1, "a")), (ADD, "q/r/msgs.0", (1, "b")))
    assert made.load("q")[0] == [(1, "a")]
    assert made.load("q/r")[0] == [(1, "b")]


def test_what_differs_by_one_record_differs_by_its_checksum() -> None:
    one = store((ADD, "f", 1), (ADD, "f", 2), (ADD, "g", 1), (ADD, "h", 1))
    other = store((ADD, "f", 1), (ADD, "f", 3), (ADD, "g", 1), (ADD, "extra", 1))
    assert other.differing(one.files()) == ("f", "h")
    assert other.beyond(one.files()) == ("extra",)
    assert one.differing(one.files()) == one.beyond(one.files()) == ()


def test_a_checksum_that_grew_with_its_file_is_that_of_the_whole() -> None:
    grown = store((ADD, "f", 1))
    grown.files()
    grown.apply((ADD, "f", 2))
    assert grown.files() == store((ADD, "f", 1), (ADD, "f", 2)).files()


def test_a_file_that_is_deleted_and_made_again_is_new() -> None:
    made = store((ADD, "f", 1), (DELETE, "f"), (DELETE, "f"), (ADD, "f", 2))
    assert list(made.records("f")) == [2]
    assert made.files() == store((ADD, "f", 2)).files()


def test_a_journal_forgets_the_files_that_are_deleted() -> None:
    keep = Other(("f", "g"))
    assert [record for record in ((ADD, "f", 1), (ADD, "h", 2), (ADD, "g", 3)) if keep(record)] == [(ADD, "h", 2)]


def test_what_is_restored_is_what_was_snapshot() -> None:
    made = store((ADD, "f", 1), (ADD, "g", 2))
    other = store((ADD, "x", 9))
    other.restore(made.snapshot())
    assert other.files() == made.files()
