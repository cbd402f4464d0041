"""Tables beside the streams: joined, and read again when the file says so."""

from __future__ import annotations

import threading

import pytest

PIPELINE = """
name: logins
sources:
  logins: {{files: {{path: logins, format: json, schema: "who string, n int", files_per_trigger: 1}}}}
  users:
    files: {{path: users, format: csv, schema: "who string, city string"}}
    static: {static}
steps:
  named: SELECT n, who, city FROM logins {join} JOIN users USING (who)
sinks:
  named_{name}: {{from: named, files: {{path: out, format: json}}}}
"""


def pipeline(project, static: str, join: str = "LEFT"):
    name = "".join(letter for letter in f"{static}{join}" if letter.isalpha())
    return project.load(PIPELINE.format(static=static, join=join, name=name))


def found(project) -> list[tuple]:
    return project.written("out", "json", "n int, who string, city string")


def test_a_stream_is_joined_with_the_files_that_are_there(project):
    project.put("users/1.csv", "ann,Rome\nbob,Oslo\n")
    project.put("logins/1.json", '{"who": "ann", "n": 1}\n{"who": "eve", "n": 2}\n')

    project.run_once(pipeline(project, "true", "INNER"))

    assert found(project) == [(1, "ann", "Rome")]


def test_an_outer_join_keeps_who_is_not_in_the_table(project):
    project.put("users/1.csv", "ann,Rome\n")
    project.put("logins/1.json", '{"who": "ann", "n": 1}\n{"who": "eve", "n": 2}\n')

    project.run_once(pipeline(project, "true"))

    assert found(project) == [(1, "ann", "Rome"), (2, "eve", None)]


def run_over_a_change(project, static: str, *, wait_for_refresh: bool) -> list[tuple]:
    """One login, then the table changes, then another login."""
    from penstock.engine import start

    project.put("users/1.csv", "ann,Rome\n", at=1)
    project.put("logins/1.json", '{"who": "ann", "n": 1}\n', at=1)
    refreshed = threading.Event()
    queries = start(pipeline(project, static), project.spark, emit=lambda _what, **_facts: refreshed.set())
    try:
        next(iter(queries)).processAllAvailable()
        project.put("users/1.csv", "ann,Paris\n", at=2)
        project.put("users/2.csv", "eve,Cairo\n", at=2)
        refreshed.clear()
        if wait_for_refresh:
            assert refreshed.wait(30), "the table was not read again"
        project.put("logins/2.json", '{"who": "ann", "n": 2}\n{"who": "eve", "n": 3}\n', at=2)
        next(iter(queries)).processAllAvailable()
    finally:
        queries.stop()
    return found(project)


@pytest.mark.parametrize("static", ["{refresh: on change}", "{refresh: 1 second}"])
def test_a_table_that_is_due_is_read_again(project, static):
    rows = run_over_a_change(project, static, wait_for_refresh=True)

    assert rows == [(1, "ann", "Rome"), (2, "ann", "Paris"), (3, "eve", "Cairo")]


def test_a_table_that_is_never_refreshed_stays_as_it_was(project):
    rows = run_over_a_change(project, "true", wait_for_refresh=False)

    assert rows == [(1, "ann", "Rome"), (2, "ann", "Rome"), (3, "eve", None)]
