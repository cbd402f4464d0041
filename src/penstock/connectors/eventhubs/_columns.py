"""Kafka records with the columns of the Event Hubs connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
