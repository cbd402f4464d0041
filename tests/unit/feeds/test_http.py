"""HTTP streams, against a real server on loopback that stalls, drops and limits."""

from __future__ import annotations

import threading
from email.utils import formatdate
from itertools import islice
from typing import Any

import pytest
from tests.unit.feeds.clocks import FakeClock
from tests.unit.feeds.streams import Server, ids, refuses, sends, serving, tweet

from penstock.errors import CallError, RefusedError, UnreachableError
from penstock.feeds.http import Backoff, HttpStream, Resume, parse_retry_after, parse_url
from penstock.feeds.records import NOTHING, Record
from penstock.options import Secret

IDS = Resume(field="id", parameter="since_id")


def stream(server: Server, said: list[str] | None = None, **how: Any) -> HttpStream:
    talk = [] if said is None else said
    quick = {"backoff": Backoff(0.001, 0.002), "resume": IDS, **how}
    return HttpStream(server.url, talk.append, **quick)


def taken(source: HttpStream, count: int) -> list[Record]:
    return list(islice((record for record in source.records() if record is not NOTHING), count))


def test_lines_become_records_and_blank_ones_are_heartbeats():
    with serving(sends(tweet(1) + b"\r\n", b"\r\n", tweet(2)[:5], tweet(2)[5:])) as server:
        found = list(islice(stream(server, key_field="user.name").records(), 4))

    assert found == [
        Record(b"u1", tweet(1).strip()),
        NOTHING,
        NOTHING,
        Record(b"u2", tweet(2).strip()),
    ]


def test_a_line_that_is_not_json_is_a_record_too():
    with serving(sends(b"oops\n", tweet(1))) as server:
        assert [record.value for record in taken(stream(server), 2)] == [b"oops", tweet(1).strip()]


def test_a_dropped_connection_is_resumed_after_the_last_whole_record():
    said: list[str] = []
    with serving(sends(tweet(1), tweet(2), tweet(3)[:9], then="drop"), sends(tweet(3), tweet(4))) as server:
        found = taken(stream(server, said), 4)

    assert ids([record.value for record in found]) == [1, 2, 3, 4]
    assert [visit.query for visit in server.visits] == [{}, {"since_id": "2"}]
    assert said[0] == "connected to 127.0.0.1"
    assert said[1] == "127.0.0.1: the stream broke off within a record; retrying in 0.0 s"


def test_a_stream_that_ends_is_opened_again():
    said: list[str] = []
    with serving(sends(tweet(1)), sends(tweet(2))) as server:
        assert ids([record.value for record in taken(stream(server, said), 2)]) == [1, 2]

    assert said[1] == "127.0.0.1: the stream ended; retrying in 0.0 s"


def test_what_a_server_sends_again_is_left_out():
    source = None
    with serving(sends(tweet(1), tweet(2), then="drop"), sends(tweet(1), tweet(2), tweet(3))) as server:
        source = stream(server)
        found = taken(source, 3)

    assert ids([record.value for record in found]) == [1, 2, 3]
    assert source.skipped == 2


def test_a_silence_longer_than_a_heartbeat_is_a_broken_connection():
    said: list[str] = []
    with serving(sends(tweet(1), then="stall"), sends(tweet(2))) as server:
        found = taken(stream(server, said, heartbeat_seconds=0.05), 2)

    assert ids([record.value for record in found]) == [1, 2]
    assert "nothing came for 0 s, not even a heartbeat" in said[1]


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_pause_gets_it(status):
    clock, said = FakeClock(), list[str]()
    with serving(refuses(status, Retry_After="17"), sends(tweet(1))) as server:
        found = taken(stream(server, said, clock=clock), 1)

    assert ids([record.value for record in found]) == [1]
    assert sum(clock.waits) == pytest.approx(17)
    assert said[0].startswith(f"127.0.0.1: the server answers {status} ")
    assert said[0].endswith("; retrying in 17.0 s")


def test_waits_grow_while_nothing_comes_and_start_over_once_something_has():
    clock, said = FakeClock(), list[str]()
    script = (refuses(500), refuses(502), refuses(500), sends(tweet(1)), refuses(500), sends(tweet(2)))
    with serving(*script) as server:
        taken(stream(server, said, clock=clock, backoff=Backoff(10, 60)), 2)

    waits = [float(line.split()[-2]) for line in said if "retrying" in line]
    wholes = [10, 20, 40, 10, 20]
    assert len(waits) == 5
    assert all(whole / 2 <= wait <= whole for wait, whole in zip(waits, wholes, strict=True))


