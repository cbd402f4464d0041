"""Records into a Kafka topic, at a steady rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import UnreachableError
from penstock.feeds.record import Record

_SLICES_PER_SECOND = 20


def send(
    servers: str,
    topic: str,
    records: Iterable[Record],
    rate: float | None = None,
    progress: Callable[[int], None] = lambda _: None,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Send every record, at most `rate` a second; how many the broker has acknowledged.

    `settings` are those of a secured connection, as a connector's `client_settings` has them.
    """
    from confluent_kafka import Producer

    acked, failures = 0, []

    def delivered(error: object, _message: object) -> None:
        nonlocal acked
        if error is None:
            acked += 1
        else:
            failures.append(str(error))

    own = {"acks": "all", "linger.ms": 20, "compression.type": "lz4", "enable.idempotence": True, "log_level": 0}
    producer = Producer({**own, **(settings or {}), "bootstrap.servers": servers})
    began = time.monotonic()
    for number, record in enumerate(records):
        while True:
            try:
                producer.produce(topic, record.value, record.key, on_delivery=delivered)
                break
            except BufferError:
                # The queue is full: the broker decides the pace.
                producer.poll(0.1)
        if rate and number % max(1, int(rate / _SLICES_PER_SECOND)) == 0:
            while (ahead := number / rate - (time.monotonic() - began)) > 0:
                # Returns early whenever a record is acknowledged.
                producer.poll(ahead)
            progress(acked)
        elif number % 1000 == 0:
            producer.poll(0)
            progress(acked)
        if failures:
            break
    producer.flush(30)
    progress(acked)
    if failures:
        raise UnreachableError(f"Kafka at {servers} did not take a record of topic {topic!r}: {failures[0]}")
    return acked
