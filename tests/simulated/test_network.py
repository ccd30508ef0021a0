from collections.abc import Callable

from chaos.kernel.clock import MILLISECOND, SECOND
from chaos.kernel.streams import Streams
from chaos.kernel.virtual import VirtualLoop
from clusters.simulated.network import Connection, Datagrams, Link, Message, Network
from clusters.simulated.shaping import HEADERS, Shape

PATIENCE = 10 * SECOND


class Ends:
    """A connection from "a" to "b", and what arrives at each end: (time, end, message or reason)."""

    def __init__(self, network: Network, loop: VirtualLoop) -> None:
        self.loop = loop
        self.seen: list[tuple[int, int, object]] = []
        self.connection: Connection = network.connect("a", "b", "replication", PATIENCE, SECOND)
        for end in (0, 1):
            self.connection.receive[end] = self._receiver(end)
            self.connection.lost[end] = self._loser(end)

    def _receiver(self, end: int) -> Callable[[list[Message]], None]:
        return lambda batch: self.seen.extend((self.loop.now(), end, message[0]) for message in batch)

    def _loser(self, end: int) -> Callable[[str], None]:
        return lambda reason: self.seen.append((self.loop.now(), end, reason))

    def messages(self, end: int = 1) -> list[object]:
        return [what for _, at, what in self.seen if at == end]


def made(seed: int = 1) -> tuple[VirtualLoop, Network]:
    loop = VirtualLoop()
    return loop, Network(loop, Streams(seed), MILLISECOND, MILLISECOND)


def run(loop: VirtualLoop, until: int) -> None:
    loop.call_at(until / SECOND, loop.stop)
    loop.run_forever()


def test_a_connection_keeps_order_and_loses_and_duplicates_nothing_even_on_a_lossy_link() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "replication").lossy("fault", 0.3)
    for number in range(500):
        loop.at(number * MILLISECOND, ends.connection.send, 0, (number,))
    run(loop, 9 * SECOND)
    assert ends.messages() == list(range(500))
    assert network.link("a", "b", "replication").dropped > 50


def test_latency_is_at_least_its_base_and_varies() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    for number in range(100):
        loop.at(number * SECOND // 10, ends.connection.send, 0, (number,))
    run(loop, 20 * SECOND)
    took = [time - number * SECOND // 10 for number, (time, _, _) in enumerate(ends.seen)]
    assert min(took) >= MILLISECOND
    assert len(set(took)) > 90


def test_what_is_sent_at_one_instant_arrives_as_one_segment() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    for number in range(3):
        ends.connection.send(0, (number,))
    run(loop, SECOND)
    assert ends.messages() == [0, 1, 2]
    assert len({time for time, _, _ in ends.seen}) == 1


def test_a_cut_stalls_one_direction_until_the_retransmission_after_the_mend() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    link = network.link("a", "b", "replication")
    link.cut(loop.now())
    ends.connection.send(0, ("there",))
    ends.connection.send(1, ("back",))
    loop.at(SECOND, link.mend)
    run(loop, 5 * SECOND)
    assert [(end, what) for _, end, what in ends.seen] == [(0, "back"), (1, "there")]
    arrived = ends.seen[1][0]
    assert 1400 * MILLISECOND < arrived < 1450 * MILLISECOND  # sent again after 0.2, 0.6 and 1.4 s
    assert link.dropped == 2  # the message, and a heartbeat


def test_a_cut_of_another_service_does_no_harm() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "clients").cut(loop.now())
    ends.connection.send(0, ("there",))
    run(loop, SECOND)
    assert ends.messages() == ["there"]


def test_cuts_by_two_faults_are_mended_when_both_are() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    link = network.link("a", "b", "replication")
    link.cut(loop.now())
    link.cut(loop.now())
    ends.connection.send(0, ("there",))
    loop.at(SECOND, link.mend)
    run(loop, 4 * SECOND)
    assert ends.seen == []
    link.mend()
    run(loop, 9 * SECOND)
    assert ends.messages() == ["there"]


def test_silence_beyond_the_patience_ends_the_connection_and_the_other_side_is_told() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "replication").cut(loop.now())
    run(loop, 20 * SECOND)
    (heard, one, why), (told, other, reason) = ends.seen
    assert (one, why, other, reason) == (1, "silent for too long", 0, "closed by the other side")
    assert PATIENCE <= heard <= PATIENCE * 1.25
    assert heard < told < heard + 100 * MILLISECOND


def test_a_full_cut_is_noticed_by_each_side_for_itself() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "replication").cut(loop.now())
    network.link("b", "a", "replication").cut(loop.now())
    run(loop, 20 * SECOND)
    assert sorted((end, what) for _, end, what in ends.seen) == [(0, "silent for too long"), (1, "silent for too long")]


def test_a_paused_endpoint_is_missed_only_after_the_patience() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.stand_still("a")
    loop.at(9 * SECOND, network.move_on, "a")
    run(loop, 30 * SECOND)
    assert ends.seen == []
    network.stand_still("a")
    run(loop, 60 * SECOND)
    assert ends.messages(1) == ["silent for too long"]


def test_a_killed_process_leaves_a_kernel_that_closes_and_a_power_off_leaves_silence() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    ends.connection.send(0, ("last words",))
    network.close("a")
    run(loop, SECOND)
    assert ends.messages(1) == ["last words", "closed by the other side"]
    ends = Ends(network, loop)
    network.vanish("a")
    run(loop, 5 * SECOND)
    assert ends.messages(1) == []
    network.reappear("a")
    run(loop, 6 * SECOND)
    assert ends.messages(1) == ["connection reset"]


