"""penstock preview, sql and page as a user has them: processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.services.command import penstock, started, until

PIPELINE = """
name: numbers
sources:
  ticks: {rate: {rows_per_second: 20}}
  lines: {files: {path: in, format: json, schema: "word string, n int"}}
steps: {even: SELECT value FROM ticks WHERE value % 2 = 0}
sinks:
  out: {from: even, files: {path: out, format: json}}
  all: {from: lines, console: {}}
"""


def project(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "in" / "1.json").write_text('{"word": "a\\u001b[31m", "n": 1}\n{"word": "b", "n": 2}\n')
    (folder / "numbers.yaml").write_text(PIPELINE)
    return folder


def test_preview_shows_rows_as_lines_and_runs_no_sink(tmp_path: Path):
    shown = penstock("preview", "numbers.yaml", "lines", "--rows", "2", folder=project(tmp_path))

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == ["word    n", "a [31m  1", "b       2"]
    assert "ended: 2 rows were shown" in shown.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".penstock").exists()


def test_sql_shows_a_running_aggregate_and_ends_with_ctrl_c(tmp_path: Path):
    asked = ("sql", "numbers.yaml", "SELECT value % 2 AS odd, count(*) AS n FROM ticks GROUP BY 1 ORDER BY 1", "--json")
    with started(*asked, folder=project(tmp_path)) as running:
        until(lambda: '"rows": [[0, ' in running.printed, "a count")
        os.kill(running.process.pid, signal.SIGINT)
        assert running.process.wait(60) == 0

    columns, *rows, end = [json.loads(line) for line in running.printed.splitlines()]
    assert ([each["name"] for each in columns["columns"]], columns["mode"]) == (["odd", "n"], "complete")
    assert all(each["replaces"] for each in rows)
    assert end == {"what": "end", "why": "stopped"}


def test_a_statement_that_is_no_select_is_the_calls_fault(tmp_path: Path):
    refused = penstock("sql", "numbers.yaml", "DROP TABLE ticks", folder=project(tmp_path))

    assert refused.returncode == 2
    assert "starts with 'DROP', and a step is one SELECT; remove the statement" in refused.stderr


def test_a_look_of_the_page_ends_when_the_page_is_gone(tmp_path: Path):
    project(tmp_path)
    look = subprocess.Popen(
        [sys.executable, "-m", "penstock.page.explorer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert look.stdin is not None
    assert look.stdout is not None
    look.stdin.write(json.dumps({"file": str(tmp_path / "numbers.yaml"), "step": "even"}) + "\n")
    look.stdin.flush()
    said = json.loads(look.stdout.readline())
    while said["what"] != "rows":
        said = json.loads(look.stdout.readline())

    look.stdin.close()

    assert [json.loads(line) for line in look.stdout][-1] == {"what": "end", "why": "stopped"}
    assert look.wait(60) == 0


def test_the_page_of_a_storage_is_served_until_it_is_told_to_end(tmp_path: Path):
    (tmp_path / ".penstock" / "numbers" / "events").mkdir(parents=True)
    with started("page", "--port", "0", folder=tmp_path) as running:
        until(lambda: running.printed.endswith("\n"), "the address")
        address, _, file = running.printed.strip().removesuffix(")").partition("/ (the token is in ")
        token = Path(file).read_text()
        request = urllib.request.Request(f"{address}/metrics", headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert 'penstock_pipeline_up{pipeline="numbers"} 0' in answer.read().decode()
        running.process.terminate()
        assert running.process.wait(30) == 0
    assert token not in running.said + running.printed


def test_another_address_needs_tls_and_a_port_that_is_taken_is_said(tmp_path: Path):
    (tmp_path / ".penstock").mkdir()

    open_page = penstock("page", "--host", "0.0.0.0", folder=tmp_path)

    assert open_page.returncode == 2
    assert "would send its token over the network in plain text; give --cert and --key" in open_page.stderr
