"""Where a checkpoint's offsets are in the broker's eyes: still there, expired, or of a topic that was made anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from typing import Any, Literal

from penstock.connector import Gap
from penstock.connectors.kafka.topics import QUIET
from penstock.errors import PenstockError, UnreachableError

Positions = Mapping[str, Mapping[str, int]]
Client = Mapping[str, Any]
"""Settings of a Python client: where the brokers are, and who we are."""
Policy = Literal["fail", "skip", "earliest"]
_SECONDS = 30
_QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}


class DataLossError(PenstockError):
    """Records that the checkpoint expects are gone."""


@dataclass(frozen=True)
class Ends:
    """The first offset that a partition has, and the one that its next record gets."""

    low: int
    high: int


def topic_ids(client: Client, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic that exists; one that is deleted and made again has another id."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**client, **_QUIET})
    found = {}
    for topic, asked in admin.describe_topics(TopicCollection(list(topics)), request_timeout=_SECONDS).items():
        try:
            found[topic] = str(asked.result(timeout=_SECONDS).topic_id)
        except LateError as error:
            raise UnreachableError(f"Kafka at {_servers(client)} does not describe topic {topic!r} in time") from error
        except KafkaException as error:
            if error.args[0].retriable():
                says = f"Kafka at {_servers(client)} does not describe topic {topic!r}: {error}"
                raise UnreachableError(says) from error
    return found


def ends(client: Client, positions: Positions) -> dict[tuple[str, int], Ends]:
    """What the broker has of each partition."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._listoffsets import OffsetSpec

    admin = AdminClient({**client, **_QUIET})
    partitions = [TopicPartition(topic, int(each)) for topic, parts in positions.items() for each in parts]

    def asked(spec: Any) -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=_SECONDS)
        return {(each.topic, each.partition): future.result(_SECONDS).offset for each, future in answers.items()}

    try:
        low, high = asked(OffsetSpec.earliest()), asked(OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except (KafkaException, LateError) as error:
        raise UnreachableError(f"Kafka at {_servers(client)} does not say which offsets it has: {error}") from error
    return {each: Ends(low[each], high[each]) for each in low}


def resumed(
    client: Client, positions: Positions, known: Mapping[str, str], policy: Policy
) -> tuple[dict[str, dict[str, int]], list[Gap]]:
    """Where to go on from a checkpoint's positions, and what is left out; a DataLossError if the policy is to fail."""
    now = topic_ids(client, positions)
    made_anew = {topic for topic, known_id in known.items() if topic in now and now[topic] != known_id}
    there = {topic: parts for topic, parts in positions.items() if topic in now}
    found = ends(client, there)
    moved: dict[str, dict[str, int]] = {topic: dict(parts) for topic, parts in positions.items()}
    gaps = []
    for topic, parts in there.items():
        for partition, at in parts.items():
            gap, position = _one(topic, int(partition), at, found[topic, int(partition)], topic in made_anew, policy)
            moved[topic][partition] = position
            if gap is not None:
                gaps.append(gap)
    gaps += [Gap(topic, int(each), at, at, "the topic was deleted") for topic in positions if topic not in now
             for each, at in positions[topic].items()]  # fmt: skip
    if gaps and policy == "fail":
        raise DataLossError(_said(client, gaps))
    return moved, gaps


def _one(topic: str, partition: int, at: int, has: Ends, anew: bool, policy: Policy) -> tuple[Gap | None, int]:
    if anew and policy == "skip":
        return Gap(
            topic, partition, has.low, has.high, "the topic was made anew and its records were skipped"
        ), has.high
    if anew:
        return Gap(topic, partition, at, at, "the topic was made anew"), has.low
    if at < has.low:
        return Gap(topic, partition, at, has.low, "they were deleted or have expired"), has.low
    if at > has.high:
        why = f"the topic ends at {has.high}"
        return Gap(topic, partition, at, at, why), has.high if policy == "skip" else has.low
    return None, at


def missing(client: Client, start: Positions, end: Positions, rows: int) -> list[Gap]:
    """What a batch did not get of its range because the broker no longer has it."""
    wanted = sum(end[topic][each] - at for topic, parts in start.items() for each, at in parts.items())
    if rows >= wanted:
        return []
    # Fewer rows alone say nothing: compacted topics and transactions leave holes too.
    found = ends(client, start)
    gaps = []
    for (topic, partition), has in found.items():
        first, last = start[topic][str(partition)], end[topic][str(partition)]
        if first < has.low and first < last:
            why = "they were deleted or have expired before they were read"
            gaps.append(Gap(topic, partition, first, min(has.low, last), why))
    return gaps


def _said(client: Client, gaps: list[Gap]) -> str:
    lost = ", ".join(_line(gap) for gap in gaps[:5]) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")
    fix = (
        "'on_data_loss: skip' goes on without them, 'earliest' with the first that there is; both write the gap down. "
        "Another 'storage' or pipeline name begins anew"
    )
    return f"Kafka at {_servers(client)} no longer has records that the checkpoint expects: {lost}; {fix}"


def _servers(client: Client) -> str:
    return str(client["bootstrap.servers"])


def _line(gap: Gap) -> str:
    what = f"{gap.count:,} records of {gap.topic} partition {gap.partition}, offsets {gap.start} to {gap.end}"
    where = f"those after offset {gap.start} of {gap.topic} partition {gap.partition}"
    return f"{what if gap.count else where} ({gap.why})"


_ANSWER_SECONDS = 10.0


def committing(settings: Mapping[str, Any], group: str) -> Callable[[Any], None]:
    """A function that commits the end of a batch, given as Spark reports it; it raises our error when it cannot.

    The group has no members: nobody subscribes, so no partition is ever taken away.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"group.id": group, "enable.auto.commit": False, "socket.timeout.ms": int(_ANSWER_SECONDS * 1000)}
    consumer = Consumer({**settings, **QUIET, **own})

    def commit(end: Any) -> None:
        offsets = json.loads(end) if isinstance(end, str) else end
        places = [
            TopicPartition(topic, int(partition), offset)
            for topic, partitions in (offsets or {}).items()
            for partition, offset in partitions.items()
        ]
        if not places:
            return
        try:
            done = consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            says = f"the consumer group {group!r} could not be told what is processed: {error.args[0].str()}"
            raise UnreachableError(f"{says}; the next batch tells it again") from error
        refused = [place.error.str() for place in done or () if place.error]
        if refused:
            says = f"the consumer group {group!r} could not be told what is processed: {refused[0]}"
            raise UnreachableError(f"{says}; the next batch tells it again")

    return commit
