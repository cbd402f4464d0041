"""What `penstock doctor` finds on this machine."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.java import find_java


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.mark.usefixtures("_no_java")
def test_a_machine_without_java_gets_the_whole_table():
    result = CliRunner().invoke(penstock, ["doctor"])

    marks = {line[5:].split()[0]: line for line in result.stdout.splitlines()}
    assert result.exit_code == 1
    assert {"python", "java", "pyspark", "memory", "disk", "start-up", "dev"} <= set(marks)
    assert marks["java"].startswith("MISS java")
    assert "which has no bin/java; install Java 17" in marks["java"]
    assert marks["start-up"].endswith("unknown without Java")
