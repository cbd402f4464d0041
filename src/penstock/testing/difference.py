"""Spark's rows as plain Python values, and their comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Row = Mapping[str, Any]

_CLOSE = 1e-9


class Map(dict[str, Any]):
    """A value of Spark's map type: unlike those of a struct, all keys are compared."""


def collect_rows(rows: DataFrame) -> tuple[Row, ...]:
    """The rows as dicts, with timestamps in the session's time zone."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(rows.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC")
    kind = rows.schema
    return tuple(_plain(row, kind, zone) for row in rows.collect())


def same(wanted: Any, found: Any) -> bool:
    """Whether a found value equals the expected one; fields that an expected struct omits are not compared."""
    if wanted is None or found is None:
        return wanted is found
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(found, int | float | Decimal):
        return _same_number(wanted, found)
    if isinstance(found, date):
        return _moment(wanted, found) == found
    if isinstance(found, bytes | bytearray):
        return bool((wanted.encode() if isinstance(wanted, str) else wanted) == bytes(found))
    if isinstance(found, Mapping):
        return _same_fields(wanted, found)
    if isinstance(found, list):
        return _same_items(wanted, found)
    return bool(wanted == found or wanted == str(found))


def format_value(value: Any) -> str:
    """A value as YAML shows it."""
    import json

    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bytes | bytearray):
        return format_value(bytes(value).decode(errors="backslashreplace"))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {format_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_value(each) for each in value) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def _plain(value: Any, kind: Any, zone: tzinfo) -> Any:
    from pyspark.sql import types as T  # noqa: N812

    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return {field.name: _plain(each, field.dataType, zone) for field, each in zip(kind, value, strict=True)}
    if isinstance(kind, T.ArrayType):
        return [_plain(each, kind.elementType, zone) for each in value]
    if isinstance(kind, T.MapType):
        return Map({format_value(key): _plain(each, kind.valueType, zone) for key, each in value.items()})
    if isinstance(kind, T.TimestampType):
        # PySpark returns local time with `fold` set, so the instant is unambiguous.
        return value.astimezone(timezone.utc).astimezone(zone)
    if isinstance(kind, T.FloatType):
        return float(f"{value:.7g}")
    return value


def _same_number(wanted: Any, found: int | float | Decimal) -> bool:
    if isinstance(wanted, str) and isinstance(found, Decimal):
        try:
            return Decimal(wanted) == found
        except InvalidOperation:
            return False
    if not isinstance(wanted, int | float | Decimal):
        return False
    if isinstance(found, float):
        both_nan = math.isnan(wanted) and math.isnan(found)
        return both_nan or math.isclose(float(wanted), found, rel_tol=_CLOSE)
    exact = Decimal(repr(wanted)) if isinstance(wanted, float) else wanted
    return bool(exact == found)


def _moment(wanted: Any, found: date) -> date | None:
    if isinstance(wanted, str):
        try:
            wanted = datetime.fromisoformat(wanted.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
        if not isinstance(found, datetime):
            return wanted.date() if wanted.time() == datetime.min.time() else None
    if not isinstance(found, datetime) or not isinstance(wanted, datetime):
        return wanted if type(wanted) is date and not isinstance(found, datetime) else None
    if wanted.tzinfo is None:
        return wanted.replace(tzinfo=found.tzinfo)
    return wanted if found.tzinfo is not None else None


def _same_fields(wanted: Any, found: Mapping[str, Any]) -> bool:
    if not isinstance(wanted, Mapping):
        return False
    if isinstance(found, Map) and {str(key) for key in wanted} != set(found):
        return False
    return all(str(key) in found and same(value, found[str(key)]) for key, value in wanted.items())


def _same_items(wanted: Any, found: Sequence[Any]) -> bool:
    if not isinstance(wanted, list | tuple) or len(wanted) != len(found):
        return False
    return all(same(each, other) for each, other in zip(wanted, found, strict=True))


Mark = Literal["missing", "unexpected", "different", "order", "says"]

_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Line:
    """One line of a failure; the mark is its kind, and sets its colour."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        return self.text if self.mark == "says" else f"{self.mark:<11}{self.text}"


