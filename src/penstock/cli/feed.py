"""penstock feed"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from penstock.cli import _feeding as given
from penstock.cli import say
from penstock.cli._feed_options import (
    DEFAULT_COUNT,
    DISORDER,
    HOW_MUCH,
    HTTP,
    MADE_UP,
    REPLAY,
    WHERE,
    refuse_foreign,
)
from penstock.cli._targets import Words, secret, target_of
from penstock.errors import CallError
from penstock.feeds import FEEDS, STREAMS, TEXTS, Record, Shape, recording
from penstock.feeds.backoff import utc_now
from penstock.feeds.disorder import Disorder, Disturbed
from penstock.feeds.http import Resume, Stream
from penstock.feeds.pace import Live, OwnPace, Pace, Steady, Unhurried
from penstock.feeds.replay import Replay
from penstock.feeds.sending import Feeding
from penstock.words import did_you_mean, listed

#: What replayed lines are called in a folder; everything else is JSON.
_SUFFIXES = {".csv": "csv", ".txt": "txt", ".log": "txt"}


@click.command(short_help="Send made-up, recorded or streamed records to a topic, folder or socket.")
@click.argument("kind", required=False)
@WHERE
@HOW_MUCH
@MADE_UP
@DISORDER
@REPLAY
@HTTP
def command(kind: str | None, **options: Any) -> None:
    """Send made-up records of a KIND, those of a --file, or those of an --http stream.

    With FILE:NAME they go where that source or sink of a pipeline points, with its certificates and passwords.

    \b
    Example: penstock feed trades --to kafka:trades --count 10000 --rate 500 --late 5%
    penstock feed ads --to kafka:impressions --to kafka:clicks --for 60s
    penstock feed --file trades.jsonl --speed 10x --time-column CreatedTime --to kafka:trades
    penstock feed --http https://HOST/stream --token '${env:TOKEN}' --to kafka:tweets
    """
    given.end_on_sigterm()
    _one_source(kind, options)
    if kind is not None:
        _made_up(kind, options)
    elif options["file"] is not None:
        _replayed(options)
    else:
        _streamed(options)


def _one_source(kind: str | None, options: dict[str, Any]) -> None:
    found = [name for name, value in (("KIND", kind), ("--file", options["file"]), ("--http", options["url"])) if value]
    if len(found) != 1:
        raise CallError(f"a feed has one source, and this call has {listed(found, 'and')}; give KIND, --file or --http")
    if kind is not None and kind not in FEEDS:
        raise CallError(f"there is no kind {kind!r} of made-up records; {did_you_mean(kind, FEEDS)}")
    wanted = STREAMS.get(kind or "", ("",))
    if len(options["targets"]) != len(wanted):
        what = f"{kind} are {len(wanted)} streams, {listed(wanted, 'and')}" if len(wanted) > 1 else "this is one stream"
        raise CallError(f"{what}, and this call has {len(options['targets'])} --to; give {len(wanted)}")
    if options["burst"] and not options["rate"]:
        raise CallError("--burst is relative to a rate; give --rate too")


def _made_up(kind: str, options: dict[str, Any]) -> None:
    refuse_foreign("made-up records")
    start = utc_now() if options["now"] else None
    step = 1 / options["rate"] if options["now"] and options["rate"] else None
    records = FEEDS[kind](options["seed"], Shape(options["keys"], options["skew"], start, step))
    count = options["count"] or (None if options["for_seconds"] else DEFAULT_COUNT)
    suffix = "txt" if kind in TEXTS else "json"
    words = [_words(options, name or kind, suffix) for name in STREAMS.get(kind, (kind,))]
    pace: Pace = Steady(options["rate"], options["burst"]) if options["rate"] else Unhurried()
    _feed(kind, records, pace, words, options, count)


def _replayed(options: dict[str, Any]) -> None:
    refuse_foreign("a file")
    path: Path = options["file"]
    shift_to = utc_now() if options["now"] else None
    if options["key_separator"] and options["key_column"]:
        raise CallError("--key-separator and --key-column both say what the key is; give one of them")
    replay = Replay(
        path, options["time_column"], options["key_column"], options["as_json"], options["key_separator"], shift_to
    )
    records = replay.records()
    heading = recording.heading(path)
    timed = heading is not None or options["time_column"] is not None
    if options["speed"] and options["rate"]:
        raise CallError("--speed keeps the records' own pace and --rate sets another; give one of them")
    if not timed and (options["speed"] or options["late"]):
        raise CallError(f"nothing says when the records of {path.name} happened; give --time-column, or --speed max")
    speed = options["speed"] if options["speed"] is not None else 1.0 if timed and not options["rate"] else 0.0
    pace: Pace = Steady(options["rate"], options["burst"]) if options["rate"] else Unhurried()
    words = _words(options, path.stem, "json" if options["as_json"] else _SUFFIXES.get(path.suffix.lower(), "json"))
    if options["repartition"]:
        records = (record._replace(partition=None) for record in records)
    elif heading is not None:
        words = replace(words, partitions=heading.partitions)
    _feed("records", records, OwnPace(speed) if speed else pace, [words], options, options["count"])


def _streamed(options: dict[str, Any]) -> None:
    refuse_foreign("an HTTP stream")
    if options["resume_parameter"] and not options["resume_field"]:
        raise CallError("--resume-parameter takes a field of the last record; say which with --resume-field")
    if options["resume_file"] and not options["resume_parameter"]:
        raise CallError("--resume-file keeps what --resume-parameter is to be told; give that too")
    token = secret("--token", options["token"]) if options["token"] else None
    stream = Stream(
        options["url"], say, token, options["heartbeat"], _resume(options), options["key_column"], options["retries"],
        options["for_seconds"],
    )  # fmt: skip
    _feed("records", stream.records(), Live(), [_words(options, "stream")], options, options["count"], stream)
    if stream.left_out:
        say(f"{stream.left_out:,} records came again and were left out")


def _resume(options: dict[str, Any]) -> Resume:
    return Resume(
        options["resume_field"],
        options["resume_parameter"],
        options["backfill_parameter"],
        options["backfill_most"],
        options["resume_file"],
    )


def _words(options: dict[str, Any], name: str, suffix: str = "json") -> Words:
    return Words(options["servers"], options["connection"], options["ca"], name, suffix, options["per_file"])


def _feed(
    what: str, records: Iterator[Record], pace: Pace, words: list[Words], options: dict[str, Any], count: int | None,
    stream: Stream | None = None,
) -> None:  # fmt: skip
    named = [target_of(text, each) for text, each in zip(options["targets"], words, strict=True)]
    names = listed([name for _, name in named], "and")
    disorder = Disorder(
        options["late"], options["late_by"], options["shuffle"], options["duplicate"], options["corrupt"]
    )
    disturbed, progress = Disturbed(disorder, options["seed"]), given.Progress(names, count)
    feeding = Feeding([target for target, _ in named], pace, options["for_seconds"], progress)
    feeding.safe = stream.note if stream and stream.resume.file else None
    try:
        sent = feeding.run(disturbed.of(feeding.limited(records, count)))
    finally:
        progress.end()
    seconds = max(feeding.seconds, 1e-9)
    damage = f", {disturbed.damage}" if str(disturbed.damage) else ""
    click.echo(f"sent {sent:,} {what} to {names} in {seconds:.1f} s ({sent / seconds:,.0f} records/s{damage})")
