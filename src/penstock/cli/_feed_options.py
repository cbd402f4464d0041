"""The options of `penstock feed`, by what they are about, and which source knows which of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli import _feeding as given
from penstock.connectors.kafka import EMBEDDED
from penstock.errors import CallError
from penstock.words import listed

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
        raise CallError(f"{listed(said, 'and')}: that is not for {source}; take it out")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
