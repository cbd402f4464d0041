"""history, listeners and webhooks in the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load
from penstock.options import Secret

NODES = "sources: {a: {rate: }}\nsinks: {b: {from: a, console: }}\n"


def read(tmp_path: Path, text: str):
    file = tmp_path / "clicks.yaml"
    file.write_text(NODES + text)
    return load(file)


def test_what_is_said_about_watching_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOOK", "https://hooks.example/T0/secret")
    pipeline = read(
        tmp_path,
        "history: 2 days\nlisteners: ['mine:Pager']\n"
        "webhooks:\n  - {url: '${env:HOOK}', events: [failed, batch], body: slack}\n  - {url: 'http://127.0.0.1:1/x'}\n",
    )

    assert (pipeline.history_seconds, pipeline.listeners) == (172_800, ("mine:Pager",))
    first, second = pipeline.webhooks
    assert (first.events, first.body) == (("failed", "batch"), "slack")
    assert isinstance(first.url, Secret)
    assert (second.events, second.body) == ((), "event")


def test_without_a_word_history_is_kept_for_a_week(tmp_path: Path):
    pipeline = read(tmp_path, "")

    assert (pipeline.history_seconds, pipeline.listeners, pipeline.webhooks) == (604_800, (), ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("history: forever", "'forever' is not a duration"),
        ("listeners: mine", "'listeners' is 'mine', expected a list; write 'listeners: [\"module:Class\"]'"),
        ("listeners: [mine]", "a listener is 'mine'; write 'module:Class'"),
        ("webhooks: {url: x}", "'webhooks' is a mapping, expected a list"),
        ("webhooks: [x]", "a webhook is 'x', expected a mapping; write '- url: ...'"),
        ("webhooks: [{url: 'file:///etc/passwd'}]", "'url' must start with https:// or http://"),
        ("webhooks: [{url: 'https://a.example', evnts: [x]}]", "did you mean 'events'?"),
        ("webhooks: [{events: [x]}]", "needs 'url'"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(tmp_path: Path, text: str, says: str):
    with pytest.raises(LoadError) as caught:
        read(tmp_path, text)

    assert says in str(caught.value)
    assert re.search(r"clicks\.yaml:3:\d+: ", str(caught.value))
