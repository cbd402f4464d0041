"""A real broker for the tests of this folder, started once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock import jars
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker."""
    folder = tmp_path_factory.mktemp("kafka")
    kafka = KafkaBroker(folder, jars.fetch([KafkaBroker.jars]), free_port())
    yield kafka.up(lambda _: None)
    kafka.down()


@pytest.fixture
def topic(broker: str) -> str:
    """The name of a fresh topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker})
    for made in admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)]).values():
        made.result(timeout=30)
    return name


@pytest.fixture
def topics(broker: str) -> dict[str, str]:
    """Two fresh topics, as the variables that the examples know."""
    names = {"FROM_TOPIC": f"from-{uuid.uuid4().hex[:8]}", "TO_TOPIC": f"to-{uuid.uuid4().hex[:8]}"}
    admin = AdminClient({"bootstrap.servers": broker})
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in names.values()]).values():
        made.result(timeout=30)
    return names
