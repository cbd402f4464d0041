"""A SELECT that is typed while looking: what is let through, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import CallError
from penstock.load import load
from penstock.preview.query import SELECT_NAME, Limits, find_stream, subgraph
from penstock.preview.request import PreviewRequest, resolve, with_select

FILE = """
sources:
  trades: {kafka: {servers: "127.0.0.1:1", topics: [t], records_per_trigger: 50}, json: "Type string, at timestamp"}
  lines: {files: {path: in, format: text}}
steps: {sells: SELECT * FROM trades WHERE Type = 'SELL'}
sinks: {out: {from: sells, console: {}}}
"""


@pytest.fixture
def pipeline(tmp_path: Path):
    file = tmp_path / "trades.yaml"
    file.write_text(FILE)
    return load(file)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM trades",
        "SELECT Type, count(*) AS n FROM Trades GROUP BY Type",
        "WITH a AS (SELECT * FROM sells) SELECT * FROM a",
        "SELECT window(at, '1 minute').start, count(*) FROM trades GROUP BY window(at, '1 minute')",
        "SELECT 'reflect is a word; so is CREATE' AS text FROM trades;",
    ],
)
def test_one_select_over_the_streams_is_let_through(pipeline, text: str):
    assert with_select(pipeline, text).steps[-1].name == SELECT_NAME


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "DROP TABLE trades",
        "CREATE FUNCTION f AS 'x' USING JAR 'x.jar'",
        "ADD JAR 'x.jar'",
        "SET spark.sql.x = 1",
        "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
        "INSERT INTO trades SELECT 1",
        "FROM trades INSERT OVERWRITE TABLE x SELECT *",
        "SELECT * FROM trades; SELECT * FROM sells",
        "SELECT * FROM trades;\n-- x\nDROP TABLE y",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "SELECT reflect('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT `reflect`/**/('java.lang.System', 'getenv') FROM trades",
        "SELECT java_method('java.lang.System', 'exit', 0) FROM trades",
        "SELECT try_reflect('java.lang.System', 'getenv') FROM trades",
        "SELECT * FROM IDENTIFIER('x')",
        "SELECT TRANSFORM(Type) USING 'cat /etc/passwd' FROM trades",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM `text`.`/etc/passwd`",
        "SELECT * FROM trades JOIN json.`secrets.json`",
        "SELECT * FROM jdbc.`postgresql://db`",
        "SELECT * FROM spark_catalog.default.x",
        "SELECT * FROM range(1000000000)",
        "SELECT * FROM read_files('/etc')",
        "SELECT from_protobuf(Type, 'x', '/etc/passwd') FROM trades",
        "SELECT '${spark.driver.host}' FROM trades",
        "SELECT * FROM trdaes",
        "SELECT FROM WHERE",
        "SELECT * FROM trades WHERE " + "a = 1 OR " * 5000 + "true",
    ],
)
def test_everything_else_is_refused_before_spark_sees_it(pipeline, text: str):
    with pytest.raises(CallError) as caught:
        with_select(pipeline, text)

    assert caught.value.exit_code == 2
    assert "; " in str(caught.value)


def test_what_is_refused_is_said_with_what_to_do(pipeline):
    with pytest.raises(CallError) as caught:
        with_select(pipeline, "SELECT *\nFROM trdaes")

    assert (
        str(caught.value) == "SELECT: it reads 'trdaes', which is neither a source nor a step; did you mean 'trades'?"
    )


def test_what_is_looked_at_is_a_step_a_source_a_sinks_rows_or_the_first_sinks(pipeline):
    assert [find_stream(pipeline, name) for name in (None, "out", "sells", "trades")] == [
        "sells",
        "sells",
        "sells",
        "trades",
    ]
    with pytest.raises(CallError, match=r"has no source, step or sink 'sels'; did you mean 'sells'\?"):
        find_stream(pipeline, "sels")


def test_only_what_is_needed_is_read_in_small_batches_and_no_sink_is_left(pipeline):
    needed = subgraph(pipeline, "sells", "earliest", Limits(batch_rows=10))

    (source,) = needed.sources
    assert (source.connector.start, source.connector.records_per_trigger) == ("earliest", 10)
    assert ([step.name for step in needed.steps], needed.sinks) == (["sells"], ())
    assert subgraph(pipeline, "sells", "latest", Limits(batch_rows=99)).sources[0].connector.records_per_trigger == 50


def test_a_file_with_errors_in_what_is_needed_is_refused_without_spark(tmp_path: Path):
    from penstock.errors import CheckError

    file = tmp_path / "bad.yaml"
    file.write_text(FILE.replace("FROM trades WHERE", "FROM nowhere WHERE"))

    with pytest.raises(CheckError, match="nowhere"):
        resolve(PreviewRequest(str(file), "sells"))
    assert resolve(PreviewRequest(str(file), "trades")).name == "trades"


def test_an_error_that_the_file_silences_does_not_refuse_a_preview(tmp_path: Path):
    file = tmp_path / "silenced.yaml"
    comment = "# penstock: allow columns-exist because the table gets it tomorrow"
    text = f"sources:\n  a: {{rate: {{}}}}\nsteps:\n  {comment}\n  b: SELECT nope FROM a\n"
    file.write_text(f"{text}sinks:\n  c: {{from: b, memory: }}\n")

    assert resolve(PreviewRequest(str(file), "b")).name == "b"
