"""Where a query on an Event Hub starts: our `start`, or the classic connector's startingPosition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from penstock.connectors.kafka import milliseconds
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_WORDS = {"start": "earliest", "end": "latest"}
_CLASSIC = ("offset", "seqNo", "enqueuedTime", "isInclusive")
_FIRST, _LAST = "-1", "@latest"


@dataclass(frozen=True)
class Start:
    """One of: earliest or latest, a time, one sequence number for all partitions, or one for each."""

    word: str = ""
    time: str = ""
    sequence: int | None = None
    partitions: Mapping[int, int] | None = None

    @property
    def position(self) -> str:
        """Where a Kafka source starts, as far as that is known without asking the hub."""
        return self.word or self.time or "earliest"

    def first(self, partition: int, low: int, high: int) -> int:
        """The offset at which a partition starts, limited to those that it has."""
        wanted = (self.partitions or {}).get(partition, low) if self.sequence is None else self.sequence
        return min(max(wanted, low), high)


def parse(value: Any) -> Start:
    """Parse `start`; ValueError lists the valid forms."""
    if isinstance(value, bool) or value is None:
        raise ValueError(_refusal(value))
    if isinstance(value, int):
        return _at(value, inclusive=True)
    if isinstance(value, str):
        return _text(value.strip())
    return _classic(value) if set(value) & {*_CLASSIC} else _by_partition(value)


def _text(text: str) -> Start:
    if text in _WORDS:
        return Start(word=_WORDS[text])
    if text.startswith("{"):
        try:
            return parse(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"'start' is not JSON ({error.msg}); {_FORMS}") from None
    try:
        milliseconds(text)
    except ValueError:
        raise ValueError(_refusal(text)) from None
    return Start(time=text)


def _classic(position: Mapping[Any, Any]) -> Start:
    """startingPosition: the first of offset, seqNo and enqueuedTime that is set; -1 and null are not."""
    for key in position:
        if key not in _CLASSIC:
            raise ValueError(
                f"the startingPosition has an unknown key {str(key)[:40]!r}; {did_you_mean(str(key), _CLASSIC)}"
            )
    inclusive = position.get("isInclusive", True)
    offset, number, moment = (position.get(key) for key in ("offset", "seqNo", "enqueuedTime"))
    if str(offset) == _LAST:
        return Start(word="latest")
    if offset is not None and str(offset) != _FIRST:
        fix = "give the sequence number as 'seqNo', or 'enqueuedTime'"
        raise ValueError(f"the offset {offset!r} counts bytes, and the Kafka endpoint counts events; {fix}")
    if number is not None and number != -1:
        return _at(number, inclusive=inclusive)
    if moment is not None:
        return _after(str(moment), inclusive=inclusive)
    return Start(word="earliest")


def _by_partition(offsets: Mapping[Any, Any]) -> Start:
    try:
        return Start(partitions={int(partition): _number(offset) for partition, offset in offsets.items()})
    except (TypeError, ValueError):
        raise ValueError(_refusal(dict(offsets))) from None


def _at(number: Any, *, inclusive: bool) -> Start:
    return Start(sequence=_number(number) + (0 if inclusive else 1))


def _after(moment: str, *, inclusive: bool) -> Start:
    exact = milliseconds(moment) + (0 if inclusive else 1)
    return Start(time=datetime.fromtimestamp(exact / 1000, timezone.utc).isoformat())


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not the number of an event; give 0 or more")
    return value


_FORMS = "write start, end, a time like '2024-05-01 12:00:00', an offset, or the classic startingPosition"


def _refusal(value: object) -> str:
    return f"{value!r} is not where a query can start; {_FORMS}"


_REST = 2**31 - 1


def to_events(records: DataFrame) -> DataFrame:
    """body, partition, offset, sequenceNumber, enqueuedTime, publisher (null), partitionKey, properties."""
    from pyspark.sql import functions as F  # noqa: N812

    return records.select(
        F.col("value").alias("body"),
        F.col("partition").cast("string").alias("partition"),
        F.col("offset").cast("string").alias("offset"),
        F.col("offset").alias("sequenceNumber"),
        F.col("timestamp").alias("enqueuedTime"),
        F.lit(None).cast("string").alias("publisher"),
        F.col("key").cast("string").alias("partitionKey"),
        _properties().alias("properties"),
    )


def _properties() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # Of several headers with one name the last counts, as in a dictionary.
    names = F.array_distinct(F.transform("headers", lambda header: header["key"]))
    last = F.transform(names, lambda name: F.element_at(F.filter("headers", lambda each: each["key"] == name), -1))
    values = F.transform(last, lambda header: _property(header["value"]))
    empty = F.create_map().cast("map<string,string>")
    return F.coalesce(F.map_from_arrays(names, values), empty)


def _property(value: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # Properties set by an AMQP client are AMQP-encoded text: A1 with one byte of length, B1 with four.
    mark = F.hex(F.substring(value, 1, 1))
    text = F.when(mark == "A1", F.substring(value, 3, _REST)).when(mark == "B1", F.substring(value, 6, _REST))
    return F.coalesce(text, value).cast("string")
