"""Kafka topics."""

from penstock.connectors.kafka._common import EMBEDDED
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.source import KafkaSource, milliseconds
from penstock.connectors.kafka.topics import MissingTopicError, create_topics

__all__ = ["EMBEDDED", "KafkaSink", "KafkaSource", "MissingTopicError", "create_topics", "milliseconds"]
