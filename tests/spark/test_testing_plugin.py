"""pytest collects the same files, and Python pipelines have a bench."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

PIPELINE = "sources: {lines: {socket: {port: 1}}}\nsinks: {out: {from: lines, console: {}}}\n"


def test_pytest_collects_tests_of_files_and_gives_python_tests_a_bench(tmp_path: Path):
    (tmp_path / "copy.yaml").write_text(
        PIPELINE + "tests: [{name: in the file, given: {lines: [[a]]}, expect: {out: [{value: a}]}}]\n"
    )
    (tmp_path / "copy_test.yaml").write_text(
        "tests: [{name: beside the file, given: {lines: [[a]]}, expect: {out: [{value: b}]}}]\n"
    )
    (tmp_path / "other_test.yaml").write_text("tests: [1, 2]\n")
    (tmp_path / "broken.yaml").write_text(PIPELINE + "tests: [{nam: x}]\n")
    (tmp_path / "test_python.py").write_text(
        textwrap.dedent("""\
        from penstock import Pipeline, console, socket


        def test_words_are_counted_for_ever(penstock_bench):
            pipeline = Pipeline("words")
            pipeline.source("lines", socket(port=1))
            counts = pipeline.sql("counts", "SELECT value, count(*) AS n FROM lines GROUP BY value")
            pipeline.sink("out", counts, console(), mode="update")

            bench = penstock_bench(pipeline)
            bench.feed("lines", "a", "b")
            bench.restart()
            bench.crash("after_write")
            bench.feed("lines", "a")

            assert bench.rows("out", 1) == [{"value": "a", "n": 2}]
        """)
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--continue-on-collection-errors"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"^(\S+::.*?) (PASSED|FAILED|ERROR)", done.stdout, re.MULTILINE) == [
        ("copy.yaml::in the file", "PASSED"),
        ("copy_test.yaml::beside the file", "FAILED"),
        ("test_python.py::test_words_are_counted_for_ever", "PASSED"),
    ]
    assert (
        textwrap.dedent("""\
        copy_test.yaml:1:9: beside the file
        sink 'out', in the end: expected 1 row, found 1
          missing    {value: b}
          unexpected {value: a}
        """)
        in done.stdout
    )
    assert "broken.yaml:3:10: test 1 does not know 'nam'; did you mean 'name'?" in done.stdout
    assert "other_test" not in done.stdout
