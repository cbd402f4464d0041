"""penstock feed"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli import _feeds as _feeding
from penstock.cli import print_status
from penstock.cli._feeds import TargetOptions, parse_target, secret
from penstock.connectors.kafka import EMBEDDED
from penstock.errors import CallError
from penstock.feeds import FEEDS, STREAMS, TEXTS, Record, Shape, recording
from penstock.feeds.http import HttpStream, Resume, utc_now
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Disorder, DisorderInjector, Live, Pace, RecordedPace, Steady, Unpaced
from penstock.feeds.replay import Replay
from penstock.text import did_you_mean, join_words

#: File suffixes of replayed text; everything else is JSON.
_SUFFIXES = {".csv": "csv", ".txt": "txt", ".log": "txt"}


DEFAULT_COUNT = 1000
_TO = (
    "kafka:TOPIC, eventhubs:HUB, files:DIR, socket:PORT, or FILE:NAME of a source or sink; "
    "ads needs two: impressions, then clicks."
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
    click.option(
        "--connection", default="${env:EVENTHUBS_CONNECTION}", show_default=True, help="Connection string of HUB."
    ),
    click.option("--ca", envvar="KAFKA_CA", help="HUB: CA certificates to trust instead of the system's."),
    click.option("--per-file", type=click.IntRange(1), default=1000, show_default=True, help="DIR: records per file."),
)
HOW_MUCH = _options(
    click.option("--rate", type=_feeding.RATE, help="Records per second (default: as fast as possible)."),
    click.option(
        "--count", type=click.IntRange(1), help=f"How many records (default with KIND: {DEFAULT_COUNT}, unless --for)."
    ),
    click.option("--for", "for_seconds", type=_feeding.DURATION, help="How long: 60s, 5m, '10 minutes'."),
    click.option("--burst", type=_feeding.BURST, help="Periodic bursts: 10x, '10x for 2s every 30s'."),
)
SYNTHETIC = _options(
    click.option("--seed", default=7, show_default=True, help="The same seed gives the same records."),
    click.option("--keys", type=click.IntRange(1, 10_000_000), help="How many brokers, sensors, users ..."),
    click.option(
        "--skew",
        type=click.FloatRange(0, 10),
        default=0.0,
        help="0: keys equally frequent; 1: a few have most records.",
    ),
)
DISORDER = _options(
    click.option("--late", type=_feeding.SHARE, default="0%", help="Share of late records: 5%."),
    click.option(
        "--late-by", type=_feeding.DURATION, default="1h", show_default=True, help="Maximum delay in event time."
    ),
    click.option("--shuffle", type=click.IntRange(0), default=0, help="Shuffle each N records."),
    click.option("--duplicate", type=_feeding.SHARE, default="0%", help="Share of records sent twice."),
    click.option("--corrupt", type=_feeding.SHARE, default="0%", help="Share of corrupt records."),
)
REPLAY = _options(
    click.option("--file", type=click.Path(path_type=Path), help="Replay .jsonl, .txt, .csv, .parquet or a recording."),
    click.option("--speed", type=_feeding.SPEED, help="1x (the recorded pace), 10x or max."),
    click.option("--time-column", help="The column with the record's time."),
    click.option("--key-column", help="The column or field to use as key."),
    click.option(
        "--key-separator", type=_feeding.SEPARATOR, help="Between KEY and VALUE of a line: ':', or '\\t' for a tab."
    ),
    click.option("--as-json", is_flag=True, help="CSV: send rows as JSON objects."),
    click.option("--repartition", is_flag=True, help="Recordings: choose partitions by key."),
    click.option("--now", is_flag=True, help="Shift times to start now."),
)
HTTP = _options(
    click.option("--http", "url", help="Read a stream of JSON lines from this URL."),
    click.option("--token", help="Its bearer token: '${env:NAME}' or '${file:path}'."),
    click.option(
        "--heartbeat",
        type=_feeding.DURATION,
        default="30s",
        show_default=True,
        help="Reconnect after this much silence.",
    ),
    click.option("--resume-field", help="The field that identifies a record; repeated records are skipped."),
    click.option("--resume-parameter", help="Query parameter for the last record's field when reconnecting: since_id."),
    click.option("--resume-file", type=click.Path(path_type=Path), help="Save that field here for the next start."),
    click.option("--backfill-parameter", help="Query parameter for the minutes missed when reconnecting."),
    click.option(
        "--backfill-most", type=click.IntRange(1), default=5, show_default=True, help="Maximum of those minutes."
    ),
    click.option(
        "--retries", type=click.IntRange(0), help="Give up after this many failures in a row (default: never)."
    ),
)

_OF_FILES = frozenset({"file", "speed", "time_column", "as_json", "key_separator", "repartition"})
_OF_HTTP = frozenset(
    {"url", "token", "heartbeat", "resume_field", "resume_parameter", "resume_file", "backfill_parameter"}
    | {"backfill_most", "retries"}
)
_OF_SYNTHETIC = frozenset({"keys", "skew"})
_OF_DISORDER = frozenset({"seed", "late", "late_by", "shuffle", "duplicate", "corrupt", "rate", "burst", "now"})

#: Options that each kind of source must reject, because it would silently ignore them.
REJECTED = {
    "synthetic records": _OF_FILES | _OF_HTTP | {"key_column"},
    "a file": _OF_SYNTHETIC | _OF_HTTP,
    "an HTTP stream": _OF_SYNTHETIC | _OF_DISORDER | _OF_FILES,
}


def reject_options(source: str) -> None:
    """Raise an error for options that this source would ignore."""
    context = click.get_current_context()
    names = {each.name: each.opts[0] for each in context.command.params if each.name in REJECTED[source]}
    rejected = [option for name, option in names.items() if _is_given(context, str(name))]
    if rejected:
        raise CallError(f"{join_words(rejected, 'and')}: not supported for {source}; remove it")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


@click.command(short_help="Send synthetic, recorded or streamed records to a topic, folder or socket.")
@click.argument("kind", required=False)
@WHERE
@HOW_MUCH
@SYNTHETIC
@DISORDER
@REPLAY
@HTTP
def command(kind: str | None, **options: Any) -> None:
    """Send synthetic records of a KIND, or the records of a --file or an --http stream.

    --to FILE:NAME sends them to the system of that source or sink, with its certificates and passwords.

    \b
    Example: penstock feed trades --to kafka:trades --count 10000 --rate 500 --late 5%
    penstock feed ads --to kafka:impressions --to kafka:clicks --for 60s
    penstock feed --file trades.jsonl --speed 10x --time-column CreatedTime --to kafka:trades
    penstock feed --http https://HOST/stream --token '${env:TOKEN}' --to kafka:tweets
    """
    _feeding.end_on_sigterm()
    _one_source(kind, options)
    if kind is not None:
        _feed_synthetic(kind, options)
    elif options["file"] is not None:
        _feed_file(options)
    else:
        _feed_http(options)


def _one_source(kind: str | None, options: dict[str, Any]) -> None:
    found = [name for name, value in (("KIND", kind), ("--file", options["file"]), ("--http", options["url"])) if value]
    if len(found) != 1:
        raise CallError(f"a feed needs one source, found {join_words(found, 'and')}; give KIND, --file or --http")
    if kind is not None and kind not in FEEDS:
        raise CallError(f"unknown kind of records {kind!r}; {did_you_mean(kind, FEEDS)}")
    wanted = STREAMS.get(kind or "", ("",))
    if len(options["targets"]) != len(wanted):
        what = (
            f"{kind} has {len(wanted)} streams, {join_words(wanted, 'and')}"
            if len(wanted) > 1
            else "this feed has one stream"
        )
        raise CallError(f"{what}, found {len(options['targets'])} --to; give {len(wanted)}")
    if options["burst"] and not options["rate"]:
        raise CallError("--burst is relative to a rate; give --rate too")


def _feed_synthetic(kind: str, options: dict[str, Any]) -> None:
    reject_options("synthetic records")
    start = utc_now() if options["now"] else None
    step = 1 / options["rate"] if options["now"] and options["rate"] else None
    records = FEEDS[kind](options["seed"], Shape(options["keys"], options["skew"], start, step))
    count = options["count"] or (None if options["for_seconds"] else DEFAULT_COUNT)
    suffix = "txt" if kind in TEXTS else "json"
    target_options = [_target_options(options, name or kind, suffix) for name in STREAMS.get(kind, (kind,))]
    pace: Pace = Steady(options["rate"], options["burst"]) if options["rate"] else Unpaced()
    _feed(kind, records, pace, target_options, options, count)


def _feed_file(options: dict[str, Any]) -> None:
    reject_options("a file")
    path: Path = options["file"]
    shift_to = utc_now() if options["now"] else None
    if options["key_separator"] and options["key_column"]:
        raise CallError("--key-separator and --key-column both define the key; give one of them")
    replay = Replay(
        path, options["time_column"], options["key_column"], options["as_json"], options["key_separator"], shift_to
    )
    records = replay.records()
    heading = recording.read_heading(path)
    timed = heading is not None or options["time_column"] is not None
    if options["speed"] and options["rate"]:
        raise CallError("--speed keeps the recorded pace and --rate sets another; give one of them")
    if not timed and (options["speed"] or options["late"]):
        raise CallError(f"the records of {path.name} have no time; give --time-column, or --speed max")
    speed = options["speed"] if options["speed"] is not None else 1.0 if timed and not options["rate"] else 0.0
    pace: Pace = Steady(options["rate"], options["burst"]) if options["rate"] else Unpaced()
    target_options = _target_options(
        options, path.stem, "json" if options["as_json"] else _SUFFIXES.get(path.suffix.lower(), "json")
    )
    if options["repartition"]:
        records = (record._replace(partition=None) for record in records)
    elif heading is not None:
        target_options = replace(target_options, partitions=heading.partitions)
    _feed("records", records, RecordedPace(speed) if speed else pace, [target_options], options, options["count"])


def _feed_http(options: dict[str, Any]) -> None:
    reject_options("an HTTP stream")
    if options["resume_parameter"] and not options["resume_field"]:
        raise CallError("--resume-parameter sends a field of the last record; name it with --resume-field")
    if options["resume_file"] and not options["resume_parameter"]:
        raise CallError("--resume-file saves the value for --resume-parameter; give that too")
    token = secret("--token", options["token"]) if options["token"] else None
    stream = HttpStream(
        options["url"], print_status, token, options["heartbeat"], _resume(options), options["key_column"],
        options["retries"], options["for_seconds"],
    )  # fmt: skip
    _feed("records", stream.records(), Live(), [_target_options(options, "stream")], options, options["count"], stream)
    if stream.skipped:
        print_status(f"repeated records skipped: {stream.skipped:,}")


def _resume(options: dict[str, Any]) -> Resume:
    return Resume(
        options["resume_field"],
        options["resume_parameter"],
        options["backfill_parameter"],
        options["backfill_most"],
        options["resume_file"],
    )


def _target_options(options: dict[str, Any], name: str, suffix: str = "json") -> TargetOptions:
    return TargetOptions(options["servers"], options["connection"], options["ca"], name, suffix, options["per_file"])


def _feed(
    what: str, records: Iterator[Record], pace: Pace, target_options: list[TargetOptions], options: dict[str, Any],
    count: int | None, stream: HttpStream | None = None,
) -> None:  # fmt: skip
    named = [parse_target(text, each) for text, each in zip(options["targets"], target_options, strict=True)]
    names = join_words([name for _, name in named], "and")
    disorder = Disorder(
        options["late"], options["late_by"], options["shuffle"], options["duplicate"], options["corrupt"]
    )
    injector, progress = DisorderInjector(disorder, options["seed"]), _feeding.Progress(names, count)
    loop = FeedLoop([target for target, _ in named], pace, options["for_seconds"], progress)
    loop.on_flushed = stream.save_position if stream and stream.resume.file else None
    try:
        sent = loop.run(injector.apply(loop.limit(records, count)))
    finally:
        progress.end()
    seconds = max(loop.seconds, 1e-9)
    damage = f", {injector.damage}" if str(injector.damage) else ""
    click.echo(f"sent {sent:,} {what} to {names} in {seconds:.1f} s ({sent / seconds:,.0f} records/s{damage})")
