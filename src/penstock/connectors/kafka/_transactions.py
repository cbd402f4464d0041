"""Exactly-once batches to Kafka: each task sends its rows in one transaction that also commits the batch's number.

    task n of batch b:  offset of group (writer, checkpoint, n) past b?  -> sent before: send nothing
                        begin -> offset b + 1 -> records -> commit          all of it or nothing

The transactional id is the same in every run of a checkpoint, so a zombie writer is fenced and its open transaction
aborted. Another checkpoint or topic has another id: pipelines of one name in two storages do not fence each other. Rows
are assigned to tasks by a hash of their bytes: a replayed batch has the same rows in the same task.

Brokers forget the offset of a group without commits, after seven days by default. So it is committed again at
every start.
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
    # The Java client's partitioner, so that a key keeps its partition.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 1_048_576,
}
_QUIET = {"log_level": 0}
_ANSWER_SECONDS = 60.0
_MAX_QUEUED_ROWS = 50_000
_MAX_QUEUED_BYTES = 64_000_000
_COLUMNS = ("key", "value")
_WORKER_VARIABLE = "PENSTOCK_WRITER"
_RENEW_SECONDS = 86_400

#: When the number of tasks was last compared with that of earlier runs and committed again, by group and topic.
_checked_groups: dict[tuple[str, str], float] = {}

#: The open writers of this Python worker, by group and topic; the next batch uses them again.
_open_writers: dict[tuple[str, str], _Writer] = {}


@dataclass(frozen=True)
class TransactionSpec:
    """What a task needs to know to send its rows."""

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
        """The transactional id of a task: the same in every run of this checkpoint."""
        return f"penstock.{self.writer}.{self.query}.{self.topic}.{task}"

    def group(self, task: int) -> str:
        """The consumer group whose offset is the number of the next batch; every checkpoint has its own."""
        return f"penstock.{self.writer}.{self.query}.{task}"


def send(records: DataFrame, spec: TransactionSpec, tasks: int) -> None:
    """Send a batch of key, value and headers, except what was sent before."""
    from pyspark.sql import functions as F  # noqa: N812

    _check_task_count(spec, tasks)
    binary = [F.col(name).cast("binary").alias(name) for name in _COLUMNS if name in records.columns]
    headers = [F.col("headers")] if "headers" in records.columns else []
    spread = records.select(*binary, *headers).repartition(tasks, F.xxhash64(*binary))
    environment = records.sparkSession.sparkContext.environment
    # Spark reuses a Python worker only for an equal environment, so this variable pins the sink to a worker that keeps
    # its producer open.
    environment[_WORKER_VARIABLE] = spec.writer
    try:
        sent = spread.mapInArrow(lambda batches: _send_task(batches, spec), "sent long")
    finally:
        environment.pop(_WORKER_VARIABLE, None)
    sent.collect()


def find_last_batch(spec: TransactionSpec, tasks: int) -> int | None:
    """The last batch that every task has sent; None if Kafka does not know it (any more).

    Fences older writers, so that the answer stays true, and commits the numbers again.
    """
    from confluent_kafka import KafkaException

    _check_task_count(spec, tasks)
    try:
        numbers = [_open_writer(spec, task).renew(spec) for task in range(tasks)]
    except KafkaException as error:
        raise _send_error(spec, error) from error
    finally:
        # The tasks open their own, in other processes.
        for task in range(tasks):
            _open_writers.pop((spec.group(task), spec.topic), None)
    return min(numbers) - 1 if min(numbers) > 0 else None


def _check_task_count(spec: TransactionSpec, tasks: int) -> None:
    """A batch that was sent in part can only be resumed with the same number of tasks."""
    from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

    key = (spec.tasks_group, spec.topic)
    if key in _checked_groups and time.monotonic() - _checked_groups[key] < _RENEW_SECONDS:
        return
    group = Consumer({**spec.client, **_QUIET, "group.id": spec.tasks_group, "enable.auto.commit": False})
    try:
        known = _read_offset(group, spec.topic)
        if known not in (tasks, OFFSET_INVALID):
            says = f"'writers' is {tasks}, and the batches of this checkpoint are shared by {known}"
            raise RunError(f"{says}; set 'writers: {known}'")
        group.commit(offsets=[TopicPartition(spec.topic, 0, tasks)], asynchronous=False)
    except KafkaException as error:
        raise _send_error(spec, error) from error
    finally:
        group.close()
    _checked_groups[key] = time.monotonic()


def _send_task(batches: Iterator[pyarrow.RecordBatch], spec: TransactionSpec) -> Iterator[pyarrow.RecordBatch]:
    """Send the rows of one task, on an executor."""
    import pyarrow as pa
    from confluent_kafka import KafkaException
    from pyspark import TaskContext

    context = TaskContext.get()
    try:
        writer = _begin(spec, context.partitionId() if context else 0)
        count = writer.send(batches, spec) if writer else 0
    except KafkaException as error:
        raise _send_error(spec, error) from error
    yield pa.RecordBatch.from_pydict({"sent": [count]})


def _begin(spec: TransactionSpec, task: int) -> _Writer | None:
    """A writer with an open transaction; None if the batch was sent before."""
    from confluent_kafka import KafkaException

    reused = _open_writers.get((spec.group(task), spec.topic))
    try:
        return reused.begin(spec) if reused else _open_writer(spec, task).begin(spec)
    except KafkaException as error:
        if reused is None or not error.args[0].fatal():
            raise
    # Another worker has opened the same id since and may have sent this batch: check again.
    return _open_writer(spec, task).begin(spec)


def _open_writer(spec: TransactionSpec, task: int) -> _Writer:
    """A new writer; an older one of the same id is fenced and its transaction aborted."""
    from confluent_kafka import Consumer, Producer

    milliseconds = int(spec.timeout_seconds * 1000)
    own = {"transactional.id": spec.transactional_id(task), "transaction.timeout.ms": milliseconds}
    producer = Producer({**PRODUCER, **spec.client, **_QUIET, **own, "message.timeout.ms": milliseconds})
    producer.init_transactions(_ANSWER_SECONDS)
    # Read only now that older writers are fenced: they can no longer commit a batch.
    reads = {"group.id": spec.group(task), "isolation.level": "read_committed", "enable.auto.commit": False}
    group = Consumer({**spec.client, **_QUIET, **reads})
    writer = _Writer(producer, group, max(0, _read_offset(group, spec.topic)))
    _open_writers[spec.group(task), spec.topic] = writer
    return writer


def _read_offset(group: Consumer, topic: str) -> int:
    """The offset that the group has committed, below zero if none; retries while a broker is starting."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    starting = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            (committed,) = group.committed([TopicPartition(topic, 0)], _ANSWER_SECONDS)
            return int(committed.offset)
        except KafkaException as error:
            if error.args[0].code() not in starting or time.monotonic() > deadline:
                raise
            group.poll(0.2)


