from __future__ import annotations

import json
from collections import Counter
from itertools import islice

from penstock.feeds import FEEDS, Record
from penstock.feeds.pace import Disorder, DisorderInjector


def disorder(count: int = 2000, **how: float) -> tuple[list[Record], list[Record], DisorderInjector]:
    made = list(islice(FEEDS["trades"](7), count))
    injector = DisorderInjector(Disorder(**how), seed=7)
    return made, list(injector.apply(iter(made))), injector


def test_without_disorder_records_stay_as_they_are():
    made, sent, injector = disorder()

    assert sent == made
    assert str(injector.damage) == ""


def test_late_records_come_after_younger_ones_by_at_most_what_was_said():
    made, sent, injector = disorder(late=0.05, late_by_seconds=600)

    assert sorted(sent) == sorted(made)
    newest, behind = 0.0, []
    for record in sent:
        newest = max(newest, record.time)
        behind.append(newest - record.time)
    late = [seconds for seconds in behind if seconds > 0]
    assert 50 < len(late) <= injector.damage.late < 150
    # Held until the first record past its hour is there, so by one step more at most.
    assert 300 < max(late) <= 612


def test_shuffled_records_are_at_most_so_many_places_away():
    made, sent, _ = disorder(shuffle=10)

    places = {record: at for at, record in enumerate(made)}
    moved = [abs(places[record] - at) for at, record in enumerate(sent)]
    assert sorted(sent) == sorted(made)
    assert 0 < max(moved) < 10


def test_duplicates_are_extra_and_counted():
    made, sent, injector = disorder(duplicate=0.02)

    again = Counter(sent) - Counter(made)
    assert sum(again.values()) == injector.damage.duplicate == len(sent) - len(made)
    assert 15 < injector.damage.duplicate < 80
    assert set(again.values()) == {1}


def test_corrupt_records_are_not_json_and_are_counted():
    made, sent, injector = disorder(corrupt=0.05)

    broken = [record for before, record in zip(made, sent, strict=True) if before != record]
    assert len(broken) == injector.damage.corrupt
    assert 50 < len(broken) < 150
    assert [record.value for record in broken if is_json(record.value)] == []
    assert any(record.value.startswith(b'{"') for record in broken)
    assert any(record.value.startswith(b"<noise") for record in broken)


def test_the_same_seed_makes_the_same_disorder_and_one_kind_does_not_change_another():
    everything = {"late": 0.05, "shuffle": 10, "duplicate": 0.02, "corrupt": 0.05}

    assert disorder(**everything)[1] == disorder(**everything)[1]
    alone, both = disorder(duplicate=0.02)[2], disorder(duplicate=0.02, corrupt=0.05)[2]
    assert alone.damage.duplicate == both.damage.duplicate


def is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
