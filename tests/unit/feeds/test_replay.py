from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.errors import CallError
from penstock.feeds import Record
from penstock.feeds.recording import Heading, format_heading, format_record, read_heading
from penstock.feeds.replay import Replay

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc).timestamp()

RECORDING = format_heading(Heading("t", 1)).decode()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_json_lines_are_sent_as_they_stand(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"t": "2024-05-01 12:00:00",  "k": 1}\r\n\n{"t": "2024-05-01T12:00:01Z"}\n')

    records = list(Replay(path, time_column="t").records())

    assert [record.value for record in records] == [
        b'{"t": "2024-05-01 12:00:00",  "k": 1}',
        b'{"t": "2024-05-01T12:00:01Z"}',
    ]
    assert [record.time for record in records] == [NOON, NOON + 1]


@pytest.mark.parametrize(
    "told", ['"2024-05-01 12:00:00"', '"2024-05-01T14:00:00+02:00"', "1714564800", "1714564800000", '"1714564800"']
)
def test_times_are_text_or_numbers(tmp_path, told):
    path = write(tmp_path, "a.jsonl", f'{{"a": {{"t": {told}}}}}\n')

    (record,) = Replay(path, time_column="a.t").records()

    assert record.time == NOON


def test_a_column_becomes_the_key(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"u": {"id": 5}}\n{"u": {"id": "x"}}\n{"u": {"id": null}}\n')

    assert [record.key for record in Replay(path, key_column="u.id").records()] == [b"5", b"x", None]


def test_lines_of_text_are_sent_as_they_stand(tmp_path):
    path = write(tmp_path, "a.txt", "to be\r\n\n or not \n")

    assert [(record.key, record.value) for record in Replay(path).records()] == [(None, b"to be"), (None, b" or not ")]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_separator_stands_between_key_and_value(tmp_path, name):
    path = write(tmp_path, name, 'a:{"t": 1714564800}\n:{"t": 1714564801, "x": "y:z"}\n')

    records = list(Replay(path, time_column="t", key_separator=":").records())

    assert [(record.key, record.value, record.time) for record in records] == [
        (b"a", b'{"t": 1714564800}', NOON),
        (b"", b'{"t": 1714564801, "x": "y:z"}', NOON + 1),
    ]


def test_a_line_without_the_separator_is_named(tmp_path):
    path = write(tmp_path, "a.txt", "a:1\nb2\n")

    with pytest.raises(CallError, match=r"^a.txt:2: no ':' in 'b2'; write a key, the separator and a value"):
        list(Replay(path, key_separator=":").records())


def test_a_separator_is_not_for_columns(tmp_path):
    path = write(tmp_path, "a.csv", "k,v\n1,2\n")

    with pytest.raises(
        CallError, match=r"--key-separator is for lines of text, and a\.csv has columns; use --key-column"
    ):
        list(Replay(path, key_separator=":").records())


def test_csv_is_sent_line_by_line_or_as_objects(tmp_path):
    path = write(tmp_path, "a.csv", 'id,t,note\n007,2024-05-01 12:00:00,"two\nlines"\n8,2024-05-01 12:00:05,\n')

    lines = list(Replay(path, time_column="t", key_column="id").records())
    objects = [json.loads(record.value) for record in Replay(path, as_json=True).records()]

    assert [record.value for record in lines] == [
        b'007,2024-05-01 12:00:00,"two\nlines"',
        b"8,2024-05-01 12:00:05,",
    ]
    assert [record.key for record in lines] == [b"007", b"8"]
    assert [record.time for record in lines] == [NOON, NOON + 5]
    assert objects == [
        {"id": "007", "t": "2024-05-01 12:00:00", "note": "two\nlines"},
        {"id": 8, "t": "2024-05-01 12:00:05", "note": None},
    ]


