"""Settings of Kafka's client: our defaults, and an allow-list without class loading, files and URLs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.text import nearest

#: Larger fetches: measured to take a third less CPU than Kafka's defaults on a backlog.
CONSUMER = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
    "kafka.receive.buffer.bytes": "1048576",
}

#: Fuller requests; a few milliseconds of latency for several times the throughput.
PRODUCER = {"kafka.linger.ms": "5", "kafka.batch.size": "262144", "kafka.compression.type": "lz4"}

#: Settings with the same name and meaning in the Java client and librdkafka.
_BOTH = """client.dns.lookup client.id client.rack connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms
    reconnect.backoff.ms socket.connection.setup.timeout.ms"""
_CONSUMER = """allow.auto.create.topics check.crcs default.api.timeout.ms exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol heartbeat.interval.ms isolation.level
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records session.timeout.ms"""
_PRODUCER = """acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.ignore.keys retries
    transaction.timeout.ms"""
_EITHER = """enable.metrics.push metadata.recovery.strategy metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes request.timeout.ms retry.backoff.max.ms retry.backoff.ms
    send.buffer.bytes socket.connection.setup.timeout.max.ms ssl.cipher.suites ssl.enabled.protocols ssl.protocol"""
#: The same, producer-only.
_BOTH_PRODUCERS = """acks batch.size compression.type delivery.timeout.ms linger.ms request.timeout.ms
    transaction.timeout.ms"""
_SHARED = frozenset(_BOTH.split())
_CLIENT = _SHARED.union(_CONSUMER.split(), _PRODUCER.split(), _EITHER.split())

_SPARK = (
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "startingOffsetsByTimestampStrategy",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)

_FORBIDDEN = {
    "auto.offset.reset": "use 'start'; Spark keeps the offsets itself, in the checkpoint",
    "key.deserializer": "use 'key: string', 'key: {json: ...}' on the source",
    "value.deserializer": "use 'json', 'csv', 'avro' or 'value' on the source",
    "key.serializer": "use 'key' on the sink",
    "value.serializer": "use 'value' on the sink",
    "enable.auto.commit": "take it out; Spark keeps the offsets itself, in the checkpoint",
    "interceptor.classes": "take it out; interceptors can break a query",
    "bootstrap.servers": "use 'servers'",
}
_OPTION_NAMES = {
    "subscribe": "topics",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "startingoffsetsbytimestamp": "start",
    "endingoffsets": "end",
    "endingtimestamp": "end",
    "endingoffsetsbytimestamp": "end",
    "maxoffsetspertrigger": "records_per_trigger",
    "minpartitions": "min_partitions",
    "includeheaders": "headers",
    "failondataloss": "on_data_loss",
    "topic": "topic",
}
_SET_BY = {
    "security.protocol": "use 'tls' and 'sasl'; the protocol follows from them",
    "ssl.endpoint.identification.algorithm": "take it out; the broker's name is always checked against its certificate",
}
_REASONS = (
    ("sasl.oauthbearer", "it calls URLs and reads files"),
    (".class", "it loads a class"),
    ("classes", "it loads classes"),
    ("reporters", "it loads classes"),
    ("strategy", "it loads a class"),
    ("providers", "it loads classes"),
    ("location", "it reads a file"),
    ("kinit.cmd", "it runs a program"),
)


def validate_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options unchanged; ValueError if Spark sets one, it has its own option here, or it is not on the list."""
    for name in options:
        bare = name.lower().removeprefix("kafka.")
        if bare in _FORBIDDEN:
            raise ValueError(f"Spark does not allow {bare!r}; {_FORBIDDEN[bare]}")
        if name.lower() in _OPTION_NAMES:
            raise ValueError(f"{name!r} has its own option here; use '{_OPTION_NAMES[name.lower()]}'")
        if not _is_known(name):
            raise ValueError(f"the option {name!r} is not allowed{_reason(bare)}; {_suggest(name, bare)}")
    return options


def client_options(options: Mapping[str, Any], *, producer: bool = False) -> dict[str, Any]:
    """The options that the Python client takes too; `producer` adds those of producers."""
    bare = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    taken = _SHARED.union(_BOTH_PRODUCERS.split() if producer else ())
    return {name: value for name, value in bare.items() if name in taken}


def _is_known(name: str) -> bool:
    # Kafka's names are case-sensitive, Spark's are not.
    if name.lower().startswith("kafka."):
        return name.removeprefix("kafka.") in _CLIENT
    return name.lower() in {each.lower() for each in _SPARK}


def _reason(bare: str) -> str:
    return next((f": {why}" for part, why in _REASONS if part in bare), "")


def _suggest(name: str, bare: str) -> str:
    if bare in _SET_BY:
        return _SET_BY[bare]
    if bare.startswith("sasl."):
        return "use 'sasl: {mechanism, user, password}'"
    if bare.startswith("ssl."):
        return "use 'tls: {ca, cert, key, password}'"
    near = nearest(name, [*(f"kafka.{each}" for each in _CLIENT), *_SPARK])
    return f"did you mean {near!r}?" if near else "take it out; settings of Kafka's client begin with 'kafka.'"
