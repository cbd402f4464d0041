from __future__ import annotations

SOURCES = """
sources:
  logins: {kafka: {servers: a, topics: [t]}, json: "id string, at timestamp"}
  users: {cassandra: {table: k.users, schema: "id string, name string"}, static: true}
  cities: {files: {path: cities, format: csv, schema: id string}, static: true}
"""


def errors(findings, text: str) -> list[str]:
    return [each for each in findings(SOURCES + text) if "warning" not in each]


def test_a_lookup_into_a_table_that_answers_by_key_is_fine(findings):
    text = """
steps:
  named: {lookup: {from: logins, in: users, on: {id: id}, columns: {who: name}, kind: inner, cache: 1 minute}}
sinks:
  out: {from: named, cassandra: {table: k.out, timestamp: at}}
"""
    assert errors(findings, text) == []


def test_a_lookup_into_anything_else_is_found(findings):
    text = """
steps:
  a: {lookup: {from: logins, in: cities, on: id}}
  b: {lookup: {from: logins, in: logins, on: id}}
  c: {lookup: {from: logins, in: user, on: id}}
sinks:
  a_out: {from: a, console: {}}
  b_out: {from: b, console: {}}
  c_out: {from: c, console: {}}
"""
    assert errors(findings, text) == [
        "a.yaml:8:30: step 'a' looks up rows in 'cities', and files has no key lookup; "
        "join it in SQL: SELECT ... FROM a JOIN b",
        "a.yaml:9:30: step 'b' looks up rows in 'logins', which is not a static source; "
        "add 'static: true' to it, or join the streams in SQL",
        "a.yaml:10:30: step 'c' reads 'user', which is neither a source nor a step; did you mean 'users'?",
    ]


def test_a_table_of_cassandra_is_no_stream_and_does_not_tell_changes(findings):
    text = """
  moving: {cassandra: {table: k.t}}
  changing: {cassandra: {table: k.t}, static: {refresh: on change}}
steps:
  both: SELECT * FROM logins JOIN moving ON logins.id = moving.id JOIN changing
sinks:
  out: {from: both, console: {}}
"""
    assert errors(findings, text) == [
        "a.yaml:7:3: source 'moving': cassandra can only be read as a static table; add 'static: true'",
        "a.yaml:8:39: source 'changing': cassandra cannot detect changes of the table; "
        "refresh it at an interval, like '10 minutes'",
    ]


def test_keys_that_differ_when_a_batch_is_replayed_are_found(findings):
    text = """
steps:
  marked: |
    SELECT id,
           uuid() AS row_id
    FROM logins
sinks:
  table: {from: marked, cassandra: {table: k.out}}
  part: {from: logins, to: [{cassandra: {table: k.two}, select: "id, rand() AS r"}]}
  screen: {from: marked, console: {}}
"""
    fix = "build the key from the record: with 'metadata: true', from its topic, partition and offset"
    assert errors(findings, text) == [
        "a.yaml:10:12: step 'marked' calls uuid(), which returns other values when a batch is replayed; "
        f"sink 'table' (cassandra) would then contain both rows; {fix}",
        "a.yaml:14:70: step 'part.cassandra' calls rand(), which returns other values when a batch is replayed; "
        f"sink 'part' (cassandra) would then contain both rows; {fix}",
    ]


def test_cassandra_takes_no_mode_complete(findings):
    text = """
steps:
  totals: SELECT id, count(*) AS n FROM logins GROUP BY id
sinks:
  out: {from: totals, cassandra: {table: k.out}, mode: complete}
"""
    (found,) = errors(findings, text)
    assert found.startswith("a.yaml:10:50: ")
    assert "complete" in found
