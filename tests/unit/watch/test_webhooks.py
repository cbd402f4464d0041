"""Events posted to a real HTTP server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.unit.watch.reports import event, progress

from penstock.events import EventLog
from penstock.model import Location, Webhook
from penstock.options import Secret
from penstock.watch.webhooks import Sender, post_events

AT = Location("trades.yaml", 9)
FAILED = event("failed", "10:00:00", reason="no space")


class Hook:
    """A server that gives the listed answers and keeps what it receives."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.received: list[object] = []
        self.arrived = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                code = outer.answers.pop(0) if outer.answers else 200
                if code == 200:
                    outer.received.append(json.loads(body))
                    outer.arrived.set()
                self.send_response(code)
                if code == 302:
                    self.send_header("location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        # It looks this often whether it is to end.
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sender(hook: Hook, printed: list[str], **more) -> Sender:
    return Sender(Webhook(hook.url, AT, **more), "trades", printed.append, pause=lambda _: False)


def test_the_events_asked_for_are_posted_as_json(hook: Hook):
    made = sender(hook, [], events=("failed",))
    for each in (FAILED, event("started", "10:01:00")):
        made.enqueue(each)
    made.send()

    assert hook.received == [[{"pipeline": "trades", **FAILED}]]


def test_by_default_failures_are_posted_and_batches_are_not(hook: Hook):
    made = sender(hook, [])
    for each in (FAILED, event("batch", "10:00:01", progress=progress()), event("stopped", "10:00:02")):
        made.enqueue(each)
    made.send()

    assert [[each["what"] for each in body] for body in hook.received] == [["failed"]]


def test_slack_gets_a_text_and_power_bi_gets_flat_rows(hook: Hook):
    slack = sender(hook, [], body="slack")
    slack.enqueue(FAILED)
    slack.send()
    rows = sender(hook, [], body="rows", events=("batch", "failed"))
    for each in (event("batch", "10:00:01", progress=progress(3)), FAILED):
        rows.enqueue(each)
    rows.send()

    text, (batch, failed) = hook.received
    assert text == {"text": "trades: failed: no space"}
    assert (batch["sink"], batch["batch"], batch["rows_in"], batch["bad_records"]) == ("board", 3, 500, 2)
    assert failed["says"] == "failed: no space"
    assert not any(isinstance(value, dict | list) for value in batch.values())


def test_a_server_that_fails_is_retried_and_one_that_rejects_is_not(hook: Hook):
    printed: list[str] = []
    hook.answers = [503, 429, 500, 200]
    made = sender(hook, printed)
    made.enqueue(FAILED)
    made.send()
    assert (len(hook.received), printed) == (1, [])

    hook.answers = [404]
    made.enqueue(FAILED)
    made.send()
    assert printed == [
        "trades.yaml:9:1: the webhook rejects the request: it answered 404; check its url and body",
        "trades.yaml:9:1: the webhook missed 1 events",
    ]


def test_after_five_attempts_it_gives_up_and_says_so(hook: Hook):
    printed: list[str] = []
    hook.answers = [500] * 5
    made = sender(hook, printed)
    made.enqueue(FAILED)
    made.send()

    assert printed[0] == "trades.yaml:9:1: the webhook cannot be reached: it answered 500"
    assert hook.answers == []


def test_redirects_are_not_followed_and_the_url_is_not_printed(hook: Hook):
    printed: list[str] = []
    hook.answers = [302]
    url = Secret(f"{hook.url}?key=hunter2hunter2")
    made = Sender(Webhook(url, AT), "trades", printed.append, pause=lambda _: False)
    made.enqueue(FAILED)
    made.send()

    assert hook.received == []
    assert "hunter2" not in "".join(printed)


def test_events_beyond_the_limit_are_dropped_and_counted(hook: Hook):
    printed: list[str] = []
    made = sender(hook, printed)
    for _ in range(1003):
        made.enqueue(FAILED)
    made.send()

    assert sum(len(body) for body in hook.received) == 1000  # type: ignore[arg-type,misc]
    assert printed == ["trades.yaml:9:1: the webhook missed 3 events"]


def test_events_written_until_the_end_are_posted(hook: Hook, tmp_path: Path):
    log = EventLog(str(tmp_path))
    log.append("failed", reason="before")
    with post_events((Webhook(hook.url, AT),), "trades", str(tmp_path), lambda _: None):
        log.append("failed", reason="during")
        assert hook.arrived.wait(30)
        log.append("failed", reason="at the end")

    assert [each["reason"] for body in hook.received for each in body] == ["during", "at the end"]  # type: ignore[attr-defined]


def test_a_webhook_that_hangs_does_not_block_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import socket

    monkeypatch.setattr("penstock.watch.webhooks._FINAL_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        log = EventLog(str(tmp_path))
        hook = Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/", AT)
        with post_events((hook,), "trades", str(tmp_path), lambda _: None):
            log.append("failed", reason="x")
            silent.accept()
            log.append("failed", reason="y")
    assert len(list(tmp_path.iterdir())) == 1
