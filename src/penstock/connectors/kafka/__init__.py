"""Kafka topics."""

from penstock.connectors.kafka._common import EMBEDDED, MissingTopicError, create_topics
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.source import KafkaSource, milliseconds

__all__ = ["EMBEDDED", "KafkaSink", "KafkaSource", "MissingTopicError", "create_topics", "milliseconds"]
