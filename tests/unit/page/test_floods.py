"""500 slow and 500 malformed requests: nothing on stderr, and the server answers afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.unit.page.floods import COUNT, connect, malformed_requests, send, server, slow_requests

PAGE = """
import sys
from penstock.page import server
server._REQUEST_TIMEOUT_SECONDS = 0.3
with server.serve("storage") as page:
    print(page.address.rsplit(":")[-1], flush=True)
    sys.stdin.read()
"""
HEALTH = """
import sys
from penstock.services.kafka import free_port
from penstock.supervise import health
from penstock.supervise.supervisor import State
health._TIMEOUT_SECONDS = 0.3
port = free_port()
with health.serving(State("p", ()), "127.0.0.1", port):
    print(port, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("code", "path"), [(PAGE, "/"), (HEALTH, "/health")], ids=["page", "health"])
def test_1000_bad_requests_leave_stderr_empty_and_the_server_answering(code: str, path: str, tmp_path: Path):
    with server(code, tmp_path) as attacked:
        with ThreadPoolExecutor() as pool:
            attacks = [pool.submit(attack, attacked.port) for attack in (slow_requests, malformed_requests)]
        for attack in attacks:
            attack.result()

        assert attacked.get(path).status == 200
        assert attacked.stop() == ""


@pytest.mark.parametrize(("code", "path"), [(PAGE, "/"), (HEALTH, "/health")], ids=["page", "health"])
def test_an_ordinary_request_is_answered_while_500_slow_ones_are_held_open(code: str, path: str, tmp_path: Path):
    with server(code.replace("_SECONDS = 0.3", "_SECONDS = 600.0"), tmp_path) as attacked, ExitStack() as stack:
        for _ in range(COUNT):
            send(stack.enter_context(connect(attacked.port)), b"GET / HT")

        assert attacked.get(path).status == 200
        assert attacked.errors.read_text() == ""
