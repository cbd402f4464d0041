"""Rows out: files, memory and the console, in every output mode that they can write."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import uuid

import pytest

from penstock.connectors.python import ForeachBatchSink, ForeachSink
from penstock.testing.connectors import SinkSuite

ROWS = [("a", 1), ("a", 2), ("b", 3)]
WORDS = 'files: {path: input, format: csv, schema: "word string, n int", files_per_trigger: 1}'


@pytest.fixture
def words(project):
    """Two files of words, one for each batch."""
    project.put("input/1.csv", "a,1\na,2\n", at=1)
    project.put("input/2.csv", "b,3\n", at=2)
    return project


def copied(sink: str) -> str:
    return f"""
    name: p
    sources:
      rows: {{{WORDS}}}
    sinks:
      out: {{from: rows, {sink}}}
    """


def counted(sink: str) -> str:
    return f"""
    name: p
    sources:
      rows: {{{WORDS}}}
    steps:
      counts: SELECT word, count(*) AS count FROM rows GROUP BY word
    sinks:
      out: {{from: counts, {sink}}}
    """


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "orc", "avro"])
def test_files_of_every_format_are_written(words, format_):
    words.run(copied(f"files: {{path: output, format: {format_}}}"))

    assert words.written("output", format_, "word string, n int") == ROWS
    assert (words.folder / "output" / "_spark_metadata" / "1").exists()


def test_text_files_are_written_from_one_column(words):
    words.run("""
        name: p
        sources:
          rows: {files: {path: input}}
        sinks:
          out: {from: rows, files: {path: output, format: text}}
        """)

    assert words.written("output", "text") == [("a,1",), ("a,2",), ("b,3",)]


def test_columns_become_folders(words):
    words.run(copied("files: {path: output, format: json, partition_by: word}"))

    assert sorted(path.name for path in (words.folder / "output").glob("word=*")) == ["word=a", "word=b"]
    assert words.written("output", "json", "n int, word string") == [(1, "a"), (2, "a"), (3, "b")]


def test_memory_appends_to_a_table_of_the_sinks_name(words):
    words.run(copied("memory: {}").replace("out:", "board:"))

    assert words.rows("board") == ROWS


def test_memory_holds_the_whole_result_in_mode_complete(words):
    words.run(counted("memory: {}, mode: complete"))

    assert words.rows("out") == [("a", 2), ("b", 1)]


def test_closed_windows_are_appended_once(project):
    #  10:00       10:10       10:20       10:30
    #   [--a--a-----)[----b------)[---c------)     5 minutes late: c at 10:26 moves the watermark to 10:21
    project.put("input/1.csv", "2024-01-01 10:01:00,a\n2024-01-01 10:04:00,a\n", at=1)
    project.put("input/2.csv", "2024-01-01 10:12:00,b\n", at=2)
    project.put("input/3.csv", "2024-01-01 10:26:00,c\n", at=3)

    run = project.run("""
        name: p
        sources:
          rows:
            files: {path: input, format: csv, schema: "at timestamp, word string", files_per_trigger: 1}
            watermark: {column: at, delay: 5 minutes}
        steps:
          counts: |
            SELECT date_format(window.start, 'HH:mm') AS start, count(*) AS count
            FROM rows GROUP BY window(at, '10 minutes')
        sinks:
          out: {from: counts, files: {path: output, format: json}}
        """)

    assert project.written("output", "json", "start string, count int") == [("10:00", 2), ("10:10", 1)]
    assert run.progress[-1]["eventTime"]["watermark"] == "2024-01-01T10:21:00.000Z"


CONSOLES = f"""
name: p
sources:
  rows: {{{WORDS}}}
steps:
  counts: SELECT word, count(*) AS count FROM rows GROUP BY word
  ordered: SELECT * FROM counts ORDER BY word
sinks:
  copied: {{from: rows, console: {{rows: 2}}}}
  changed: {{from: counts, console: {{truncate: false}}, mode: update}}
  whole: {{from: ordered, console: {{}}, mode: complete}}
"""
LONG = "a word of more than twenty letters"


def table(*rows: str) -> str:
    """As Spark prints it."""
    line = "".join("+" if letter == "|" else "-" for letter in rows[0])
    return "\n".join([line, rows[0], line, *rows[1:], line])


def test_the_console_prints_rows_cells_and_modes_as_asked_for(project):
    """At most so many rows, long cells cut or whole, and what changed or everything."""
    project.put("input/1.csv", f"{LONG},1\n{LONG},2\n{LONG},3\n", at=1)
    project.put("input/2.csv", "d,4\n", at=2)
    file = project.put("pipeline.yaml", CONSOLES)
    command = [sys.executable, "-m", "penstock", "run", str(file), "--once", "--master", "local[1]"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    tables = [
        table("|                word|  n|", "|a word of more th...|  1|", "|a word of more th...|  2|")
        + "\nonly showing top 2 rows",
        table("|word|  n|", "|   d|  4|"),
        table(f"|{'word':34}|count|", f"|{LONG}|3    |"),
        table("|word|count|", "|d   |1    |"),
        table("|                word|count|", "|a word of more th...|    3|"),
        table("|                word|count|", "|a word of more th...|    3|", "|                   d|    1|"),
    ]
    assert {each: done.stdout.count(each) for each in tables} == dict.fromkeys(tables, 1)
    # The three print at the same time, but a table is never torn; and nobody else prints.
    headers = [line for number in (0, 1) for line in ("-" * 43, f"Batch: {number}", "-" * 43)] * 3
    assert sorted(filter(None, done.stdout.splitlines())) == sorted([*headers, *"\n".join(tables).splitlines()])


# The suite of sinks does not know two of them: what `console` writes is gone with the terminal, and `memory` cannot be
# one of several targets.


class _PythonSuite(SinkSuite):
    """A sink with a module of the user's, which writes to the folder of the test."""

    has_columns = False
    code = ""

    @pytest.fixture(autouse=True)
    def _module(self, tmp_path, monkeypatch):
        self.module = f"user_{uuid.uuid4().hex[:12]}"
        self.out = tmp_path / "out"
        self.out.mkdir()
        (tmp_path / f"{self.module}.py").write_text(f"OUT = {str(self.out)!r}\n" + textwrap.dedent(self.code))
        monkeypatch.syspath_prepend(tmp_path)

    def written(self, sink):  # noqa: ARG002
        lines = [json.loads(line) for file in self.out.iterdir() for line in file.read_text().splitlines()]
        return [(line["id"], line["name"], line["amount"]) for line in lines]


class TestForeachBatch(_PythonSuite):
    """A function that can be called twice with the same batch: a file for each row."""

    code = """
        import json, pathlib

        def write(rows, number):
            for row in rows.collect():
                pathlib.Path(OUT, str(row.id)).write_text(json.dumps(row.asDict()))
        """

    def sink(self, place):  # noqa: ARG002
        return ForeachBatchSink(python=f"{self.module}:write")


class TestForeach(_PythonSuite):
    code = """
        import json, os, pathlib, uuid

        class Writer:
            def open(self, partition, batch):
                self.file = pathlib.Path(OUT, uuid.uuid4().hex).open("w")
                return True

            def process(self, row):
                self.file.write(json.dumps(row.asDict()) + "\\n")

            def close(self, error):
                self.file.close()
        """

    def sink(self, place):  # noqa: ARG002
        return ForeachSink(python=f"{self.module}:Writer")
