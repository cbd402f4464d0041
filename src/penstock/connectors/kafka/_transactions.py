"""Batches to Kafka exactly once: each task sends its rows in one transaction that also notes the batch's number.

    task n of batch b:  offset of group (writer, checkpoint, n) past b?  -> done before, send nothing
                        begin -> offset b + 1 -> records -> commit          all of it or nothing

The transactional id is the same in every run, so a writer that was thought dead is fenced off, and what it left open is
aborted. The rows of a task are chosen by their bytes: a replayed batch has the same ones in the same task.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import RunError

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka import Consumer, Producer
    from pyspark.sql import DataFrame

PRODUCER = {
    "linger.ms": 5,
    "batch.size": 262_144,
    "compression.type": "lz4",
    # As the Java client chooses partitions, so that a key stays where it was.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 1_048_576,
}
_QUIET = {"log_level": 0}
_ANSWER_SECONDS = 60.0
_WAITING_ROWS = 50_000
_WAITING_BYTES = 64_000_000
_COLUMNS = ("key", "value")
_WORKERS = "PENSTOCK_WRITER"

#: The writers whose number of tasks was compared with that of earlier runs.
_agreed: set[str] = set()

#: The open writers of this Python worker, by group: the next batch finds its own again.
_open: dict[str, _Writer] = {}


@dataclass(frozen=True)
class Sending:
    """What a task must know to send its rows."""

    topic: str
    client: Mapping[str, Any]
    writer: str
    query: str
    batch: int
    timeout_seconds: float

    @property
    def tasks_group(self) -> str:
        """The consumer group whose offset is the number of tasks that share each batch of this checkpoint."""
        return f"penstock.{self.writer}.{self.query}.tasks"

    def transactional_id(self, task: int) -> str:
        """The same in every run."""
        return f"penstock.{self.writer}.{task}"

    def group(self, task: int) -> str:
        """The consumer group whose offset is the number of the next batch; another checkpoint has another."""
        return f"penstock.{self.writer}.{self.query}.{task}"


def send(records: DataFrame, sending: Sending, tasks: int) -> None:
    """Send a batch of key, value and headers; what was sent before is not sent again."""
    from pyspark.sql import functions as F  # noqa: N812

    if sending.tasks_group not in _agreed:
        _agree(sending, tasks)
    binary = [F.col(name).cast("binary").alias(name) for name in _COLUMNS if name in records.columns]
    headers = [F.col("headers")] if "headers" in records.columns else []
    spread = records.select(*binary, *headers).repartition(tasks, F.xxhash64(*binary))
    environment = records.sparkSession.sparkContext.environment
    # Workers with another environment are others: a task of the next batch finds the producer that is open.
    environment[_WORKERS] = sending.writer
    try:
        sent = spread.mapInArrow(lambda batches: _sent(batches, sending), "sent long")
    finally:
        environment.pop(_WORKERS, None)
    sent.collect()


def _agree(sending: Sending, tasks: int) -> None:
    """A batch that was sent in part is only found again by as many tasks as it was shared by."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    group = Consumer({**sending.client, **_QUIET, "group.id": sending.tasks_group, "enable.auto.commit": False})
    try:
        known = _noted(group, sending.topic)
        if known < 0:
            group.commit(offsets=[TopicPartition(sending.topic, 0, tasks)], asynchronous=False)
        elif known != tasks:
            says = f"'writers' is {tasks}, and the batches of this checkpoint are shared by {known}"
            raise RunError(f"{says}; set 'writers: {known}'")
    except KafkaException as error:
        raise _failed(sending, error) from error
    finally:
        group.close()
    _agreed.add(sending.tasks_group)


def _sent(batches: Iterator[pyarrow.RecordBatch], sending: Sending) -> Iterator[pyarrow.RecordBatch]:
    """One task, on an executor."""
    import pyarrow as pa
    from confluent_kafka import KafkaException
    from pyspark import TaskContext

    context = TaskContext.get()
    try:
        writer = _begun(sending, context.partitionId() if context else 0)
        count = writer.send(batches, sending) if writer else 0
    except KafkaException as error:
        raise _failed(sending, error) from error
    yield pa.RecordBatch.from_pydict({"sent": [count]})


def _begun(sending: Sending, task: int) -> _Writer | None:
    """A writer whose transaction has begun; None if the batch was sent before."""
    from confluent_kafka import KafkaException

    group = sending.group(task)
    kept = _open.get(group)
    try:
        return kept.begun(sending) if kept else _opened(sending, task).begun(sending)
    except KafkaException as error:
        if kept is None or not error.args[0].fatal():
            raise
    # Another worker of ours has opened the same id since, and may have sent this batch: look again.
    return _opened(sending, task).begun(sending)


