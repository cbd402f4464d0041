"""penstock feed"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli import _feeding as given
from penstock.cli import say
from penstock.cli._targets import Words, secret, target_of
from penstock.connectors.kafka import EMBEDDED
from penstock.errors import CallError
from penstock.feeds import FEEDS, STREAMS, TEXTS, Record, Shape, recording
from penstock.feeds.backoff import utc_now
from penstock.feeds.disorder import Disorder, Disturbed
from penstock.feeds.http import Resume, Stream
from penstock.feeds.loop import Feeding
from penstock.feeds.pace import Live, OwnPace, Pace, Steady, Unhurried
from penstock.feeds.replay import Replay
from penstock.text import did_you_mean, join_words

#: What replayed lines are called in a folder; everything else is JSON.
_SUFFIXES = {".csv": "csv", ".txt": "txt", ".log": "txt"}


DEFAULT_COUNT = 1000
_TO = (
    "kafka:TOPIC, eventhubs:HUB, files:DIR, socket:PORT, or FILE:NAME of a source or sink; "
    "ads go to two: impressions, then clicks."
)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]


def _options(*options: Any) -> _Decorator[Any]:
    def decorate(function: _Command) -> _Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


WHERE = _options(
    click.option("--to", "targets", multiple=True, required=True, help=_TO),
    click.option(
        "--servers", default=EMBEDDED, show_default=True, envvar="KAFKA_SERVERS", help="The brokers of TOPIC."
    ),
    click.option("--connection", default="${env:EVENTHUBS_CONNECTION}", show_default=True, help="What opens HUB."),
    click.option("--ca", envvar="KAFKA_CA", help="HUB: certificates to trust instead of the system's."),
    click.option("--per-file", type=click.IntRange(1), default=1000, show_default=True, help="DIR: records in a file."),
)
HOW_MUCH = _options(
    click.option("--rate", type=given.RATE, help="Records a second (default: as fast as it goes)."),
    click.option("--count", type=click.IntRange(1), help=f"How many records (made up: {DEFAULT_COUNT}, unless --for)."),
    click.option("--for", "for_seconds", type=given.DURATION, help="How long: 60s, 5m, '10 minutes'."),
    click.option("--burst", type=given.BURST, help="More now and then: 10x, '10x for 2s every 30s'."),
)
MADE_UP = _options(
    click.option("--seed", default=7, show_default=True, help="The same seed gives the same records."),
    click.option("--keys", type=click.IntRange(1, 10_000_000), help="How many brokers, sensors, users ..."),
    click.option("--skew", type=click.FloatRange(0, 10), default=0.0, help="0: all keys alike; 1: a few have most."),
)
DISORDER = _options(
    click.option("--late", type=given.SHARE, default="0%", help="This share comes late: 5%."),
    click.option("--late-by", type=given.DURATION, default="1h", show_default=True, help="At most, in event time."),
    click.option("--shuffle", type=click.IntRange(0), default=0, help="Mix the order of each N records."),
    click.option("--duplicate", type=given.SHARE, default="0%", help="This share is sent twice."),
    click.option("--corrupt", type=given.SHARE, default="0%", help="This share is damaged."),
)
REPLAY = _options(
    click.option("--file", type=click.Path(path_type=Path), help="Replay .jsonl, .txt, .csv, .parquet or a recording."),
    click.option("--speed", type=given.SPEED, help="1x (its own pace), 10x or max."),
    click.option("--time-column", help="The column with the time of a record."),
    click.option("--key-column", help="The column, or field, that becomes the key."),
    click.option("--key-separator", type=given.SEPARATOR, help="Lines are KEY, this, VALUE: ':' or '\\t' for a tab."),
    click.option("--as-json", is_flag=True, help="CSV: send rows as JSON objects instead of their lines."),
    click.option("--repartition", is_flag=True, help="A recording: let keys choose the partitions."),
    click.option("--now", is_flag=True, help="Times begin now, not when they were recorded or made up."),
)
HTTP = _options(
    click.option("--http", "url", help="Read a stream of JSON lines from this address."),
    click.option("--token", help="Its bearer token: '${env:NAME}' or '${file:path}'."),
    click.option(
        "--heartbeat", type=given.DURATION, default="30s", show_default=True, help="Longer silence is broken."
    ),
    click.option("--resume-field", help="The field that identifies a record: what comes again is left out."),
    click.option("--resume-parameter", help="Reconnect with the last record's field in this parameter: since_id."),
    click.option("--resume-file", type=click.Path(path_type=Path), help="Keep that field here for the next start."),
    click.option("--backfill-parameter", help="Reconnect with the minutes missed in this parameter."),
    click.option("--backfill-most", type=click.IntRange(1), default=5, show_default=True, help="Minutes to ask for."),
    click.option("--retries", type=click.IntRange(0), help="Give up after failures in a row (default: never)."),
)

_OF_FILES = frozenset({"file", "speed", "time_column", "as_json", "key_separator", "repartition"})
_OF_HTTP = frozenset(
    {"url", "token", "heartbeat", "resume_field", "resume_parameter", "resume_file", "backfill_parameter"}
    | {"backfill_most", "retries"}
)
_OF_MAKING = frozenset({"keys", "skew"})
_OF_DISORDER = frozenset({"seed", "late", "late_by", "shuffle", "duplicate", "corrupt", "rate", "burst", "now"})

#: What an option of another source would be: silently ignored, if it were not refused.
FOREIGN = {
    "made-up records": _OF_FILES | _OF_HTTP | {"key_column"},
    "a file": _OF_MAKING | _OF_HTTP,
    "an HTTP stream": _OF_MAKING | _OF_DISORDER | _OF_FILES,
}


def refuse_foreign(source: str) -> None:
    """An error if the call gives options that its source does not know."""
    context = click.get_current_context()
    names = {each.name: each.opts[0] for each in context.command.params if each.name in FOREIGN[source]}
    said = [option for name, option in names.items() if _is_given(context, str(name))]
    if said:
        raise CallError(f"{join_words(said, 'and')}: that is not for {source}; take it out")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


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
        raise CallError(
            f"a feed has one source, and this call has {join_words(found, 'and')}; give KIND, --file or --http"
        )
    if kind is not None and kind not in FEEDS:
        raise CallError(f"there is no kind {kind!r} of made-up records; {did_you_mean(kind, FEEDS)}")
    wanted = STREAMS.get(kind or "", ("",))
    if len(options["targets"]) != len(wanted):
        what = (
            f"{kind} are {len(wanted)} streams, {join_words(wanted, 'and')}"
            if len(wanted) > 1
            else "this is one stream"
        )
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
    names = join_words([name for _, name in named], "and")
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
