"""What a message carries, and that no damage passes for a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.payload import Corrupt, Foreign, Payload, decode, encode

payloads = st.builds(
    Payload,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.text(max_size=20),
)


@given(payloads, st.integers(0, 300))
def test_round_trip(payload: Payload, size: int) -> None:
    body = encode(payload, size)
    assert decode(body) == payload
    assert len(body) == max(size, 30 + len(payload.queue.encode()))


@given(payloads, st.integers(0, 100), st.data())
def test_any_damage_is_seen(payload: Payload, size: int, data: st.DataObject) -> None:
    body = bytearray(encode(payload, size))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises((Foreign, Corrupt)):
        decode(bytes(body))


@given(payloads, st.data())
def test_any_truncation_is_seen(payload: Payload, data: st.DataObject) -> None:
    body = encode(payload, 80)
    with pytest.raises((Foreign, Corrupt)):
        decode(body[: data.draw(st.integers(0, len(body) - 1))])