def test_rows_of_parquet_become_json(tmp_path):
    table = pyarrow.table(
        {"t": [datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, 0, 1)], "n": [1, None], "tags": [["a"], []]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")

    records = list(Replay(tmp_path / "a.parquet", time_column="t").records())

    assert json.loads(records[0].value) == {"t": "2024-05-01 12:00:00", "n": 1, "tags": ["a"]}
    assert [record.time for record in records] == [NOON, NOON + 1]


@pytest.mark.parametrize(
    ("told", "moved"),
    [
        ('"2024-05-01 12:00:00"', '"2024-05-01 13:00:00"'),
        ('"2024-05-01T12:00:00Z"', '"2024-05-01T13:00:00Z"'),
        ("1714564800000", "1714568400000"),
        ('"1714564800"', '"1714568400"'),
    ],
)
def test_times_are_moved_to_now_in_the_form_they_had(tmp_path, told, moved):
    path = write(tmp_path, "a.jsonl", f'{{"t": {told}, "n": "ü"}}\n{{"t": {told}}}\n')

    records = list(Replay(path, time_column="t", shift_to=NOON + 3600).records())

    assert records[0].value.decode() == f'{{"t": {moved}, "n": "ü"}}'
    assert [record.time for record in records] == [NOON + 3600] * 2


def test_a_recording_is_read_back_byte_for_byte(tmp_path):
    headers = (("who", b"me"), ("who", None), ("raw", b"\xff"))
    told = [
        Record(b"k", b'{"a": "\xc3\xbc\\n"}', NOON, headers=headers, partition=1, timestamp=int(NOON * 1000)),
        Record(None, b"\x00\xff\n", NOON + 1, partition=0, timestamp=int(NOON * 1000) + 1000),
        Record(b"", None, partition=0),
    ]
    path = tmp_path / "topic.jsonl"
    path.write_bytes(
        format_heading(Heading("topic", 2)) + b"".join(format_record(record, at) for at, record in enumerate(told))
    )

    assert list(Replay(path).records()) == told
    assert read_heading(path) == Heading("topic", 2)


def test_a_recording_moves_its_timestamps_and_leaves_its_values(tmp_path):
    path = tmp_path / "topic.jsonl"
    record = Record(None, b"x", partition=0, timestamp=int(NOON * 1000))
    path.write_bytes(format_heading(Heading("topic", 1)) + format_record(record, 0))

    (moved,) = Replay(path, shift_to=NOON + 60).records()

    assert (moved.value, moved.timestamp) == (b"x", int(NOON * 1000) + 60_000)


@pytest.mark.parametrize(
    ("name", "text", "how", "says"),
    [
        ("a.jsonl", '{"time": 1}\n', {"time_column": "tme"}, "no column 'tme'; did you mean 'time'?"),
        ("a.jsonl", '{"t": 1}\nnope\n', {"time_column": "t"}, "a.jsonl:2: 'nope' is not a JSON object"),
        ("a.jsonl", '{"t": "soon"}\n', {"time_column": "t"}, "a.jsonl:1: 't' is 'soon', which is not a time"),
        ("a.csv", "a,b\n1\n", {}, "a.csv:2: 1 values, and the first line names 2 columns"),
        ("a.csv", "", {}, "a.csv is empty; its first line must name the columns"),
        ("a.csv", "t\n2024-05-01\n", {"time_column": "t", "shift_to": 0.0}, "add --as-json"),
        ("a.jsonl", "{}\n", {"shift_to": 0.0}, "--now needs the time of each record of a.jsonl; give --time-column"),
        ("a.parquet", "PAR", {}, "a.parquet is not a Parquet file"),
        ("a.xls", "x", {}, "a.xls is .xls; a feed replays .csv, .json, .jsonl, .log, .parquet or .txt"),
        ("a.jsonl", '{"penstock": "recording", "version": 9}\n', {}, "of version 9, and this Penstock reads 1"),
        ("a.jsonl", RECORDING + "{}\n", {}, "a.jsonl:2: this line of the recording is damaged"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_replayed_says_where_and_why(tmp_path, name, text, how, says):
    path = write(tmp_path, name, text)

    with pytest.raises(CallError) as error:
        list(Replay(path, **how).records())

    assert says in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CallError, match=r"none\.jsonl cannot be read: no such file or directory"):
        Replay(tmp_path / "none.jsonl").records()
