"""A cause comes before what follows from it, and what follows only from it is left out."""

from __future__ import annotations

from penstock.checks import check
from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml

SOURCES = "sources:\n  ticks: {rate: {}}\n"


def found(text: str) -> list[tuple[str, int]]:
    return [(finding.rule, finding.at.line) for finding in check(to_pipeline(parse_yaml(text, "a.yaml")))]


def test_an_error_of_a_step_comes_before_those_of_what_reads_it():
    text = "steps:\n  c: SELECT y FROM b\n  b: SELECT value, x FROM a\n  a: SELECT value, nope FROM ticks\n"
    text += f"sinks:\n  out: {{from: c, memory: {{}}}}\n{SOURCES}"

    assert found(text) == [("columns-exist", 4), ("columns-exist", 3), ("columns-exist", 2)]


def test_errors_that_do_not_follow_from_each_other_are_in_file_order():
    text = "steps:\n  b: SELECT x FROM ticks\n  a: SELECT y FROM ticks\n"
    text += f"sinks:\n  one: {{from: a, memory: {{}}}}\n  two: {{from: b, memory: {{}}}}\n{SOURCES}"

    assert found(text) == [("columns-exist", 2), ("columns-exist", 3)]


def test_an_error_of_a_sink_comes_after_that_of_its_step():
    text = "sinks:\n  out: {from: a, files: {path: out}, mode: update}\nsteps:\n  a: SELECT nope FROM ticks\n" + SOURCES

    assert found(text) == [("columns-exist", 4), ("mode-fits-sink", 2)]


def test_what_follows_from_a_misspelled_name_comes_after_it():
    text = "sinks:\n  out: {from: named, memory: {}}\n" + SOURCES
    text += "  names: {files: {path: names, format: json, schema: value int}, static: true}\n"
    text += "steps:\n  named: SELECT * FROM names JOIN tick USING (value)\n"

    assert found(text) == [("names-exist", 7), ("sinks-read-streams", 2)]


def test_the_stream_that_a_misspelled_name_means_is_not_reported_as_unused():
    text = f"{SOURCES}steps:\n  even: SELECT * FROM ticks\nsinks:\n  out: {{from: evn, memory: {{}}}}\n"

    assert found(text) == [("names-exist", 6)]


def test_a_stream_that_no_name_means_is_still_reported_as_unused():
    text = f"{SOURCES}  other: {{rate: {{}}}}\nsinks:\n  out: {{from: tick, memory: {{}}}}\n"

    assert found(text) == [("everything-is-read", 3), ("names-exist", 5)]


def test_nothing_is_unused_while_the_sql_of_a_step_cannot_be_read():
    text = f"{SOURCES}steps:\n  a: SELECT value FROM ticks WHERE 'x\nsinks:\n  out: {{from: a, memory: {{}}}}\n"

    assert found(text) == [("sql-is-understood", 4)]


def test_steps_in_a_cycle_are_in_file_order():
    text = f"{SOURCES}steps:\n  a: SELECT * FROM b\n  b: SELECT * FROM a\nsinks:\n  out: {{from: b, memory: {{}}}}\n"

    assert [rule for rule, _ in found(text)] == ["everything-is-read", "no-cycle"]
