"""What `check --deep` says is what Spark says when a query starts, and no broker is asked for it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from penstock.checks import check
from penstock.engine.deep_check import check_in
from penstock.load import load

SOURCES = """
    sources:
      events:
        kafka: {servers: "nowhere.invalid:9092", topics: [events]}
        json: at timestamp, id bigint, kind string
        watermark: {column: at, delay: 10 minutes}
      others:
        kafka: {servers: "nowhere.invalid:9092", topics: [others]}
        json: at timestamp, id bigint, kind string
      names: {cassandra: {table: shop.names, schema: "id bigint, name string"}, static: true}
"""


@pytest.fixture
def deep(spark, tmp_path):
    def found(text: str, sources: str = SOURCES, *, accepted: bool = True) -> list[str]:
        file = tmp_path / "p.yaml"
        (tmp_path / "hub").write_text(
            "Endpoint=sb://nowhere.invalid/;SharedAccessKeyName=a;SharedAccessKey=b;EntityPath=h"
        )
        file.write_text(textwrap.dedent(sources) + textwrap.dedent(text))
        pipeline = load(file)
        # Most of what Spark refuses is refused without it as well.
        assert any(each.severity == "error" for each in check(pipeline)) is not accepted
        (tmp_path / "empty").mkdir(exist_ok=True)
        findings = check_in(spark.newSession(), pipeline, tmp_path / "empty")
        return [str(each).replace(f"{tmp_path}/", "") for each in findings]

    return found


@pytest.mark.parametrize(
    ("sql", "mode", "says"),
    [
        ("SELECT id, sum(id) OVER (PARTITION BY kind ORDER BY at) AS n FROM events", "append", "OVER"),
        ("SELECT * FROM events ORDER BY at", "append", "it sorts a stream"),
        (
            "SELECT events.at, others.kind FROM events LEFT JOIN others ON events.id = others.id",
            "append",
            "never knows that a row has no match",
        ),
        (
            "SELECT n, count(*) FROM (SELECT id, count(*) AS n FROM events GROUP BY id) GROUP BY n",
            "update",
            "keeps state over the result of other state",
        ),
        ("SELECT * FROM events LIMIT 5", "update", "LIMIT in mode update"),
    ],
)
def test_what_spark_refuses_on_a_stream_is_found_at_the_line_of_its_step(deep, sql, mode, says):
    text = f"""
        steps:
          first: SELECT * FROM events
          wrong: {sql}
          after: SELECT * FROM wrong
        sinks:
          out: {{from: after, console: {{}}, mode: {mode}}}
          raw: {{from: first, console: {{}}}}
    """

    (finding,) = deep(text, accepted=False)

    # Only some of Spark's refusals name a place in the query.
    column = 10 if says == "OVER" else 3
    assert finding.startswith(f"p.yaml:14:{column}: step 'wrong' for sink 'out' (mode {mode}): ")
    assert says in finding


def test_every_refusal_is_found_at_once_and_what_follows_from_one_is_not(deep):
    text = """
        steps:
          missing: SELECT price FROM events
          after: SELECT * FROM missing
          typed: |
            SELECT id,
              to_date(array(1)) AS day
            FROM events
          named: SELECT events.*, names.name FROM events JOIN names ON events.id = names.id
          sorted: SELECT * FROM others SORT BY id
        sinks:
          a: {from: after, console: {}}
          b: {from: typed, console: {}}
          c: {from: named, kafka: {servers: "nowhere.invalid:9092", topic: out, key: nmae}}
          d: {from: sorted, console: {}}
          e: {from: named, files: {path: out, format: text}}
          f: {from: others, jdbc: {url: "jdbc:postgresql://nowhere.invalid/x", table: t, key: [idd]}}
    """

    found = deep(text, accepted=False)

    refused = [finding[: finding.index(": ", len("p.yaml:10:10: "))] for finding in found]
    assert refused == [
        "p.yaml:13:19: step 'missing'",
        "p.yaml:17:7: step 'typed'",
        "p.yaml:20:3: step 'sorted' for sink 'd' (mode append)",
        "p.yaml:24:20: sink 'c'",
        "p.yaml:26:20: sink 'e'",
        "p.yaml:27:21: sink 'f'",
    ]
    assert found[3].endswith("'key' names 'nmae', which the rows do not have; did you mean 'name'?")


def test_a_pipeline_that_spark_takes_has_no_findings(deep, monkeypatch):
    hub = "Endpoint=sb://hub.invalid/;SharedAccessKeyName=a;SharedAccessKey=b;EntityPath=h"
    monkeypatch.setenv("HUB", hub)
    text = """
        steps:
          named: SELECT lines.*, name FROM lines JOIN names ON lines.n = names.id
          counts: SELECT window.start, name, count(*) AS n FROM named GROUP BY window(at, '5 minutes'), name
          ordered: SELECT name, count(*) AS n FROM named GROUP BY name ORDER BY n DESC
        sinks:
          board: {from: counts, cassandra: {table: shop.board}, mode: update}
          top: {from: ordered, console: {}, mode: complete}
          files:
            from: lines
            to: [{files: {path: out}, select: "n, at", where: n > 1}, {foreach_batch: {python: "json:dumps"}}]
          events: {from: hub, eventhubs: {connection: "${HUB}"}, trigger: real-time 5 seconds, mode: update}
    """
    sources = """
        sources:
          lines:
            files: {path: a, format: avro, schema: "n bigint, at timestamp", after_read: archive, archive_to: done}
            watermark: {column: AT, delay: 1 minute}
            metadata: true
          names: {files: {path: names, format: csv, schema: "id bigint, name string"}, static: true}
          hub: {eventhubs: {connection: "${HUB}"}}
    """

    assert deep(text, sources) == []


def test_a_comment_silences_a_finding_of_the_deep_check(tmp_path):
    file = tmp_path / "lake.yaml"
    text = "sources:\n  lake: {delta: {path: /lake}} # penstock: allow columns-are-known because the lake is far away\n"
    file.write_text(text + "sinks:\n  out: {from: lake, memory: {}}\n")
    command = [sys.executable, "-m", "penstock", "check", "--deep", "--strict", str(file)]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "lake: 1 source, 0 steps, 1 sink: no errors found, 1 finding silenced\n"


def test_columns_that_only_the_outside_system_knows_are_a_warning(deep):
    text = """
        steps:
          joined: SELECT no_such_column FROM table JOIN names ON table.id = names.id
        sinks:
          out: {from: joined, console: {}}
    """
    sources = """
        sources:
          table: {delta: {path: lake/table}}
          names: {jdbc: {url: "jdbc:postgresql://nowhere.invalid/x", table: names}, static: true}
          rows: {files: {path: missing, format: json, infer: true}}
    """

    assert deep(text, sources) == [
        "p.yaml:3:3: warning: source 'table': only the delta system itself knows the columns, so what reads it was not "
        "checked with Spark; test it with 'penstock test', or start it",
        "p.yaml:4:3: warning: source 'names': only the jdbc system itself knows the columns, so what reads it was not "
        "checked with Spark; test it with 'penstock test', or start it",
        "p.yaml:5:3: warning: source 'rows': its columns could not be taken from missing, so what reads it was not "
        "checked with Spark; test it with 'penstock test', or start it",
    ]
