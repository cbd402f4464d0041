"""Spark's rows as plain Python values, and their comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

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
