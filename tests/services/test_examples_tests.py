"""Every example's own tests pass."""

from __future__ import annotations

import subprocess
import sys

from tests.services.command import EXAMPLES

from penstock.cli.test import run_suites
from penstock.testing import discover


def test_the_tests_of_every_example_pass(spark, monkeypatch):
    subprocess.run([sys.executable, EXAMPLES / "recommend" / "train.py"], check=True, capture_output=True)
    connection = "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=b=;EntityPath=orders"
    monkeypatch.setenv("EVENTHUBS_CONNECTION", connection)
    monkeypatch.setenv("KAFKA_PASSWORD", "not-a-real-one")

    suites = discover([EXAMPLES])
    results = run_suites(suites, spark, lambda _: None)

    assert [finding for suite in suites for finding in suite.findings] == []
    assert [outcome.text for outcome in results if not outcome.passed] == []
    assert len(results) == sum(len(suite.cases) for suite in suites) >= 25