@dataclass(frozen=True)
class Difference:
    """Rows that are missing, unexpected, or have different cells."""

    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    different: tuple[tuple[Row, Row], ...] = ()
    order: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different or self.order)

    @property
    def lines(self) -> Iterator[Line]:
        """The difference as lines."""
        yield from (Line("different", _cells(expected, found)) for expected, found in self.different)
        yield from (Line("missing", format_row(row)) for row in self.missing)
        yield from (Line("unexpected", format_row(row)) for row in self.unexpected)
        yield from (Line("order", f"found as row {at}: {format_row(row)}") for at, row in enumerate(self.order))


def compare(expected: Sequence[Row], found: Sequence[Row], *, ordered: bool = False) -> Difference:
    """The difference between expected and found rows; falsy if they are equal."""
    if len(expected) == len(found) and all(map(same, expected, found)):
        return Difference()
    partner = _match(expected, found)
    taken = set(partner.values())
    missing = [row for at, row in enumerate(expected) if at not in partner]
    unexpected = [row for at, row in enumerate(found) if at not in taken]
    if not missing and not unexpected:
        return Difference(order=tuple(found)) if ordered else Difference()
    pairs = _closest(missing, unexpected)
    return Difference(
        missing=tuple(row for at, row in enumerate(missing) if at not in {left for left, _ in pairs}),
        unexpected=tuple(row for at, row in enumerate(unexpected) if at not in {right for _, right in pairs}),
        different=tuple((missing[left], unexpected[right]) for left, right in pairs),
    )


def format_row(row: Row) -> str:
    """A row in one line."""
    return "{" + ", ".join(f"{name}: {_cut(format_value(value))}" for name, value in row.items()) + "}"


def _match(expected: Sequence[Row], found: Sequence[Row]) -> dict[int, int]:
    """The found row of each expected row: a maximum matching, because a row with few columns can match several."""
    fits = [[at for at, row in enumerate(found) if same(each, row)] for each in expected]
    owner: dict[int, int] = {}

    def assign(left: int, tried: set[int]) -> bool:
        for right in fits[left]:
            if right not in tried:
                tried.add(right)
                if right not in owner or assign(owner[right], tried):
                    owner[right] = left
                    return True
        return False

    # Rows with the fewest matches first, to avoid reassignments.
    for left in sorted(range(len(expected)), key=lambda at: len(fits[at])):
        assign(left, set())
    return {left: right for right, left in owner.items()}


def _closest(missing: Sequence[Row], unexpected: Sequence[Row]) -> list[tuple[int, int]]:
    """Pairs of rows with the most cells in common, at least one."""
    scores = [
        (_in_common(expected, found), left, right)
        for left, expected in enumerate(missing)
        for right, found in enumerate(unexpected)
    ]
    pairs: list[tuple[int, int]] = []
    for score, left, right in sorted(scores, key=lambda each: (-each[0], each[1], each[2])):
        if score and all(left != other and right != another for other, another in pairs):
            pairs.append((left, right))
    return sorted(pairs)


def _in_common(expected: Row, found: Row) -> int:
    return sum(name in found and same(value, found[name]) for name, value in expected.items())


def _cells(expected: Row, found: Row) -> str:
    return "{" + ", ".join(_cell(name, value, found) for name, value in expected.items()) + "}"


def _cell(name: str, value: object, found: Row) -> str:
    if name in found and same(value, found[name]):
        return f"{name}: {_cut(format_value(found[name]))}"
    return f"{name}: expected {_cut(_quote(value, found.get(name)))}, found {_cut(_quote(found.get(name), value))}"


def _quote(value: object, other: object) -> str:
    # Tells the text '5' from the number 5.
    alike = format_value(value) == format_value(other) and isinstance(value, str)
    return repr(value) if alike else format_value(value)


def _cut(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "..."