def test_the_minutes_that_were_missed_are_asked_for():
    clock = FakeClock()
    missed = Resume(field="id", backfill="backfill_minutes", max_backfill_minutes=5)
    script = (sends(tweet(1)), refuses(503, Retry_After="100"), refuses(503, Retry_After="900"), sends(tweet(2)))
    with serving(*script) as server:
        taken(stream(server, clock=clock, resume=missed), 2)

    assert [visit.query.get("backfill_minutes") for visit in server.visits] == [None, "1", "2", "5"]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, r"127.0.0.1 answers 401 Unauthorized \(who are you\); look at --token"),
        (404, "answers 404 Not Found .*; correct the address or its parameters"),
        (302, "the stream is at http://elsewhere.example/; give that address if you trust it"),
    ],
)
def test_a_refusal_is_not_tried_again(status, says):
    with (
        serving(refuses(status, b"who are you", Location="http://elsewhere.example/")) as server,
        pytest.raises(RefusedError, match=says),
    ):
        taken(stream(server), 1)

    assert len(server.visits) == 1


def test_giving_up_says_after_how_many_failures():
    with (
        serving(refuses(500)) as server,
        pytest.raises(UnreachableError, match=r"the server answers 500 .*; gave up after 3 failures in a row"),
    ):
        taken(stream(server, retries=2), 1)


def test_the_token_is_sent_and_never_printed():
    said: list[str] = []
    with serving(sends(tweet(1))) as server:
        taken(stream(server, said, token=Secret("tok-123456")), 1)

    assert [visit.token for visit in server.visits] == ["Bearer tok-123456"]
    assert "tok-123456" not in "".join(said)


def test_the_time_of_a_feed_ends_also_in_a_silence():
    with serving(sends(tweet(1), then="stall")) as server:
        found = list(stream(server, for_seconds=0.1).records())

    assert found[0].value == tweet(1).strip()


def test_the_position_is_saved_and_the_next_start_continues_there(tmp_path):
    note = Resume(field="id", parameter="since_id", file=tmp_path / "last")
    with serving(sends(tweet(1), tweet(2)), sends(tweet(3))) as server:
        first = stream(server, resume=note)
        taken(first, 2)
        first.save_position()
        found = taken(stream(server, resume=note), 1)

    assert (tmp_path / "last").read_text() == "2\n"
    assert ids([record.value for record in found]) == [3]
    assert server.visits[1].query == {"since_id": "2"}
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_slow_taker_holds_the_server_back():
    written, full = [], threading.Event()

    def flood(answer: Any) -> None:
        answer.connection.settimeout(0.5)
        answer.begin()
        line = b'{"pad": "' + b"x" * 65_000 + b'"}\n'
        try:
            while True:
                answer.chunk(line)
                written.append(len(line))
        except OSError:
            full.set()

    with serving(flood) as server:
        records = stream(server).records()
        next(records)
        assert full.wait(30), "the server never had to wait"
        records.close()

    # What fits into the buffers of two sockets, and no more: nothing is kept in memory here.
    assert sum(written) < 50_000_000


@pytest.mark.parametrize(
    ("url", "token", "says"),
    [
        ("ftp://x/", None, "write http://HOST/PATH"),
        ("http://", None, "is not an address"),
        ("http://x:99999/", None, "is not an address"),
        ("https://me:pw@x/", None, "a user or a password in it; give a token"),
        ("http://api.example/", "abcdef", "would be readable on its way to api.example; use https://"),
        ("https://api.example/", "abc\ndef", "a blank, a line break"),
    ],
)
def test_an_invalid_address_is_refused(url, token, says):
    with pytest.raises(CallError, match=says):
        parse_url(url, Secret(token) if token else None)


def test_a_pause_is_asked_for_in_seconds_or_as_a_date():
    now = 1_700_000_000.0

    assert parse_retry_after("120", now) == 120
    assert parse_retry_after(formatdate(now + 30, usegmt=True), now) == 30
    assert parse_retry_after(formatdate(now - 30, usegmt=True), now) == 0
    assert [parse_retry_after(text, now) for text in (None, "", "soon", "nan")] == [None] * 4
