from __future__ import annotations

from itertools import islice, repeat

import pytest
from tests.unit.feeds.clocks import FakeClock, FakeTarget

from penstock.feeds import FEEDS, Record
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Burst, Disorder, DisorderInjector, Live, RecordedPace, Steady, Unpaced
from penstock.feeds.records import NOTHING


def at(*seconds: float) -> list[Record]:
    return [Record(None, b"%d" % number, moment) for number, moment in enumerate(seconds)]


def test_a_steady_pace_sends_its_rate():
    clock = FakeClock()
    target = FakeTarget(clock)

    target.open = lambda: clock.sleep(1000)
    feeding = FeedLoop([target], Steady(100), clock=clock)

    sent = feeding.run(islice(FEEDS["trades"](7), 250))

    assert sent == 250
    assert 2.4 <= feeding.seconds <= 2.5, "waiting for a reader is not counted"
    by_second = [sum(1 for second, _ in target.got if int(second - 1000) == whole) for whole in range(3)]
    assert by_second == [100, 100, 50]


def test_a_pace_below_one_a_second_waits_for_each():
    clock = FakeClock()
    target = FakeTarget(clock)

    FeedLoop([target], Steady(0.5), clock=clock).run(islice(FEEDS["trades"](7), 3))

    assert [second for second, _ in target.got] == [0, 2, 4]


def test_bursts_come_at_the_end_of_each_round():
    #  0         8  10        18  20
    #  |--10/s---|50/s|--10/s---|50/s|
    pace = Steady(10, Burst(5, for_seconds=2, every_seconds=10))

    assert [pace.due_seconds(number) for number in (0, 10, 80, 130, 180)] == [0, 1, 8, 9, 10]
    assert pace.due_seconds(180 + 130) == pytest.approx(19)


def test_a_feed_ends_when_its_time_is_up():
    clock = FakeClock()
    target = FakeTarget(clock)
    feeding = FeedLoop([target], Steady(10), for_seconds=5, clock=clock)

    sent = feeding.run(feeding.limit(FEEDS["trades"](7), None))

    assert 50 <= sent <= 51
    assert target.state == ["open", "flush", "close"]


def test_what_was_held_back_is_sent_when_the_time_is_up():
    clock = FakeClock()
    target = FakeTarget(clock)
    feeding = FeedLoop([target], Steady(10), for_seconds=5, clock=clock)
    late = DisorderInjector(Disorder(late=0.5, late_by_seconds=86_400), seed=7)

    sent = feeding.run(late.apply(feeding.limit(FEEDS["trades"](7), None)))

    assert late.damage.late > 20
    got = [record for _, record in target.got]
    assert sorted(got) == sorted(islice(FEEDS["trades"](7), sent))


def test_records_of_a_file_keep_their_own_distances():
    clock = FakeClock()
    target = FakeTarget(clock)

    FeedLoop([target], RecordedPace(10), clock=clock).run(iter(at(1000, 1000.001, 1020, 1010, 1100)))

    assert [second for second, _ in target.got] == [0, 0, 2, 2, 10]


def test_targets_are_served_while_a_live_stream_is_silent():
    clock, asked = FakeClock(), []
    target = FakeTarget(clock)
    feeding = FeedLoop([target], Live(), report=asked.append, clock=clock)

    sent = feeding.run(feeding.limit(iter([NOTHING, *at(1), NOTHING, *at(2), *at(3)]), 2))

    assert sent == 2
    assert asked == [0, 1, 1, 2, 2]


def test_each_stream_goes_to_its_target():
    clock = FakeClock()
    shown, clicked = FakeTarget(clock), FakeTarget(clock)

    sent = FeedLoop([shown, clicked], Unpaced(), clock=clock).run(islice(FEEDS["ads"](7), 500))

    assert sent == 500
    assert {record.stream for _, record in shown.got} == {0}
    assert {record.stream for _, record in clicked.got} == {1}


def test_the_position_is_saved_only_after_everything_taken_has_arrived():
    clock, order = FakeClock(), []
    target = FakeTarget(clock, cost_seconds=0.6)
    target.flush = lambda: order.append(("flush", len(target.got)))
    feeding = FeedLoop([target], Live(), clock=clock)
    feeding.on_flushed = lambda: order.append(("safe", len(target.got)))

    feeding.run(iter(at(1, 2, 3)))

    assert order == [("flush", 2), ("safe", 2), ("flush", 3), ("safe", 3)]


def test_ctrl_c_lets_what_was_taken_arrive():
    clock = FakeClock()
    target = FakeTarget(clock)

    def interrupted():
        yield from at(1, 2)
        raise KeyboardInterrupt

    sent = FeedLoop([target], Live(), clock=clock).run(interrupted())

    assert sent == 2
    assert target.state == ["open", "flush", "close"]


def test_a_target_is_closed_when_the_records_fail():
    clock = FakeClock()
    target = FakeTarget(clock)
    broken = (1 / 0 for _ in repeat(None))

    with pytest.raises(ZeroDivisionError):
        FeedLoop([target], Unpaced(), clock=clock).run(broken)

    assert target.state == ["open", "close"]
