"""Readings of sensors in a factory hall."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

SENSORS = 10


def sensors(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Readings without end: each sensor wanders slowly around a temperature of its own; keys are sensors."""
    chance, stamp = Chance(seed, "sensors"), stamper()
    random, count = chance.random, shape.keys or SENSORS
    names = [f"S{number + 1}" for number in range(count)]
    keys, sensor = [name.encode() for name in names], chooser(chance, count, shape.skew)
    usual = [15 + 20 * random() for _ in names]
    readings = list(usual)
    for moment in moments(chance, "2019-02-05 10:00:00", 5, shape):
        at = sensor()
        readings[at] += 0.1 * (usual[at] - readings[at]) + random() - 0.5
        text = f'{{"CreatedTime": "{stamp(moment)}", "SensorID": "{names[at]}", "Reading": {readings[at]:.2f}}}'
        yield Record(keys[at], text.encode(), moment)
