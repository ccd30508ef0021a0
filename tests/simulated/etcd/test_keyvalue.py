"""The store of etcd, command by command."""

from typing import Any

from clusters.simulated.etcd.keyvalue import DELETE, GRANT, PUT, RANGE, REFUSED, RENEW, REVOKE, TXN, Item, KeyValue


def answers(*commands: tuple[int, Any, Any]) -> tuple[list[Any], KeyValue]:
    store = KeyValue()
    for index, (kind, a, b) in enumerate(commands, start=1):
        store.apply(index, (kind, None, 0, a, b))
    return [answer for _, answer, _ in store.outbox], store


def test_each_change_is_a_revision_and_a_key_remembers_which_created_it() -> None:
    said, store = answers((PUT, "a", ("1", 0)), (PUT, "b", ("1", 0)), (PUT, "a", ("2", 0)), (RANGE, "", None))
    assert said == [2, 3, 4, {"a": Item("2", 2, 4, 0), "b": Item("1", 3, 3, 0)}]
    assert store.revision == 4


def test_a_key_that_is_made_again_has_a_new_create_revision() -> None:
    said, store = answers((PUT, "a", ("1", 0)), (DELETE, "a", None), (DELETE, "a", None), (PUT, "a", ("2", 0)))
    assert said == [2, True, False, 4]
    assert store.keys == {"a": Item("2", 4, 4, 0)}


def test_a_transaction_puts_only_where_the_create_revision_is_as_expected() -> None:
    said, store = answers(
        (TXN, ("leader", 0), ("leader", "n1", 0)),
        (TXN, ("leader", 0), ("leader", "n2", 0)),
        (TXN, ("leader", 2), ("isr", "n1", 0)),
        (DELETE, "leader", None),
        (TXN, ("leader", 2), ("isr", "n2", 0)),
    )
    assert said == [2, None, 3, True, None]
    assert store.keys == {"isr": Item("n1", 3, 3, 0)}


def test_a_lease_takes_its_keys_with_it() -> None:
    said, store = answers(
        (GRANT, 10, None), (GRANT, 20, None), (PUT, "a", ("1", 1)), (PUT, "b", ("1", 2)), (RENEW, 1, None),
        (REVOKE, 1, None), (REVOKE, 1, None), (RENEW, 1, None), (PUT, "c", ("1", 1)), (RANGE, "", None),
    )  # fmt: skip
    assert said == [1, 2, 2, 3, 10, True, False, 0, REFUSED, {"b": Item("1", 3, 3, 2)}]
    assert store.outbox[5][2] == [(4, "a", None)]


def test_what_is_restored_is_what_was_snapshot() -> None:
    _, store = answers((GRANT, 10, None), (PUT, "a", ("1", 1)), (PUT, "b", ("1", 0)))
    other = KeyValue()
    other.apply(1, (PUT, None, 0, "x", ("y", 0)))
    other.restore(store.snapshot())
    keys = (("a", Item("1", 2, 2, 1)), ("b", Item("1", 3, 3, 0)))
    assert other.snapshot() == store.snapshot() == (3, keys, ((1, 10),))
    assert other.outbox == []
