"""The fingerprint: the same for what makes no difference to the queries, another one for what does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.load import load
from penstock.model import fingerprint

TEXT = """
name: p
sources:
  events:
    kafka:
      servers: "localhost:9092"
      topics: [events]
      sasl: {mechanism: scram-sha-256, user: app, password: "${env:PASSWORD}", plaintext: true}
    json: "id int, amount double"
  ticks: {rate: {rows_per_second: 5}}
steps:
  large: SELECT id, amount FROM events WHERE amount > 10
sinks:
  out: {from: large, files: {path: lake, format: json}, trigger: 10 seconds}
  seen: {from: ticks, console: {}}
"""


@pytest.fixture
def print_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The fingerprint of a text, loaded from one and the same file."""

    def fingerprint_of(text: str, password: str = "one") -> str:
        monkeypatch.setenv("PASSWORD", password)
        file = tmp_path / "p.yaml"
        file.write_text(text)
        return fingerprint(load(file))

    return fingerprint_of


def test_comments_and_blank_lines_make_no_difference(print_of):
    changed = "# first\n\n" + TEXT.replace("steps:", "\n# the steps\nsteps:")

    assert print_of(changed) == print_of(TEXT)


def test_the_order_of_keys_makes_no_difference(print_of):
    changed = TEXT.replace(
        '      servers: "localhost:9092"\n      topics: [events]\n',
        '      topics: [events]\n      servers: "localhost:9092"\n',
    ).replace("path: lake, format: json", "format: json, path: lake")

    assert changed != TEXT
    assert print_of(changed) == print_of(TEXT)


def test_another_value_of_a_secret_makes_no_difference(print_of):
    assert print_of(TEXT, password="one") == print_of(TEXT, password="two")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("amount > 10", "amount > 11"),
        ("format: json}", "format: parquet}"),
        ("rows_per_second: 5", "rows_per_second: 6"),
        ("trigger: 10 seconds", "trigger: 20 seconds"),
        ("topics: [events]", "topics: [events, more]"),
        ('json: "id int, amount double"', 'json: "id long, amount double"'),
        ("name: p", "name: q"),
        ("seen: {from: ticks", "shown: {from: ticks"),
        ("console: {}", "console: {rows: 3}"),
        ("mechanism: scram-sha-256", "mechanism: scram-sha-512"),
    ],
    ids=["sql", "option", "source option", "trigger", "topics", "schema", "name", "sink name", "default", "security"],
)
def test_what_the_queries_do_makes_a_difference(print_of, old: str, new: str):
    assert TEXT.count(old) == 1

    assert print_of(TEXT.replace(old, new)) != print_of(TEXT)


def test_it_is_the_same_in_every_process(print_of, tmp_path: Path):
    """Sets have another order in a process with another hash seed."""
    here = print_of(TEXT)
    program = "import sys; from penstock.load import load; from penstock.model import fingerprint; "
    program += "print(fingerprint(load(sys.argv[1])))"

    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "p.yaml")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here
