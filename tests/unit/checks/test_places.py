"""Folders and topics do not get into each other's way."""

from __future__ import annotations

import pytest

TEXT = """\
sources:
  a: {{{source}}}
sinks:
  b:
    from: a
    {b}
  c:
    from: a
    {c}
{more}
"""


def text(source="files: {path: in}", b="files: {path: out}", c="console:", more=""):
    return TEXT.format(source=source, b=b, c=c, more=more)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"c": "files: {path: out2}"},
        {"b": "kafka: {servers: x, topic: t}", "c": "kafka: {servers: y, topic: t}"},
        {"source": "files: {path: 'in/*.json'}", "b": "files: {path: in/out}"},
        {"source": "files: {path: in}", "b": "files: {path: input}"},
        {"source": "files: {path: in}", "b": "files: {path: in/_out}"},
        {"source": "files: {path: .}", "b": "console:"},
        {"source": "files: {path: .}", "b": "files: {path: /out}"},
        {"more": "storage: kept"},
        {"more": "spark: {master: 'local[4]'}"},
        {"more": "spark: {master: 'spark://h:7077'}\nstorage: s3a://b/kept"},
        {"more": "spark: {spark.master: yarn}\nstorage: /shared/kept"},
    ],
)
def test_places_that_are_apart_are_fine(findings, given):
    assert findings(text(**given)) == []


def test_a_source_may_read_what_another_stream_writes(findings):
    sources = "sources:\n  a: {rate: }\n  d: {files: {path: mid}}\n"
    sinks = "sinks:\n  b: {from: a, files: {path: mid}}\n  c: {from: d, console: }\n"

    assert findings(sources + sinks) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"c": "files: {path: ./x/../out/}"},
            "a.yaml:9:13: sinks 'b' and 'c' write to the same path, './x/../out/'; give each its own",
        ),
        (
            {"b": "kafka: {servers: x, topic: t}", "c": "kafka: {servers: x, topic: t}"},
            "a.yaml:9:25: warning: sinks 'b' and 'c' write to the same topic, 't'; give each its own",
        ),
        (
            {"b": "files: {path: in/out}"},
            "a.yaml:6:13: sink 'b' writes into the folder that source 'a' reads; write to another folder",
        ),
        (
            {"source": "files: {path: 's3a://b/*'}", "b": "files: {path: 's3a://b/out'}"},
            "a.yaml:6:13: sink 'b' writes into the folder that source 'a' reads; write to another folder",
        ),
        (
            {"source": "files: {path: .}", "b": "files: {path: out}"},
            "a.yaml:6:13: sink 'b' writes into the folder that source 'a' reads; write to another folder",
        ),
        (
            {"more": "storage: in/kept"},
            "a.yaml:10:1: the storage is inside the folder that source 'a' reads; set 'storage' to a folder outside it",
        ),
        (
            {"more": "spark: {master: 'spark://h:7077'}"},
            "a.yaml:10:1: Spark runs on 'spark://h:7077', and no storage is set; "
            "set 'storage' to a URL or an absolute path that all machines share",
        ),
        (
            {"more": "spark: {master: yarn}\nstorage: kept"},
            "a.yaml:11:1: Spark runs on 'yarn', and the storage is 'kept'; "
            "set 'storage' to a URL or an absolute path that all machines share",
        ),
    ],
)
def test_places_that_collide_are_told_at_their_key(findings, given, says):
    assert findings(text(**given)) == [says]
