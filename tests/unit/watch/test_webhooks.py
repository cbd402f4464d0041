"""Events posted to an address, against a real server on this machine."""

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
from penstock.watch.webhooks import Sender, posting

AT = Location("trades.yaml", 9)
FAILED = event("failed", "10:00:00", reason="no space")


class Hook:
    """A server that answers as it is told, and remembers what it got."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[object] = []
        self.enough = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                code = outer.answers.pop(0) if outer.answers else 200
                if code == 200:
                    outer.got.append(json.loads(body))
                    outer.enough.set()
                self.send_response(code)
                if code == 302:
                    self.send_header("location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sender(hook: Hook, said: list[str], **more) -> Sender:
    return Sender(Webhook(hook.url, AT, **more), "trades", said.append, pause=lambda _: False)


def test_what_is_asked_for_is_posted_as_json(hook: Hook):
    made = sender(hook, [], events=("failed",))
    for each in (FAILED, event("started", "10:01:00")):
        made.take(each)
    made.send()

    assert hook.got == [[{"pipeline": "trades", **FAILED}]]


def test_without_a_choice_failures_are_posted_and_batches_are_not(hook: Hook):
    made = sender(hook, [])
    for each in (FAILED, event("batch", "10:00:01", progress=progress()), event("stopped", "10:00:02")):
        made.take(each)
    made.send()

    assert [[each["what"] for each in body] for body in hook.got] == [["failed"]]


def test_slack_gets_a_text_and_power_bi_gets_flat_rows(hook: Hook):
    slack = sender(hook, [], body="slack")
    slack.take(FAILED)
    slack.send()
    rows = sender(hook, [], body="rows", events=("batch", "failed"))
    for each in (event("batch", "10:00:01", progress=progress(3)), FAILED):
        rows.take(each)
    rows.send()

    text, (batch, failed) = hook.got
    assert text == {"text": "trades: failed: no space"}
    assert (batch["sink"], batch["batch"], batch["rows_in"], batch["bad_records"]) == ("board", 3, 500, 2)
    assert failed["says"] == "failed: no space"
    assert not any(isinstance(value, dict | list) for value in batch.values())


def test_a_server_that_is_away_is_tried_again_and_one_that_refuses_is_not(hook: Hook):
    said: list[str] = []
    hook.answers = [503, 429, 500, 200]
    made = sender(hook, said)
    made.take(FAILED)
    made.send()
    assert (len(hook.got), said) == (1, [])

    hook.answers = [404]
    made.take(FAILED)
    made.send()
    assert said == [
        "trades.yaml:9: the webhook is refused: it answers 404; check its url and body",
        "trades.yaml:9: the webhook has not got 1 events",
    ]


def test_after_some_tries_it_is_said_and_given_up(hook: Hook):
    said: list[str] = []
    hook.answers = [500] * 5
    made = sender(hook, said)
    made.take(FAILED)
    made.send()

    assert said[0] == "trades.yaml:9: the webhook cannot be reached: it answers 500"
    assert hook.answers == []


def test_it_is_not_led_elsewhere_and_its_address_is_not_shown(hook: Hook):
    said: list[str] = []
    hook.answers = [302]
    url = Secret(f"{hook.url}?key=hunter2hunter2")
    made = Sender(Webhook(url, AT), "trades", said.append, pause=lambda _: False)
    made.take(FAILED)
    made.send()

    assert hook.got == []
    assert "hunter2" not in "".join(said)


def test_what_is_too_much_is_left_out_and_counted(hook: Hook):
    said: list[str] = []
    made = sender(hook, said)
    for _ in range(1003):
        made.take(FAILED)
    made.send()

    assert sum(len(body) for body in hook.got) == 1000  # type: ignore[arg-type,misc]
    assert said == ["trades.yaml:9: the webhook has not got 3 events"]


def test_what_is_written_to_the_log_until_the_end_is_posted(hook: Hook, tmp_path: Path):
    log = EventLog(str(tmp_path))
    log.record("failed", reason="before")
    with posting((Webhook(hook.url, AT),), "trades", str(tmp_path), lambda _: None):
        log.record("failed", reason="during")
        assert hook.enough.wait(30)
        log.record("failed", reason="at the end")

    assert [each["reason"] for body in hook.got for each in body] == ["during", "at the end"]  # type: ignore[attr-defined]


def test_a_webhook_that_hangs_does_not_hold_up_the_pipeline(tmp_path: Path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        log = EventLog(str(tmp_path))
        hook = Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/", AT)
        with posting((hook,), "trades", str(tmp_path), lambda _: None):
            log.record("failed", reason="x")
            silent.accept()
            log.record("failed", reason="y")
    assert len(list(tmp_path.iterdir())) == 1
