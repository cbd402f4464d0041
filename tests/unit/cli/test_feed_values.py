from __future__ import annotations

import pytest

from penstock.cli import _feeds as values
from penstock.feeds.pace import Burst


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("5m", 300), ("1h 30m", 5400), ("10 minutes", 600), ("500ms", 0.5), ("1.5 hours", 5400)],
)
def test_durations_are_read(text, seconds):
    assert values.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5q", "s", "5s and more", "-5s", "0s"])
def test_an_invalid_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write 30s"):
        values.parse_duration(text)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1), ("0", 0)])
def test_shares_are_read(text, share):
    assert values.parse_share(text) == share


@pytest.mark.parametrize("text", ["5", "101%", "-1%", "some", "nan"])
def test_an_invalid_share_is_refused(text):
    with pytest.raises(ValueError, match="write a percentage, like 5%"):
        values.parse_share(text)


def test_speeds_rates_and_bursts_are_read():
    assert [values.parse_speed_factor(text) for text in ("1x", "10X", "0.5x", "max")] == [1, 10, 0.5, None]
    assert [values.parse_rate(text) for text in ("1000", "0.5", "20/s")] == [1000, 0.5, 20]
    assert values.parse_burst("10x") == Burst(10, 1, 10)
    assert values.parse_burst("3x for 2s every 1 minute") == Burst(3, 2, 60)


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (values.parse_speed_factor, "fast", "write 1x, 10x, 0.5x or max"),
        (values.parse_speed_factor, "0x", "is not a speed"),
        (values.parse_rate, "0", "write records a second, like 1000"),
        (values.parse_rate, "inf", "is not a rate"),
        (values.parse_burst, "lots", "write '10x', or '10x for 2s every 30s'"),
        (values.parse_burst, "2x for 30s every 10s", "without a pause"),
    ],
)
def test_invalid_values_are_refused_with_an_example(read, text, says):
    with pytest.raises(ValueError, match=says):
        read(text)