class _Writer:
    """A transactional producer, and the group that it commits batch numbers to."""

    def __init__(self, producer: Producer, group: Consumer, next_batch: int) -> None:
        self._producer, self._group, self._next_batch = producer, group, next_batch

    def begin(self, spec: TransactionSpec) -> _Writer | None:
        """Begin a transaction with the batch's number, so that a fenced writer fails before it sends a row."""
        if spec.batch < self._next_batch:
            return None
        self._begin(spec, spec.batch + 1)
        return self

    def renew(self, spec: TransactionSpec) -> int:
        """Commit the number of the next batch again, unless this writer is fenced by now; 0 if there is none."""
        if self._next_batch:
            self._begin(spec, self._next_batch)
            self._producer.commit_transaction(_ANSWER_SECONDS)
        self._group.close()
        return self._next_batch

    def _begin(self, spec: TransactionSpec, next_batch: int) -> None:
        from confluent_kafka import TopicPartition

        self._producer.begin_transaction()
        mark = [TopicPartition(spec.topic, 0, next_batch)]
        self._producer.send_offsets_to_transaction(mark, self._group.consumer_group_metadata(), _ANSWER_SECONDS)

    def send(self, batches: Iterator[pyarrow.RecordBatch], spec: TransactionSpec) -> int:
        """Send the rows and commit; after a failure none of them is visible."""
        try:
            count = sum(_produce(self._producer, spec, batch) for batch in batches)
            self._producer.commit_transaction(spec.timeout_seconds)
        except BaseException:
            for key, writer in list(_open_writers.items()):
                if writer is self:
                    # Opening this id again aborts the transaction.
                    del _open_writers[key]
            raise
        self._next_batch = spec.batch + 1
        return count


def _produce(producer: Producer, spec: TransactionSpec, batch: pyarrow.RecordBatch) -> int:
    """Produce the rows in order, as fast as the broker accepts them."""
    size = max(1, batch.nbytes // max(1, batch.num_rows))
    chunk_rows = max(1, min(_MAX_QUEUED_ROWS, _MAX_QUEUED_BYTES // size))
    for start in range(0, batch.num_rows, chunk_rows):
        part = batch.slice(start, chunk_rows)
        _wait_for_queue(producer, spec, chunk_rows)
        if "headers" in batch.schema.names:
            for row in part.to_pylist():
                headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
                producer.produce(spec.topic, row["value"], row.get("key"), headers=headers)
        else:
            _produce_batch(part.to_pylist(), producer, spec)
    return int(batch.num_rows)


def _produce_batch(records: list[dict[str, Any]], producer: Producer, spec: TransactionSpec) -> None:
    from confluent_kafka import KafkaException

    if producer.produce_batch(spec.topic, records) < len(records):
        raise KafkaException(next(record["_error"] for record in records if "_error" in record))


def _wait_for_queue(producer: Producer, spec: TransactionSpec, most: int) -> None:
    """Wait until the queue has room for as many rows again; a full queue would reorder them."""
    deadline = time.monotonic() + spec.timeout_seconds
    while len(producer) > most:
        if time.monotonic() > deadline:
            says = f"Kafka accepted no record of topic {spec.topic!r} for {spec.timeout_seconds:.0f} s"
            raise RunError(f"{says}; check the brokers", retry=True)
        producer.poll(0.05)


def _send_error(spec: TransactionSpec, error: Exception) -> RunError:
    reason = error.args[0]
    fix, retry = "the whole batch will be sent again", True
    if reason.name() == "MSG_SIZE_TOO_LARGE":
        fix, retry = "raise 'max.message.bytes' of the topic, or make the rows smaller", False
    elif reason.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
        fix = "another run of this pipeline writes to it; let only one of them run"
    elif "TIME" in reason.name():
        fix = "raise 'transaction_timeout', or make batches smaller with 'records_per_trigger'"
    return RunError(f"Kafka did not accept a batch for topic {spec.topic!r}: {reason.str()}; {fix}", retry=retry)
