"""Schemas can be read, and watermarks are on their columns."""

from __future__ import annotations

import pytest

KAFKA = "kafka: {servers: x, topics: [t]}"


def source(text: str) -> str:
    return f"sources:\n  a:\n    {text}\nsinks: {{b: {{from: a, console: }}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{KAFKA}\n    json: at timestamp, n int",
        f"{KAFKA}\n    json: At timestamp\n    watermark: {{column: at, delay: 1 minute}}",
        f"{KAFKA}\n    watermark: {{column: timestamp, delay: 1 minute}}",
        f"{KAFKA}\n    avro: '\"int\"'\n    watermark: {{column: x, delay: 1 minute}}",
        "files: {path: in, format: json, schema: at timestamp}\n    watermark: {column: at, delay: 1 minute}",
    ],
)
def test_what_fits_is_fine(findings, text):
    assert findings(source(text)) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"{KAFKA}\n    json: at timestmp",
            "a.yaml:4:5: source 'a': 'json' cannot be read: 'timestmp' is not a Spark type; did you mean 'timestamp'?",
        ),
        (
            f"{KAFKA}\n    json: n int\n    key: {{csv: n}}",
            "a.yaml:5:11: source 'a': 'csv' cannot be read: column 'n' has no type; write 'n string'",
        ),
        (
            "kafka: {servers: 'h:1', topics: [a]}\n    json: '/* later */'",
            "a.yaml:4:5: source 'a': 'json' declares no columns; write 'name type, name type'",
        ),
        (
            "files: {path: in, format: json,\n      schema: n itn}",
            "a.yaml:4:7: source 'a': 'schema' cannot be read: 'itn' is not a Spark type; did you mean 'int'?",
        ),
        (
            f"{KAFKA}\n    json: at timestamp\n    watermark:\n      column: att\n      delay: 1 minute",
            "a.yaml:6:7: source 'a': the watermark's column 'att' is not declared; did you mean 'at'?",
        ),
        (
            f"{KAFKA}\n    json: n int\n    metadata: true\n    watermark: {{column: timestamp, delay: 1 minute}}",
            "a.yaml:6:17: source 'a': the watermark's column 'timestamp' is not declared; use _record or n",
        ),
        (
            f"{KAFKA}\n    json: at timestamp_ntz\n    watermark: {{column: at, delay: 1 minute}}",
            "a.yaml:5:17: source 'a': the watermark's column 'at' is timestamp_ntz, which has no time zone; "
            "declare 'at timestamp'",
        ),
        (
            f"{KAFKA}\n    json: at string\n    watermark: {{column: at, delay: 1 minute}}",
            "a.yaml:5:17: source 'a': the watermark's column 'at' is string, not a time; declare 'at timestamp'",
        ),
        (
            "rate:\n    json: n int",
            "a.yaml:4:5: source 'a': rate rows have columns already, there is nothing to decode; remove 'json'",
        ),
        (
            "files: {path: in, format: json, schema: n int}\n    value: string",
            "a.yaml:4:5: source 'a' has its columns from 'files' and from 'value'; remove 'value'",
        ),
    ],
)
def test_what_does_not_fit_is_told_at_its_key(findings, text, says):
    assert findings(source(text)) == [says]


def test_a_source_that_forgets_is_a_warning(findings):
    assert findings(source("socket: {port: 9999}")) == [
        "a.yaml:2:3: warning: source 'a' (socket) is not replayable: lines that were read and not yet written are lost "
        "in a crash; fine for trying out; put Kafka or files in front for anything else"
    ]
