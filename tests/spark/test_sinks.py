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


def printed(project, text: str) -> str:
    """What `penstock run --once` prints."""
    file = project.put("pipeline.yaml", text)
    command = [sys.executable, "-m", "penstock", "run", str(file), "--once", "--master", "local[1]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_console_prints_each_batch_with_as_many_rows_as_asked_for_and_long_cells_cut(project):
    project.put("input/1.csv", "a word of more than twenty letters,1\nb,2\nc,3\n", at=1)
    project.put("input/2.csv", "d,4\n", at=2)

    shown = printed(project, copied("console: {rows: 2}"))

    assert shown.strip().splitlines() == [
        *["-" * 43, "Batch: 0", "-" * 43],
        *["+--------------------+---+", "|                word|  n|", "+--------------------+---+"],
        *["|a word of more th...|  1|", "|                   b|  2|", "+--------------------+---+"],
        "only showing top 2 rows",
        *["-" * 43, "Batch: 1", "-" * 43],
        *["+----+---+", "|word|  n|", "+----+---+", "|   d|  4|", "+----+---+"],
    ]


def test_the_console_prints_changed_rows_in_mode_update_and_all_in_mode_complete(words):
    whole = "\n      whole: {from: counts, console: {}, mode: complete}\n    "

    shown = printed(words, counted("console: {truncate: false}, mode: update").rstrip() + whole)

    changed = "|word|count|\n+----+-----+\n|b   |1    |\n+----+-----+\n"
    whole = "|word|count|\n+----+-----+\n|   a|    2|\n|   b|    1|\n+----+-----+\n"
    assert shown.count(changed) == 1
    assert shown.count(whole) == 1


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
