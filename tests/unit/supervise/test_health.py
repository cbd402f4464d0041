from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from penstock.errors import CallError
from penstock.services.kafka import free_port
from penstock.supervise.health import page, serving
from penstock.supervise.loop import State


def test_a_declared_query_that_is_not_active_makes_it_not_ready():
    state = State("p", ("a", "b"), phase="running", queries={"a": {"active": True}, "b": {"active": True}})
    assert page(state, "/ready")[0] == 200

    state.queries["b"] = {"active": False}
    status, facts = page(state, "/ready")

    assert (status, facts["queries"]) == (503, {"a": True, "b": False})
    assert page(state, "/health")[0] == 200
    assert page(state, "/other")[0] == 404


def test_it_is_served_on_loopback_and_a_port_that_is_taken_is_the_calls_fault():
    port = free_port()
    with serving(State("p", ("a",)), "127.0.0.1", port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            assert json.load(answer)["phase"] == "starting"
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5)
        with pytest.raises(CallError, match="cannot be served"), serving(State("p", ()), "127.0.0.1", port):
            pass
