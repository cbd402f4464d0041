"""Offsets of a checkpoint compared with the broker's: still there, expired, or of a topic that was recreated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from typing import Any, Literal

from penstock.connector import Gap
from penstock.connectors.kafka._common import QUIET
from penstock.errors import PenstockError, UnreachableError

Positions = Mapping[str, Mapping[str, int]]
Client = Mapping[str, Any]
"""Settings of a Python client: brokers and security."""
Policy = Literal["fail", "skip", "earliest"]
_SECONDS = 30
_QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}


class DataLossError(PenstockError):
    """Records that the checkpoint expects are gone."""


@dataclass(frozen=True)
class Ends:
    """The first offset of a partition, and the offset of its next record."""

    low: int
    high: int


def fetch_topic_ids(client: Client, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic that exists; a recreated topic has a new id."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**client, **_QUIET})
    found = {}
    for topic, future in admin.describe_topics(TopicCollection(list(topics)), request_timeout=_SECONDS).items():
        try:
            found[topic] = str(future.result(timeout=_SECONDS).topic_id)
        except LateError as error:
            raise UnreachableError(f"Kafka at {_servers(client)} does not describe topic {topic!r} in time") from error
        except KafkaException as error:
            if error.args[0].retriable():
                says = f"Kafka at {_servers(client)} does not describe topic {topic!r}: {error}"
                raise UnreachableError(says) from error
    return found


def list_ends(client: Client, positions: Positions) -> dict[tuple[str, int], Ends]:
    """The first and next offset of each partition."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._listoffsets import OffsetSpec

    admin = AdminClient({**client, **_QUIET})
    partitions = [TopicPartition(topic, int(each)) for topic, parts in positions.items() for each in parts]

    def list_offsets(spec: Any) -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=_SECONDS)
        return {(each.topic, each.partition): future.result(_SECONDS).offset for each, future in answers.items()}

    try:
        low, high = list_offsets(OffsetSpec.earliest()), list_offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except (KafkaException, LateError) as error:
        raise UnreachableError(f"Kafka at {_servers(client)} does not list its offsets: {error}") from error
    return {each: Ends(low[each], high[each]) for each in low}


def resume(
    client: Client, positions: Positions, known: Mapping[str, str], policy: Policy
) -> tuple[dict[str, dict[str, int]], list[Gap]]:
    """Where to continue from a checkpoint's positions, and what is skipped; DataLossError if the policy is to fail."""
    now = fetch_topic_ids(client, positions)
    recreated = {topic for topic, known_id in known.items() if topic in now and now[topic] != known_id}
    there = {topic: parts for topic, parts in positions.items() if topic in now}
    found = list_ends(client, there)
    moved: dict[str, dict[str, int]] = {topic: dict(parts) for topic, parts in positions.items()}
    gaps = []
    for topic, parts in there.items():
        for partition, at in parts.items():
            gap, position = _resume_partition(
                topic, int(partition), at, found[topic, int(partition)], topic in recreated, policy
            )
            moved[topic][partition] = position
            if gap is not None:
                gaps.append(gap)
    gaps += [Gap(topic, int(each), at, at, "the topic was deleted") for topic in positions if topic not in now
             for each, at in positions[topic].items()]  # fmt: skip
    if gaps and policy == "fail":
        raise DataLossError(_describe_loss(client, gaps))
    return moved, gaps


def _resume_partition(
    topic: str, partition: int, at: int, has: Ends, recreated: bool, policy: Policy
) -> tuple[Gap | None, int]:
    if recreated and policy == "skip":
        return Gap(
            topic, partition, has.low, has.high, "the topic was recreated and its records were skipped"
        ), has.high
    if recreated:
        return Gap(topic, partition, at, at, "the topic was recreated"), has.low
    if at < has.low:
        return Gap(topic, partition, at, has.low, "they were deleted or have expired"), has.low
    if at > has.high:
        why = f"the topic ends at {has.high}"
        return Gap(topic, partition, at, at, why), has.high if policy == "skip" else has.low
    return None, at


def find_missing(client: Client, start: Positions, end: Positions, rows: int) -> list[Gap]:
    """The records of a batch's range that the broker no longer has."""
    wanted = sum(end[topic][each] - at for topic, parts in start.items() for each, at in parts.items())
    if rows >= wanted:
        return []
    # Fewer rows are no proof: compacted topics and transactions leave holes too.
    found = list_ends(client, start)
    gaps = []
    for (topic, partition), has in found.items():
        first, last = start[topic][str(partition)], end[topic][str(partition)]
        if first < has.low and first < last:
            why = "they were deleted or have expired before they were read"
            gaps.append(Gap(topic, partition, first, min(has.low, last), why))
    return gaps


def _describe_loss(client: Client, gaps: list[Gap]) -> str:
    lost = ", ".join(_describe_gap(gap) for gap in gaps[:5]) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")
    fix = (
        "'on_data_loss: skip' continues without them, 'earliest' at the first offset there is; both record the gap. "
        "Another 'storage' or pipeline name starts from the beginning"
    )
    return f"Kafka at {_servers(client)} no longer has records that the checkpoint expects: {lost}; {fix}"


def _servers(client: Client) -> str:
    return str(client["bootstrap.servers"])


def _describe_gap(gap: Gap) -> str:
    what = f"{gap.count:,} records of {gap.topic} partition {gap.partition}, offsets {gap.start} to {gap.end}"
    where = f"those after offset {gap.start} of {gap.topic} partition {gap.partition}"
    return f"{what if gap.count else where} ({gap.why})"


_ANSWER_SECONDS = 10.0


def open_committer(settings: Mapping[str, Any], group: str) -> Callable[[Any], None]:
    """A function that commits the end offsets of a batch, as Spark reports them; it raises UnreachableError.

    The group has no members, because nothing subscribes: it never rebalances.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"group.id": group, "enable.auto.commit": False, "socket.timeout.ms": int(_ANSWER_SECONDS * 1000)}
    consumer = Consumer({**settings, **QUIET, **own})

    def commit(end: Any) -> None:
        offsets = json.loads(end) if isinstance(end, str) else end
        partitions = [
            TopicPartition(topic, int(partition), offset)
            for topic, parts in (offsets or {}).items()
            for partition, offset in parts.items()
        ]
        if not partitions:
            return
        try:
            done = consumer.commit(offsets=partitions, asynchronous=False)
        except KafkaException as error:
            says = f"offsets cannot be committed to the consumer group {group!r}: {error.args[0].str()}"
            raise UnreachableError(f"{says}; the next batch commits them") from error
        refused = [each.error.str() for each in done or () if each.error]
        if refused:
            says = f"offsets cannot be committed to the consumer group {group!r}: {refused[0]}"
            raise UnreachableError(f"{says}; the next batch commits them")

    return commit
