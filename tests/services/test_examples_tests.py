"""Every example's own tests pass, as its README says to run them."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.services.command import EXAMPLES, penstock


def test_the_tests_of_every_example_pass(tmp_path):
    subprocess.run([sys.executable, EXAMPLES / "recommend" / "train.py"], check=True, capture_output=True)

    connection = "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=b=;EntityPath=orders"
    ran = penstock("test", EXAMPLES, folder=tmp_path, KAFKA_PASSWORD="not-a-real-one", EVENTHUBS_CONNECTION=connection)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.search(r"(\d+) tests: (\d+) passed, 0 failed", ran.stdout + ran.stderr)
    assert found, ran.stdout + ran.stderr
    assert int(found.group(2)) >= 15
