"""penstock feed and record, as far as they need no broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.feeds.streams import ids, sends, serving, tweet

from penstock.cli import penstock
from penstock.errors import CallError, RefusedError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("KAFKA_SERVERS", "KAFKA_CA", "EVENTHUBS_CONNECTION", "NO_SUCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(penstock, arguments, catch_exceptions=False)


def lines(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]


def test_made_up_records_are_told_with_their_damage(folder):
    done = call("feed", "trades", "--to", "files:in", "--count", "2000", "--duplicate", "1%", "--corrupt", "2%")

    said = re.fullmatch(
        r"sent ([\d,]+) trades to in in [\d.]+ s \([\d,]+ records/s, (\d+) sent twice, (\d+) corrupt\)\n", done.output
    )
    assert said is not None, done.output
    found = lines(folder / "in")
    assert len(found) == int(said[1].replace(",", "")) == 2000 + int(said[2])
    assert sum(not line.endswith(b"}") for line in found) == int(said[3]) > 0


def test_the_default_is_a_thousand_records_and_a_call_twice_gives_the_same_ones(folder):
    call("feed", "sensors", "--to", "files:a")
    call("feed", "sensors", "--to", "files:b")

    assert len(lines(folder / "a")) == 1000
    assert lines(folder / "a") == lines(folder / "b")


def test_ads_go_to_two_targets(folder):
    done = call("feed", "ads", "--to", "files:shown", "--to", "files:clicked", "--count", "600")

    assert "to shown and clicked in" in done.output
    shown, clicked = (
        {json.loads(line)["ImpressionID"] for line in lines(folder / name)} for name in ("shown", "clicked")
    )
    assert len(shown) + len(clicked) == 600
    assert clicked <= shown
    assert {path.name.split("-")[0] for path in (folder / "clicked").iterdir()} == {"clicks"}


def test_plain_lines_are_text_files(folder):
    call("feed", "lines", "--to", "files:in", "--count", "10", "--per-file", "4")

    assert [(path.suffix, len(path.read_text().splitlines())) for path in sorted((folder / "in").iterdir())] == [
        (".txt", 4),
        (".txt", 4),
        (".txt", 2),
    ]


def test_a_file_is_replayed_in_disorder_and_as_fast_as_it_goes(folder):
    rows = [json.dumps({"t": 1_700_000_000 + number, "n": number}) for number in range(500)]
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n")

    done = call("feed", "--file", "rows.jsonl", "--to", "files:in", "--speed", "max", "--shuffle", "50")

    assert done.output.startswith("sent 500 records to in")
    found = [json.loads(line)["n"] for line in lines(folder / "in")]
    assert found != sorted(found)
    assert sorted(found) == list(range(500))


def test_an_http_stream_fills_a_folder_and_keeps_its_place(folder, monkeypatch):
    monkeypatch.setenv("STREAM_TOKEN", "tok-123456")
    with serving(sends(tweet(1), tweet(1), tweet(2), b"\n", tweet(3))) as server:
        done = call(
            "feed", "--http", server.url, "--token", "${env:STREAM_TOKEN}", "--to", "files:in", "--count", "3",
            "--resume-field", "id", "--resume-parameter", "since_id", "--resume-file", "last",
        )  # fmt: skip

    assert "sent 3 records to in" in done.output
    assert "repeated records skipped: 1" in done.output
    assert "tok-123456" not in done.output
    assert ids(lines(folder / "in")) == [1, 2, 3]
    assert (folder / "last").read_text() == "3\n"
    assert server.visits[0].token == "Bearer tok-123456"


FILES = ("--to", "files:in")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trdes", *FILES], "unknown kind of records 'trdes'; did you mean 'trades'?"),
        (FILES, "a feed needs one source, found nothing; give KIND, --file or --http"),
        (["trades", "--file", "x", *FILES], "found KIND and --file"),
        (["ads", *FILES], "ads has 2 streams, impressions and clicks, found 1 --to; give 2"),
        (["trades", *FILES, *FILES], "this feed has one stream, found 2 --to; give 1"),
        (["trades", *FILES, "--burst", "5x"], "--burst is relative to a rate; give --rate too"),
        (["trades", *FILES, "--speed", "1x"], "--speed: not supported for synthetic records; remove it"),
        (["trades", "--to", "trades"], "'trades' is not a target; write kafka:TOPIC, eventhubs:HUB"),
        (["trades", "--to", "nix.yaml:a"], "'nix.yaml' is neither a kind of target nor a file"),
        (["trades", "--to", "socket:http"], "'socket:http' has no valid port; write socket:9999"),
        (["trades", "--to", "eventhubs:h"], "the environment variable 'EVENTHUBS_CONNECTION' is not set"),
        (["--file", "a.jsonl", *FILES, "--speed", "1x"], "the records of a.jsonl have no time"),
        (["--file", "a.jsonl", *FILES, "--speed", "1x", "--rate", "5"], "--speed keeps the recorded pace"),
        (["--file", "a.jsonl", *FILES, "--keys", "5"], "--keys: not supported for a file; remove it"),
        (["--http", "http://127.0.0.1/", *FILES, "--late", "5%"], "--late: not supported for an HTTP stream"),
        (["--http", "http://127.0.0.1/", *FILES, "--token", "abc"], "every user of this machine can read"),
        (["--http", "http://127.0.0.1/", *FILES, "--token", "${env:NO_SUCH_TOKEN}"], "'NO_SUCH_TOKEN' is not set"),
        (["--http", "http://127.0.0.1/", *FILES, "--resume-parameter", "p"], "name it with --resume-field"),
        (["--http", "http://127.0.0.1/", *FILES, "--resume-file", "p"], "--resume-file saves the value for"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_work_says_what_to_do(folder, arguments, says):
    (folder / "a.jsonl").write_text("{}\n")

    with pytest.raises(CallError) as error:
        call("feed", *arguments)

    assert says in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--rate", "fast", "'fast' is not a rate; write records a second, like 1000"),
        ("--for", "5", "'5' is not a duration; write 30s"),
        ("--late", "5", "'5' is not a share; write a percentage, like 5%"),
    ],
)
def test_a_value_that_cannot_be_read_says_how_to_write_it(option, value, says):
    done = call("feed", "trades", "--to", "files:in", option, value)

    assert done.exit_code == 2
    assert says in done.output


def test_a_recording_is_not_replaced_unless_asked(folder):
    (folder / "topic.jsonl").touch()

    with pytest.raises(CallError, match=r"topic\.jsonl already exists; give another name, or --overwrite"):
        call("record", "kafka:topic", "--to", "topic.jsonl")
    with pytest.raises(CallError, match="--start latest has no records yet; add --follow"):
        call("record", "kafka:topic", "--to", "other.jsonl", "--start", "latest")


def test_a_refused_stream_leaves_nothing_behind(folder: Any):
    def refuse(answer: Any) -> None:
        answer.refuse(403, b"no")

    with serving(refuse) as server, pytest.raises(RefusedError, match=r"answers 403 Forbidden \(no\); look at --token"):
        call("feed", "--http", server.url, "--to", "files:in")

    assert list((folder / "in").iterdir()) == []
