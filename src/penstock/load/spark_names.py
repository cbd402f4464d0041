"""Maps Spark's option names to the keys of a pipeline file, for suggestions."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.text import did_you_mean

_CONNECTOR, _SOURCE, _SINK = "an option of the connector", "a key of the source", "a key of the sink"
_TRIGGER = ("trigger", _SINK)

#: Spark's name in lower case: our key, and where it belongs.
_NAMES: dict[str, tuple[str, str]] = {
    # Kafka
    "kafka.bootstrap.servers": ("servers", _CONNECTOR),
    "bootstrap.servers": ("servers", _CONNECTOR),
    "bootstrapservers": ("servers", _CONNECTOR),
    "bootstrap_servers": ("servers", _CONNECTOR),
    "subscribe": ("topics", _CONNECTOR),
    "subscribepattern": ("pattern", _CONNECTOR),
    "assign": ("partitions", _CONNECTOR),
    "startingoffsets": ("start", _CONNECTOR),
    "startingtimestamp": ("start", _CONNECTOR),
    "startingoffsetsbytimestamp": ("start", _CONNECTOR),
    "startingversion": ("start", _CONNECTOR),
    "endingoffsets": ("end", _CONNECTOR),
    "endingtimestamp": ("end", _CONNECTOR),
    "endingoffsetsbytimestamp": ("end", _CONNECTOR),
    "maxoffsetspertrigger": ("records_per_trigger", _CONNECTOR),
    "includeheaders": ("headers", _CONNECTOR),
    "failondataloss": ("on_data_loss", _CONNECTOR),
    # files and Delta
    "maxfilespertrigger": ("files_per_trigger", _CONNECTOR),
    "maxbytespertrigger": ("bytes_per_trigger", _CONNECTOR),
    "latestfirst": ("newest_first", _CONNECTOR),
    "maxfileage": ("max_age", _CONNECTOR),
    "pathglobfilter": ("glob", _CONNECTOR),
    "recursivefilelookup": ("recursive", _CONNECTOR),
    "cleansource": ("after_read", _CONNECTOR),
    "sourcearchivedir": ("archive_to", _CONNECTOR),
    "inferschema": ("infer", _CONNECTOR),
    "partitionby": ("partition_by", _CONNECTOR),
    "versionasof": ("as_of", _CONNECTOR),
    "timestampasof": ("as_of", _CONNECTOR),
    "readchangefeed": ("change_feed", _CONNECTOR),
    # the others
    "dbtable": ("table", _CONNECTOR),
    "numrows": ("rows", _CONNECTOR),
    "numpartitions": ("partitions", _CONNECTOR),
    "rampuptime": ("ramp_up_seconds", _CONNECTOR),
    "includetimestamp": ("timestamps", _CONNECTOR),
    "withwatermark": ("watermark", _SOURCE),
    "eventtime": ("column", "a key of 'watermark'"),
    "delaythreshold": ("delay", "a key of 'watermark'"),
    "outputmode": ("mode", _SINK),
    "processingtime": _TRIGGER,
    "availablenow": _TRIGGER,
    "continuous": _TRIGGER,
    "realtime": _TRIGGER,
}
#: Spark's names without an equivalent key.
_HINTS = {
    "queryname": "here it is the sink's own name",
    "checkpointlocation": "here it is called 'storage', a key of the file; each sink has its own checkpoint in it",
    "format": "here the connector is the key: write 'kafka: {...}', or 'files: {format: csv, ...}'",
}


def suggest_key(word: str, known: Iterable[str]) -> str:
    """Suggest a key for an unknown one: our name for one of Spark's, the nearest known key, or all of them."""
    keys = list(known)
    name = find_name(word)
    if name in keys:
        return f"here it is called {name!r}"
    if name:
        return f"here it is called {name!r}, {_NAMES[word.lower()][1]}"
    return _HINTS.get(word.lower()) or did_you_mean(word, keys)


def find_name(word: str) -> str:
    """Our key for one of Spark's option names; '' if it is not one."""
    return _NAMES.get(word.lower(), ("", ""))[0]
