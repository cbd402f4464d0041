from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from tests.unit.page.requests import raw

from penstock.errors import CallError
from penstock.services.kafka import free_port
from penstock.supervise.health import page, refuse_host, serving
from penstock.supervise.supervisor import State


def test_a_declared_query_that_is_not_active_makes_it_not_ready():
    state = State("p", ("a", "b"), phase="running", queries={"a": {"active": True}, "b": {"active": True}})
    assert page(state, "/ready")[0] == 200

    state.queries["b"] = {"active": False}
    status, facts = page(state, "/ready")

    assert (status, facts["queries"]) == (503, {"a": True, "b": False})
    assert page(state, "/health")[0] == 200
    assert page(state, "/other")[0] == 404


def test_a_stalled_query_is_named_with_its_reason():
    facts = {"active": True, "busy_seconds": 40.0, "stalled": "the broker does not answer"}
    state = State("p", ("a",), phase="running", queries={"a": facts})

    assert page(state, "/health")[1]["stalled"] == {"a": "the broker does not answer"}


def test_it_is_served_on_loopback_and_a_port_that_is_taken_is_the_calls_fault():
    port = free_port()
    with serving(State("p", ("a",)), "127.0.0.1", port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            assert json.load(answer)["phase"] == "starting"
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
        with pytest.raises(CallError, match="cannot be served"), serving(State("p", ()), "127.0.0.1", port):
            pass


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8085", None),
        ("127.0.0.1:8085", None),
        ("[::1]:8085", None),
        ("10.0.0.7:8085", None),
        ("10.0.0.7", None),
        ("probe.example:8085", None),
        ("PROBE.example", None),
        ("evil.com:8085", 403),
        ("127.0.0.1.evil.com", 403),
        ("localhost.evil.com:8085", 403),
        ("user@127.0.0.1", 403),
        ("[evil]:80", 403),
        ("", 403),
    ],
)
def test_a_foreign_host_is_refused_and_an_address_or_a_declared_name_is_not(host: str, status: int | None):
    answer = refuse_host([host], ("0.0.0.0", "probe.example"))

    assert (answer and answer[0]) == status


def test_a_request_needs_exactly_one_host():
    with serving(State("p", ("a",)), "127.0.0.1", port := free_port()):
        assert raw(port, b"GET /health HTTP/1.0\r\n\r\n").status == 400
        assert raw(port, b"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n").status == 400
        assert raw(port, b"GET /health HTTP/1.1\r\nHost: evil.com\r\n\r\n").status == 403
        assert raw(port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").status == 200
