"""What is processed, committed to a consumer group: Spark keeps its own offsets, and other tools look for these."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from penstock.connectors.kafka_topics import QUIET
from penstock.errors import UnreachableError

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
