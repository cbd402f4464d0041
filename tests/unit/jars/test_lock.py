"""jars.lock becomes data, and says where it is wrong."""

from __future__ import annotations

import pytest

from penstock.errors import CallError, JarError
from penstock.jars import GROUPS, LOCK
from penstock.jars.lock import parse

HASH = "a" * 64


def test_a_line_is_a_group_a_coordinate_a_size_and_a_hash():
    lock = parse(f"# why\n\nkafka org.acme:client:1.0 12 {HASH}  # and a remark\n")

    (jar,) = lock.jars(["kafka"])

    assert (jar.coordinate, jar.size_bytes, jar.sha256) == ("org.acme:client:1.0", 12, HASH)
    assert jar.file_name == "org.acme_client-1.0.jar"


def test_a_jar_of_two_groups_comes_once():
    lock = parse(f"one org.acme:client:1.0 12 {HASH}\ntwo org.acme:client:1.0 12 {HASH}\n")

    assert len(lock.jars(["one", "two"])) == 1


def test_a_jar_pinned_with_two_hashes_is_an_error_with_its_line():
    text = f"one org.acme:client:1.0 12 {HASH}\ntwo org.acme:client:1.0 12 {'b' * 64}\n"

    with pytest.raises(JarError, match=r"^jars\.lock:2: org\.acme:client:1\.0 is pinned twice"):
        parse(text)


@pytest.mark.parametrize("line", ["kafka org.acme:client:1.0", f"kafka client:1.0 12 {HASH}", f"kafka a:b:1 x {HASH}"])
def test_a_line_that_is_not_one_says_what_a_line_is(line):
    with pytest.raises(JarError, match=r"jars\.lock:1: found .*; write `group organisation:name:version bytes sha256`"):
        parse(line)


def test_an_unknown_group_is_the_calls_fault_and_names_the_nearest_one():
    with pytest.raises(CallError, match="unknown group of jars 'kafak'; did you mean 'kafka'\\?"):
        LOCK.jars(["kafak"])


def test_the_shipped_list_holds_spark_s_connectors_and_a_broker_that_can_log():
    names = {group: {jar.name for jar in LOCK.jars([group])} for group in GROUPS}

    assert {"spark-sql-kafka-0-10_2.13", "kafka-clients", "commons-pool2"} <= names["kafka"]
    assert names["avro"] == {"spark-avro_2.13"}
    assert {"kafka_2.13", "scala-logging_2.13", "log4j-slf4j-impl", "log4j-core"} <= names["broker"]
