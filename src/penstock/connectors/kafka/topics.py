"""Topics: create them, and the error for those that do not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, UnreachableError
from penstock.text import join_words, nearest
from penstock.waiting import wait_until

QUIET: dict[str, Any] = {"log_level": 0, "socket.connection.setup.timeout.ms": 5000}
_SHOWN = 10


class MissingTopicError(PenstockError):
    """The broker has no such topic."""

    def __init__(self, servers: str, topics: tuple[str, ...], others: list[str]) -> None:
        self.servers, self.topics = servers, topics
        names = join_words((repr(topic) for topic in topics), "and")
        near = nearest(topics[0], others)
        there = join_words(others[:_SHOWN], "and") if others else "no topic yet"
        fix = f"did you mean {near!r}?" if near else f"create it first; there is {there}"
        super().__init__(f"Kafka at {servers} has no topic {names}; {fix}")


def create_topics(
    servers: str, topics: tuple[str, ...], partitions: int = 2, settings: Mapping[str, Any] | None = None
) -> None:
    """Create topics that do not exist; `settings` are those of a secured connection."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({**QUIET, **(settings or {}), "bootstrap.servers": servers})
    futures = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    for topic, future in futures.items():
        try:
            future.result(timeout=30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UnreachableError(f"Kafka at {servers} did not create topic {topic!r}: {error}") from error
    # The controller has created them; other brokers see them a moment later.
    if not wait_until(lambda: set(topics) <= set(admin.list_topics(timeout=30).topics), 30):
        raise UnreachableError(f"Kafka at {servers} does not show the topics that it has just created")
