"""The examples with Cassandra run as their READMEs say, with the real parts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime

from tests.services.command import EXAMPLES, consume, penstock, produce
from tests.services.test_examples import example


def test_the_last_login_of_each_user_is_written_back_and_a_late_one_is_not(broker, topics, cassandra, tmp_path):
    folder = example("logins", tmp_path)
    file = folder / "logins.yaml"
    text = file.read_text().replace("[logins]", f"[{topics['FROM_TOPIC']}]")
    file.write_text(text.replace("logins-named", topics["TO_TOPIC"]))
    subprocess.run([sys.executable, EXAMPLES / "logins" / "users.py", cassandra.address], check=True)
    times = [("100001", "10:18"), ("100009", "10:19"), ("999999", "10:20"), ("100001", "10:30"), ("100001", "09:00")]
    logins = [json.dumps({"login_id": who, "created_time": f"2020-09-09 {at}:00"}).encode() for who, at in times]
    systems = {"KAFKA_SERVERS": broker, "CASSANDRA_HOSTS": cassandra.address}

    produce(broker, topics["FROM_TOPIC"], logins[:4])
    first = penstock("run", folder, "--once", folder=tmp_path, **systems)
    produce(broker, topics["FROM_TOPIC"], logins[4:])
    second = penstock("run", folder, "--once", folder=tmp_path, **systems)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert cassandra.cql("SELECT login_id, user_name, last_login FROM site.users") == [
        ("100001", "Prashant", datetime(2020, 9, 9, 10, 30)),
        ("100009", "Alisha", datetime(2020, 9, 9, 10, 19)),
        ("100087", "Abdul", None),
        ("100109", "Ketan", None),
    ]
    named = sorted(json.loads(value)["user_name"] for value in consume(broker, topics["TO_TOPIC"]))
    assert named == ["Alisha", "Prashant", "Prashant", "Prashant"]


def test_words_are_counted_into_a_table_that_is_made_at_the_first_start(broker, topics, cassandra, tmp_path):
    folder = example("counts", tmp_path)
    file = folder / "counts.yaml"
    text = file.read_text().replace("[lines]", f"[{topics['FROM_TOPIC']}]")
    file.write_text(text.replace("words.counts", f"{cassandra.keyspace}.t"))
    systems = {"KAFKA_SERVERS": broker, "CASSANDRA_HOSTS": cassandra.address}

    produce(broker, topics["FROM_TOPIC"], [b"to be or not", b"to be"])
    first = penstock("run", folder, "--once", folder=tmp_path, **systems)
    produce(broker, topics["FROM_TOPIC"], [b"not  that"])
    second = penstock("run", folder, "--once", folder=tmp_path, **systems)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert cassandra.cql("SELECT word, count FROM t ") == [("be", 2), ("not", 2), ("or", 1), ("that", 1), ("to", 2)]


def test_the_wrong_table_stops_a_run_before_spark_starts(broker, topics, cassandra, tmp_path):
    folder = example("logins", tmp_path)
    file = folder / "logins.yaml"
    file.write_text(file.read_text().replace("site.users", f"{cassandra.keyspace}.nobody"))

    systems = {"KAFKA_SERVERS": broker, "CASSANDRA_HOSTS": cassandra.address}
    produce(broker, topics["FROM_TOPIC"], [b"{}"])
    file.write_text(file.read_text().replace("[logins]", f"[{topics['FROM_TOPIC']}]"))
    ran = penstock("run", folder, "--once", folder=tmp_path, **systems)

    assert ran.returncode == 1
    assert re.search(
        r"logins.yaml:\d+: source 'users': keyspace 'k\w+' has no table 'nobody'; create it first", ran.stderr
    )
