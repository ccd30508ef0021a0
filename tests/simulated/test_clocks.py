from hypothesis import given
from hypothesis import strategies as st

from chaos.kernel.clock import SECOND
from clusters.simulated.clocks import NodeClock


def test_rate_jump_and_setting_right() -> None:
    clock = NodeClock()
    clock.run(10 * SECOND, 2.0)
    assert clock.local(15 * SECOND) == 20 * SECOND
    clock.jump(15 * SECOND, -3 * SECOND)
    assert clock.local(16 * SECOND) == 19 * SECOND
    assert clock.offset(16 * SECOND) == 3 * SECOND
    clock.set_right(16 * SECOND)
    assert clock.local(17 * SECOND) == 17 * SECOND


@given(
    rate=st.floats(0.1, 10),
    jump=st.integers(-(10**10), 10**10),
    at=st.integers(0, 10**12),
    ahead=st.integers(0, 10**11),
)
def test_true_is_the_first_time_at_which_the_clock_shows_it(rate: float, jump: int, at: int, ahead: int) -> None:
    clock = NodeClock()
    clock.run(at // 2, rate)
    clock.jump(at, jump)
    deadline = clock.local(at) + ahead
    due = clock.true(deadline)
    assert clock.local(due) >= deadline
    assert due <= at or clock.local(due - 1) <= deadline
