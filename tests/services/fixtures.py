"""A real broker, a real Cassandra and a real PostgreSQL, each started once, when first needed."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.services import postgres as server
from tests.services.secured import SecuredBroker, secured_broker

from penstock import cql, jars
from penstock.connectors.kafka import create_topics
from penstock.processes import identity
from penstock.services import Cassandra, KafkaBroker
from penstock.services.kafka import free_port
from penstock.services.service import Service


@dataclass(frozen=True)
class Shared:
    """A service that every worker of a test run uses: the first starts it, the last that is done stops it."""

    kind: type[Service]
    place: Path
    """A folder that all workers of one run have in common."""

    @contextmanager
    def used(self) -> Iterator[str]:
        """Its address."""
        service = self._service()
        user = self._users / str(os.getpid())
        with self._locked():
            user.write_text(identity(os.getpid()))
            address = service.start(lambda _: None)
        try:
            yield address
        finally:
            with self._locked():
                user.unlink()
                if not self._is_used():
                    service.stop()

    def _service(self) -> Service:
        folder = self.place / self.kind.name
        with self._locked():
            folder.mkdir(exist_ok=True)
            if not (folder / "port").exists():
                (folder / "port").write_text(str(free_port()))
        return self.kind(folder, jars.fetch([self.kind.jars]))

    def _is_used(self) -> bool:
        """Whether a worker that lives uses it; one that crashed has left its file."""
        return any(identity(int(user.name)) == user.read_text() for user in self._users.iterdir())

    @property
    def _users(self) -> Path:
        folder = self.place / f"{self.kind.name}-users"
        folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.place / f"{self.kind.name}-lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A folder that all workers of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(pytestconfig, "workerinput") else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def broker(common: Path) -> Iterator[str]:
    """The address of a real broker."""
    with Shared(KafkaBroker, common).used() as address:
        yield address


@pytest.fixture(scope="session")
def postgres() -> Iterator[server.Postgres]:
    """A real PostgreSQL."""
    with server.postgres() as running:
        yield running


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A real broker with every kind of secured listener."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def topic(broker: str) -> str:
    """The name of a fresh topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    create_topics(broker, (name,))
    return name


@pytest.fixture
def topics(broker: str) -> dict[str, str]:
    """Two fresh topics, as the variables that the examples know."""
    names = {"FROM_TOPIC": f"from-{uuid.uuid4().hex[:8]}", "TO_TOPIC": f"to-{uuid.uuid4().hex[:8]}"}
    create_topics(broker, tuple(names.values()))
    return names


@dataclass(frozen=True)
class Kafka:
    """Records in and out of a real broker, with Kafka's own client."""

    address: str

    def create(self, partitions: int = 2, prefix: str = "topic", name: str = "") -> str:
        """The name of a fresh topic."""
        name = name or f"{prefix}-{uuid.uuid4().hex[:12]}"
        create_topics(self.address, (name,), partitions)
        return name

    def send(self, topic: str, *values: str | bytes | None, partition: int = 0, **more: Any) -> None:
        """Write records to one partition; `key`, `timestamp` and `headers` are the same for all of them."""
        producer = Producer({"bootstrap.servers": self.address})
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    def read(self, topic: str, count: int, patience_seconds: float = 60) -> list[Message]:
        """So many records of a topic, in the order of partitions and offsets; an error if they do not come."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex})
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Message] = []
        deadline = monotonic() + patience_seconds
        try:
            while len(found) < count:
                assert monotonic() < deadline, f"{len(found)} of {count} records came"
                found += consumer.consume(count - len(found), timeout=1)
        finally:
            consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def values(self, topic: str, count: int) -> list[str]:
        """The values of so many records, sorted."""
        return sorted(message.value().decode() for message in self.read(topic, count))

    def committed(self, topic: str) -> list[Message]:
        """Everything in a topic that a consumer of committed records sees."""
        settings = {"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex, "enable.partition.eof": True}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._wait_for_transactions([TopicPartition(topic, number) for number in partitions])
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Message] = []
        ends: set[int] = set()
        while len(ends) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if message.error():
                ends.add(message.partition())
            else:
                found.append(message)
        consumer.close()
        return found

    def _wait_for_transactions(self, partitions: list[TopicPartition]) -> None:
        """Wait until no transaction is open: a commit returns before its markers are in every partition."""
        admin = AdminClient({"bootstrap.servers": self.address})

        def ends(level: IsolationLevel) -> list[int]:
            asked = admin.list_offsets({each: OffsetSpec.latest() for each in partitions}, isolation_level=level)
            return [asked[each].result(30).offset for each in partitions]

        deadline = monotonic() + 60
        while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
            assert monotonic() < deadline, "a transaction is still open"

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset."""
        admin = AdminClient({"bootstrap.servers": self.address})
        for done in admin.delete_records([TopicPartition(topic, partition, before)]).values():
            done.result(timeout=30)


@pytest.fixture
def kafka(broker: str) -> Kafka:
    """The shared broker."""
    return Kafka(broker)


@dataclass(frozen=True)
class Store:
    """Tables of a real Cassandra, with its own Python driver; each test has a keyspace of its own."""

    address: str
    session: Any
    keyspace: str

    def make(self, columns: str, name: str = "t") -> str:
        """A new table, as `keyspace.table`."""
        self.session.execute(f"CREATE TABLE {self.keyspace}.{name} ({columns})")
        return f"{self.keyspace}.{name}"

    def cql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in which `t` stands for the test's own table, sorted."""
        found = self.session.execute(text.replace(" t ", f" {self.keyspace}.t "), values or None)
        return sorted((tuple(row) for row in found), key=repr)


@pytest.fixture(scope="session")
def cassandra_address(common: Path) -> Iterator[str]:
    """The address of a real Cassandra."""
    with Shared(Cassandra, common).used() as address:
        yield address


@pytest.fixture(scope="session")
def cassandra_session(cassandra_address: str) -> Iterator[Any]:
    """A session of the driver with it."""
    session = cql.connect(cassandra_address)
    yield session
    session.cluster.shutdown()


@pytest.fixture
def cassandra(cassandra_address: str, cassandra_session: Any) -> Store:
    """A fresh keyspace."""
    return fresh_keyspace(cassandra_address, cassandra_session)


def fresh_keyspace(address: str, session: Any) -> Store:
    """A keyspace that nobody else has."""
    name = f"k{uuid.uuid4().hex[:12]}"
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"CREATE KEYSPACE {name} WITH replication = {replication}")
    return Store(address, session, name)