def _opened(sending: Sending, task: int) -> _Writer:
    """A new writer; what another one of this id left open is aborted, and that one can send no more."""
    from confluent_kafka import Consumer, Producer

    milliseconds = int(sending.timeout_seconds * 1000)
    own = {"transactional.id": sending.transactional_id(task), "transaction.timeout.ms": milliseconds}
    producer = Producer({**PRODUCER, **sending.client, **_QUIET, **own, "message.timeout.ms": milliseconds})
    producer.init_transactions(_ANSWER_SECONDS)
    # Only now: nobody else can note a batch any more.
    reads = {"group.id": sending.group(task), "isolation.level": "read_committed", "enable.auto.commit": False}
    group = Consumer({**sending.client, **_QUIET, **reads})
    writer = _Writer(producer, group, max(0, _noted(group, sending.topic)))
    _open[sending.group(task)] = writer
    return writer


def _noted(group: Consumer, topic: str) -> int:
    """The offset that the group has committed, below zero if none; a broker that is starting gets some time."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    starting = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            (noted,) = group.committed([TopicPartition(topic, 0)], _ANSWER_SECONDS)
            return int(noted.offset)
        except KafkaException as error:
            if error.args[0].code() not in starting or time.monotonic() > deadline:
                raise
            group.poll(0.2)


class _Writer:
    """A producer with its transactional id, and the group that it notes batches in."""

    def __init__(self, producer: Producer, group: Consumer, next_batch: int) -> None:
        self._producer, self._group, self._next_batch = producer, group, next_batch

    def begun(self, sending: Sending) -> _Writer | None:
        """Begin with the batch's number: an id that is no longer ours is noticed before a row is taken."""
        from confluent_kafka import TopicPartition

        if sending.batch < self._next_batch:
            return None
        self._producer.begin_transaction()
        mark = [TopicPartition(sending.topic, 0, sending.batch + 1)]
        self._producer.send_offsets_to_transaction(mark, self._group.consumer_group_metadata(), _ANSWER_SECONDS)
        return self

    def send(self, batches: Iterator[pyarrow.RecordBatch], sending: Sending) -> int:
        """Send the rows and commit; whatever happens in between, none of them is seen."""
        try:
            count = sum(_produced(self._producer, sending, batch) for batch in batches)
            self._producer.commit_transaction(sending.timeout_seconds)
        except BaseException:
            for group, writer in list(_open.items()):
                if writer is self:
                    # The next one that opens this id aborts what is open.
                    del _open[group]
            raise
        self._next_batch = sending.batch + 1
        return count


def _produced(producer: Producer, sending: Sending, batch: pyarrow.RecordBatch) -> int:
    """Hand the rows over in their order, as fast as the broker takes them."""
    size = max(1, batch.nbytes // max(1, batch.num_rows))
    waiting = max(1, min(_WAITING_ROWS, _WAITING_BYTES // size))
    for start in range(0, batch.num_rows, waiting):
        part = batch.slice(start, waiting)
        _wait(producer, sending, waiting)
        if "headers" in batch.schema.names:
            for row in part.to_pylist():
                headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
                producer.produce(sending.topic, row["value"], row.get("key"), headers=headers)
        else:
            _checked(part.to_pylist(), producer, sending)
    return int(batch.num_rows)


def _checked(records: list[dict[str, Any]], producer: Producer, sending: Sending) -> None:
    from confluent_kafka import KafkaException

    if producer.produce_batch(sending.topic, records) < len(records):
        raise KafkaException(next(record["_error"] for record in records if "_error" in record))


def _wait(producer: Producer, sending: Sending, most: int) -> None:
    """Until the queue has room for as many rows again: it must never be full, or rows would change places."""
    deadline = time.monotonic() + sending.timeout_seconds
    while len(producer) > most:
        if time.monotonic() > deadline:
            says = f"Kafka took no record of topic {sending.topic!r} for {sending.timeout_seconds:.0f} s"
            raise RunError(f"{says}; look at the brokers", retry=True)
        producer.poll(0.05)


def _failed(sending: Sending, error: Exception) -> RunError:
    reason = error.args[0]
    fix = "the batch will be sent again, whole"
    if reason.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
        fix = "another run of this pipeline writes to it; let only one of them run"
    elif "TIME" in reason.name():
        fix = "raise 'transaction_timeout', or make batches smaller with 'records_per_trigger'"
    return RunError(f"Kafka did not take a batch for topic {sending.topic!r}: {reason.str()}; {fix}", retry=True)
