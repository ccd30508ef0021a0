from hypothesis import given
from hypothesis import strategies as st

from chaos.kernel.clock import SECOND
from clusters.simulated.clocks import NodeClock


def test_a_rate_bends_both_clocks_a_jump_only_the_time_shown() -> None:
    clock = NodeClock()
    clock.run(10 * SECOND, 2.0)
    assert (clock.monotonic(15 * SECOND), clock.shown(15 * SECOND)) == (20 * SECOND, 20 * SECOND)
    clock.jump(-3 * SECOND)
    assert (clock.monotonic(16 * SECOND), clock.shown(16 * SECOND)) == (22 * SECOND, 19 * SECOND)
    assert clock.offset(16 * SECOND) == 3 * SECOND
    clock.set_right(16 * SECOND)
    assert (clock.monotonic(17 * SECOND), clock.shown(17 * SECOND)) == (23 * SECOND, 17 * SECOND)


@given(rate=st.floats(0.1, 10), at=st.integers(0, 10**12), ahead=st.integers(0, 10**11))
def test_due_is_the_first_time_at_which_the_clock_shows_it(rate: float, at: int, ahead: int) -> None:
    clock = NodeClock()
    clock.run(at // 2, rate)
    deadline = clock.monotonic(at) + ahead
    due = clock.due(deadline)
    assert clock.monotonic(due) >= deadline
    assert due <= at or clock.monotonic(due - 1) <= deadline