def test_a_handshake_needs_both_directions_and_a_failed_one_is_a_drop() -> None:
    loop, network = made()
    assert network.passable("a", "b", "replication")
    network.link("b", "a", "replication").cut(loop.now())
    assert not network.passable("a", "b", "replication")
    assert network.link("b", "a", "replication").dropped == 1


def test_one_link_does_not_reshuffle_another() -> None:
    def arrivals(other_traffic: bool) -> list[int]:
        loop, network = made()
        ends = Ends(network, loop)
        other = network.connect("a", "c", "replication", PATIENCE, SECOND)
        for number in range(20):
            if other_traffic:
                loop.at(number * MILLISECOND, other.send, 0, (number,))
            loop.at(number * MILLISECOND, ends.connection.send, 0, (number,))
        run(loop, SECOND)
        return [time for time, _, _ in ends.seen]

    assert arrivals(True) == arrivals(False)


def shaped(shape: Shape, count: int = 200, size: int = 1, every: int = MILLISECOND) -> tuple[Ends, Link, list[int]]:
    """Messages from "a" to "b" on a link of that shape; and how long each took."""
    loop, network = made()
    ends = Ends(network, loop)
    link = network.link("a", "b", "replication")
    link.shape("f", shape)
    for number in range(count):
        loop.at(number * every, ends.connection.send, 0, (number, b"." * size))
    run(loop, 100 * SECOND)
    assert ends.messages() == list(range(count)), "TCP keeps the order, and loses and doubles nothing"
    return ends, link, [time - number * every for number, (time, _, _) in enumerate(ends.seen)]


def test_a_delay_give_or_take_is_met_by_each_segment_and_those_behind_wait() -> None:
    _, link, took = shaped(Shape(delay=100 * MILLISECOND, jitter=20 * MILLISECOND))
    assert min(took) > 80 * MILLISECOND
    assert max(took) < 140 * MILLISECOND
    assert link.shaping is not None
    assert link.shaping.delayed == 200


def test_packets_ahead_and_twice_are_hidden_by_tcp() -> None:
    _, link, took = shaped(Shape(delay=50 * MILLISECOND, reorder=0.25, duplicate=0.25))
    assert link.shaping is not None
    assert 30 < link.shaping.early < 70
    assert 30 < link.shaping.doubled < 70
    assert link.shaping.delayed == 200 - link.shaping.early
    assert sum(time > 40 * MILLISECOND for time in took) > 190, "who is ahead waits for those before it"


def test_a_rate_lets_so_many_bytes_through_and_the_rest_waits() -> None:
    _, link, took = shaped(Shape(rate=100_000), count=20, size=1000 - HEADERS - 8)
    for number, time in enumerate(took):  # 10 ms each
        assert (number + 1) * 10 * MILLISECOND <= time + number * MILLISECOND < (number + 2) * 10 * MILLISECOND
    assert link.shaping is not None
    assert link.shaping.held == 19


def test_what_waited_goes_at_once_when_the_fault_is_over() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    link = network.link("a", "b", "replication")
    shaping = link.shape("f", Shape(rate=1000))
    for number in range(50):
        loop.at(number, ends.connection.send, 0, (number, b"." * 1000))
    loop.at(3 * SECOND, link.shape, "f", None)
    loop.at(3 * SECOND + MILLISECOND, ends.connection.send, 0, (50, b""))
    run(loop, 3 * SECOND - 1)
    assert ends.messages() == [0, 1]
    run(loop, 20 * SECOND)
    assert ends.messages() == list(range(51))
    assert ends.seen[-1][0] < 4.2 * SECOND
    assert shaping.over


def test_several_shapes_add_up_and_are_taken_away_one_by_one() -> None:
    _, network = made()
    link = network.link("a", "b", "replication")
    first, second = (
        Shape(delay=5, jitter=1, duplicate=0.5, rate=70),
        Shape(delay=7, reorder=0.5, duplicate=0.5, rate=50),
    )
    link.shape("f", first)
    shaping = link.shape("g", second)
    assert shaping.shape == Shape(12, 1, 0.75, 0.5, 50)
    link.shape("f", None)
    assert shaping.shape == second
    link.shape("g", None)
    assert link.shaping is None


def test_a_delay_beyond_the_patience_is_silence() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "replication").shape("f", Shape(delay=2 * PATIENCE))
    ends.connection.send(0, (1,))
    run(loop, 60 * SECOND)
    assert (ends.seen[0][0], ends.messages()) == (PATIENCE, ["silent for too long"])


def test_what_waits_on_a_machine_that_vanishes_is_gone() -> None:
    loop, network = made()
    ends = Ends(network, loop)
    network.link("a", "b", "replication").shape("f", Shape(rate=1000))
    for number in range(3):
        loop.at(number, ends.connection.send, 0, (number, b"." * 1000))
    loop.at(1500 * MILLISECOND, network.vanish, "a")
    run(loop, 9 * SECOND)
    assert ends.messages() == [0]


def test_datagrams_are_lost_duplicated_and_reordered() -> None:
    loop, network = made()
    link = network.link("a", "b", "gossip")
    link.lossy("fault", 0.2)
    got: list[int] = []
    datagrams = Datagrams(loop, link, lambda message: got.append(message[0]), duplicates=0.2)
    for number in range(200):
        loop.at(number * MILLISECOND // 2, datagrams.send, (number,))
    run(loop, SECOND)
    assert 130 < len(set(got)) < 190
    assert len(got) > len(set(got))
    assert got != sorted(got)
    assert link.dropped == 200 - len(set(got))
