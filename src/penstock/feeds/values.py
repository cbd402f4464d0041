"""Parses the options of a feed: rates, durations, shares, speeds and bursts; a ValueError says how to write them."""

from __future__ import annotations

import math
import re

from penstock.feeds.pace import Burst

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_BURST = re.compile(r"(?P<times>[\d.]+)x(\s+for\s+(?P<long>.+?))?(\s+every\s+(?P<every>.+))?")


def parse_duration(text: str) -> float:
    """The seconds in '60s', '5m', '1h 30m' or '10 minutes'."""
    found = _DURATION.findall(text.lower())
    if not found or _DURATION.sub("", text.lower()).strip() or any(unit not in _UNITS for _, unit in found):
        raise ValueError(f"{text!r} is not a duration; write 30s, 5m, 1h 30m or '10 minutes'")
    total = sum(float(count) * _UNITS[unit] for count, unit in found)
    if total <= 0:
        raise ValueError(f"{text!r} is zero; write 30s, 5m or 1h")
    return total


def parse_rate(text: str) -> float:
    """Records per second."""
    return _positive(text.lower().removesuffix("/s"), f"{text!r} is not a rate; write records a second, like 1000")


def parse_share(text: str) -> float:
    """A share between 0 and 1, from '5%' or '0.05'."""
    number = text.strip()
    try:
        found = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise ValueError(f"{text!r} is not a share; write a percentage, like 5%")
    return found


def parse_speed_factor(text: str) -> float | None:
    """The factor in '1x' or '10x'; None for 'max'."""
    if text.strip().lower() == "max":
        return None
    return _positive(text.lower().removesuffix("x"), f"{text!r} is not a speed; write 1x, 10x, 0.5x or max")


def parse_burst(text: str) -> Burst:
    """A burst, from '10x' or '10x for 2s every 30s'."""
    says = f"{text!r} is not a burst; write '10x', or '10x for 2s every 30s'"
    found = _BURST.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(says)
    usual = Burst(_positive(found["times"], says))
    parsed = Burst(
        usual.times,
        parse_duration(found["long"]) if found["long"] else usual.for_seconds,
        parse_duration(found["every"]) if found["every"] else usual.every_seconds,
    )
    if parsed.for_seconds >= parsed.every_seconds:
        raise ValueError(f"{text!r} is a burst without a pause; make 'for' shorter than 'every'")
    return parsed


def _positive(text: str, says: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not (0 < found < math.inf):
        raise ValueError(says)
    return found
