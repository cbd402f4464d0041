"""The events of a pipeline: the catalogue of their kinds, and the event log, one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import os
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO, Literal

from penstock.options import parse_time
from penstock.redaction import redact, redact_values
from penstock.text import printable

Event = dict[str, Any]
"""`at` (ISO time), `what` (a name of the catalogue) and the facts of that kind."""
Emit = Callable[..., None]
"""Takes an event's name and its facts: `emit("missed", sink="a", target="b", rows=3)`."""


def ignore_event(_what: str, **_facts: Any) -> None:
    """For tests and notebooks, which keep no event log."""


Level = Literal["info", "warning", "error"]
State = Literal["new", "starting", "running", "draining", "restarting", "stalled", "stopped", "failed", "gone"]


@dataclass(frozen=True)
class EventKind:
    """One kind of event, and everything that the views need to know about it."""

    name: str
    fields: tuple[str, ...]
    """The facts that it carries."""
    sentence: str
    """Its wording, a format string over its fields; the same in the terminal, the history, the page and webhooks."""
    level: Level = "info"
    """`error` if its `reason` is why the pipeline or a query failed."""
    state: State | None = None
    """The state that the pipeline is in after it; None if it does not change the state."""
    webhook: bool = False
    """Whether a webhook without `events` sends it."""
    printed: bool = False
    """Whether `penstock run` prints it."""


CATALOGUE: dict[str, EventKind] = {
    kind.name: kind
    for kind in (
        EventKind(
            "batch",
            ("progress", "oldest_window_ends", "static_age_seconds"),
            "{progress[name]}: batch {progress[batchId]}, {progress[numInputRows]:,} rows",
        ),
        EventKind(
            "lease_taken",
            ("token", "pid", "host"),
            "lease acquired with token {token} by pid {pid} on {host}",
            state="starting",
        ),
        EventKind("lease_released", ("token",), "lease released", state="stopped"),
        EventKind("lease_lost", ("reason",), "lease lost: {reason}", level="error", webhook=True, printed=True),
        EventKind(
            "lease_beat_failed",
            ("reason",),
            "the lease file cannot be written: {reason}",
            level="warning",
            printed=True,
        ),
        EventKind("driver_started", ("pid", "attempt", "supervisor"), "driver started, pid {pid}", state="starting"),
        EventKind(
            "driver_ended", ("pid", "code", "well", "reason"), "driver ended: {reason}", level="error", state="failed"
        ),
        EventKind("started", ("sinks", "attempt"), "queries started: {sinks}", state="running"),
        EventKind("stopped", (), "queries stopped", state="stopped"),
        EventKind(
            "draining",
            ("why", "most_seconds"),
            "draining ({why}): finishing and committing the running batches; a second signal stops at once",
            state="draining",
            printed=True,
        ),
        EventKind("drained", (), "drained: every running batch was committed"),
        EventKind(
            "abandoned",
            ("sinks",),
            "the running batch of {sinks} did not end in time and was abandoned; a restart repeats it",
            level="warning",
        ),
        EventKind("stopping_now", ("why",), "stopping at once ({why})", level="warning", printed=True),
        EventKind(
            "restarting",
            ("reason", "wait_seconds", "restart"),
            "restart {restart} in {wait_seconds} s: {reason}",
            level="error",
            state="restarting",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "query_restarting",
            ("sink", "reason"),
            "the query {sink!r} is restarted alone: {reason}",
            level="error",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "gave_up",
            ("restarts", "reason"),
            "gave up after {restarts} restarts: {reason}",
            level="error",
            state="failed",
            webhook=True,
            printed=True,
        ),
        EventKind("failed", ("reason",), "failed: {reason}", level="error", state="failed", webhook=True),
        EventKind("refreshed", ("source",), "the static table {source!r} was reloaded", printed=True),
        EventKind(
            "stale",
            ("source", "reason"),
            "the static table {source!r} could not be reloaded and keeps its old rows: {reason}",
            level="warning",
            printed=True,
        ),
        EventKind(
            "target_away",
            ("sink", "target", "reason"),
            "{sink}: the optional target {target!r} cannot be opened, and misses rows until it can: {reason}",
            level="warning",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "missed",
            ("sink", "target", "batch", "rows", "reason"),
            "{rows:,} rows of batch {batch} of {sink!r} are missing in the optional target {target!r}: {reason}",
            level="warning",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "state_limit",
            ("sink", "rows", "bytes", "limit"),
            "the state of {sink!r} has {rows:,} rows and {bytes:,} bytes, more than the limit of {limit:,}; "
            "shorten the watermark's delay or the windows, expire keys sooner, or raise 'state_limit'",
            level="warning",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "stalled",
            ("sink", "seconds", "reason"),
            "the query {sink!r} is stalled: no batch has ended for {seconds:.0f} s: {reason}",
            level="warning",
            printed=True,
        ),
        EventKind("resumed", ("sink",), "the query {sink!r} has resumed", printed=True),
        EventKind(
            "reports_missing",
            ("seconds",),
            "Spark has not reported every batch after {seconds:.0f} s; the next start adds the missing ones "
            "to the journal",
            level="warning",
            printed=True,
        ),
        EventKind(
            "not_counted",
            ("sink", "reason"),
            "the query {sink!r} runs, but its late rows cannot be counted: {reason}",
            level="warning",
            printed=True,
        ),
        EventKind(
            "gap",
            ("sink", "source", "topic", "partition", "start", "end", "count", "why"),
            "a gap of {count:,} records in {topic} partition {partition}, offsets {start} to {end}: {why}",
            level="warning",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "clock_set_back",
            ("seconds", "sinks"),
            "the clock was set back by {seconds:,} s; queries with an interval trigger were restarted: {sinks}",
            level="warning",
            printed=True,
        ),
        EventKind(
            "disk_low",
            ("path", "free_bytes", "total_bytes"),
            "the disk of {path} is almost full: {free_bytes:,} of {total_bytes:,} bytes are free; "
            "free some space before batches fail",
            level="warning",
            webhook=True,
            printed=True,
        ),
        EventKind(
            "topic_watch_failed",
            ("source", "reason"),
            "whether a topic of source {source!r} was recreated cannot be checked: {reason}",
            level="warning",
            printed=True,
        ),
        EventKind("checkpoint", ("sink", "says"), "checkpoint of {sink!r}: {says}", level="warning", printed=True),
        EventKind(
            "internals_missing",
            ("what_for", "names"),
            "this version of Spark lacks internals that {what_for} needs: {names}",
            level="warning",
            printed=True,
        ),
        EventKind(
            "listener_failed", ("listener", "reason"), "the listener {listener} failed: {reason}", level="warning"
        ),
        EventKind(
            "group_failed",
            ("source", "reason"),
            "the offsets of source {source!r} could not be committed to its consumer group: {reason}",
            level="warning",
        ),
    )
}

_ENDED_WELL = replace(CATALOGUE["driver_ended"], level="info", state=None)


def kind_of(event: Mapping[str, Any]) -> EventKind:
    """The kind of an event; for a name that is not in the catalogue, one without a sentence."""
    what = str(event.get("what"))
    if what == "driver_ended" and event.get("well", True):
        return _ENDED_WELL
    return CATALOGUE.get(what) or EventKind(what, (), "")


def describe(event: Mapping[str, Any]) -> str:
    """One event as a sentence in one line, without its time; never raises, also for unknown or damaged events."""
    sentence = kind_of(event).sentence
    if not sentence:
        facts = (f"{key}={_truncate(value)}" for key, value in event.items() if key not in ("at", "what"))
        return printable(" ".join([str(event.get("what")), *facts]))
    # A reason may be empty.
    return printable(_formatter.vformat(sentence, (), event).removesuffix(": "))


class _TolerantFormatter(string.Formatter):
    """`str.format` that shows `?` for a missing field, and a value that does not fit its format as it is."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        try:
            return super().get_field(field_name, args, kwargs)
        except (LookupError, TypeError, AttributeError):
            return "?", field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value))
        try:
            return format(value, format_spec)
        except (ValueError, TypeError, OverflowError):
            return str(value)


_formatter = _TolerantFormatter()


def _truncate(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


_MAX_BYTES = 200_000_000
"""How large the event log of a pipeline may be; its oldest files are deleted."""
_PART_BYTES = 20_000_000
"""How large one of its files may be."""


class EventLog:
    """Appends events to `events/<day>.jsonl` of a pipeline's storage; safe from any thread.

    A file that is full is followed by `<day>.1.jsonl`, `<day>.2.jsonl`, ...
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._local = _local_path(folder)
        self._lock = threading.Lock()
        self._day = ""
        self._file: BinaryIO | None = None

    def append(self, what: str, **facts: Any) -> None:
        """Append one event; it has been handed to the operating system when this returns."""
        now = datetime.now(timezone.utc)
        text = json.dumps(
            {"at": now.isoformat(timespec="milliseconds"), "what": what, **redact_values(facts)}, default=_to_text
        )
        with self._lock:
            file = self._current(now.date().isoformat())
            # A single write, because the supervisor and the driver append to the same file.
            file.write(text.encode() + b"\n")
            file.flush()

    def close(self) -> None:
        """Close the current file."""
        with self._lock:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._day = None, ""

    def _current(self, day: str) -> BinaryIO:
        if self._file is None or day != self._day or self._size(self._file) >= _PART_BYTES:
            self._close_file()
            self._file, self._day = self._open(day), day
            delete_oldest(self.folder, _MAX_BYTES - _PART_BYTES)
        return self._file

    def _size(self, file: BinaryIO) -> int:
        # The other process appends to a local file too.
        return os.fstat(file.fileno()).st_size if self._local else file.tell()

    def _open(self, day: str) -> BinaryIO:
        if self._local:
            folder = self._local
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = max((_order(each.name)[1] for each in folder.glob(f"{day}*{_SUFFIX}")), default=0)
            newest = folder / _part_name(day, part)
            is_full = newest.exists() and newest.stat().st_size >= _PART_BYTES
            return (folder / _part_name(day, part + is_full)).open("ab", buffering=0)
        import fsspec

        # Object stores cannot append, so each run writes a separate file.
        started = f"{datetime.now(timezone.utc):%H%M%S%f}-{os.getpid()}"
        opened: BinaryIO = fsspec.open(f"{self.folder}/{day}-{started}.jsonl", "wb").open()
        return opened


def _to_text(value: object) -> str:
    return redact(str(value))


_MAX_READ_BYTES = 16_000_000
_MAX_BRACKETS = 100
_MAX_LEVELS = 30
_DAY = len("2024-01-01")
_SUFFIX = ".jsonl"


def first_day(history_seconds: float, now: datetime) -> str:
    """The oldest day within a history of this length, like 2024-01-31."""
    return (now - timedelta(seconds=history_seconds)).date().isoformat()


@dataclass
class EventTail:
    """Reads one pipeline's event log as it grows, each event once, in the order written.

    A line that is still being written is left for the next call. A line that is not an event is counted instead of
    raised: a crash in the middle of a line must not hide what came after it.
    """

    folder: str
    since: str = ""
    """The first day to read, like 2024-01-31; empty for all."""
    broken: int = 0
    _read: dict[str, int] = field(default_factory=dict)

    def read_new(self) -> Iterator[Event]:
        """The events written since the last call."""
        for file, size in self._files():
            begin = self._read.get(file, 0)
            while begin < size:
                events, complete = self._read_events(file, begin)
                if not complete:
                    break
                begin += complete
                self._read[file] = begin
                yield from events

    def skip_to_end(self) -> None:
        """Skip what is there; `read_new` gives only what is written later."""
        self._read = dict(self._files())

    def _files(self) -> list[tuple[str, int]]:
        found = _list_files(self.folder)
        return [(file, size) for file, size in found if _name(file)[:_DAY] >= self.since]

    def _read_events(self, file: str, begin: int) -> tuple[list[Event], int]:
        try:
            with _open_file(self.folder, file) as opened:
                opened.seek(begin)
                data = opened.read(_MAX_READ_BYTES)
        except FileNotFoundError:
            # Deleted since it was listed, because it was the oldest.
            return [], 0
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _MAX_READ_BYTES:
            # Too long for an event: skip it.
            self.broken += 1
            return [], len(data)
        parsed = [self._parse(line) for line in data[:end].splitlines() if line.strip()]
        return [event for event in parsed if event is not None], end

    def _parse(self, line: bytes) -> Event | None:
        try:
            # NaN and Infinity are not JSON: browsers refuse a message that has one.
            event = json.loads(line, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("what"), str) and isinstance(event.get("at"), str):
            brackets = line.count(b"[") + line.count(b"{")
            if brackets <= _MAX_BRACKETS or not _is_nested_deeper(event, _MAX_LEVELS):
                return event
        self.broken += 1
        return None


def _is_nested_deeper(value: object, levels: int) -> bool:
    """Whether a value has more levels than this: views walk through values by recursion."""
    layer: list[Any] = [value]
    for _ in range(levels):
        layer = [child for each in layer for child in _children(each)]
    return bool(layer)


def _children(value: object) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _local_path(folder: str) -> Path | None:
    """The folder if it is on a file system of this machine."""
    return Path(folder.removeprefix("file://")) if "://" not in folder or folder.startswith("file://") else None


def _open_file(folder: str, file: str) -> BinaryIO:
    if _local_path(folder):
        return Path(file).open("rb")
    import fsspec

    opened: BinaryIO = fsspec.url_to_fs(folder)[0].open(file, "rb")
    return opened


def _list_files(folder: str) -> list[tuple[str, int]]:
    """The files of an event log and their sizes, in the order in which they were written."""
    local = _local_path(folder)
    entries = _list_local(local) if local else _list_remote(folder)
    return sorted(
        ((file, size) for file, size in entries if file.endswith(_SUFFIX)), key=lambda each: _order(_name(each[0]))
    )


def _list_local(folder: Path) -> Iterator[tuple[str, int]]:
    for file in folder.glob(f"*{_SUFFIX}"):
        # Old files are deleted at any time.
        with contextlib.suppress(FileNotFoundError):
            yield str(file), file.stat().st_size


def _list_remote(folder: str) -> Iterator[tuple[str, int]]:
    import fsspec

    system, path = fsspec.url_to_fs(folder)
    system.invalidate_cache()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in system.ls(path, detail=True):
            yield str(entry["name"]), int(entry["size"] or 0)


def _order(name: str) -> tuple[str, int, str]:
    """The day of a file, and its number among those of the day: `2024-01-01.jsonl`, `2024-01-01.1.jsonl`, ..."""
    rest = name[_DAY:].removesuffix(_SUFFIX)
    return name[:_DAY], int(rest[1:]) if rest[:1] == "." and rest[1:].isdecimal() else 0, name


def _part_name(day: str, part: int) -> str:
    return f"{day}.{part}{_SUFFIX}" if part else f"{day}{_SUFFIX}"


def delete_before(folder: str, day: str) -> list[str]:
    """Delete the files of the days before this one; returns their paths."""
    return _delete(folder, [file for file, _ in _list_dated_files(folder) if _name(file)[:_DAY] < day])


def delete_oldest(folder: str, max_bytes: int) -> list[str]:
    """Delete the oldest files of a log that is larger than this, never the newest one; returns their paths."""
    files = _list_dated_files(folder)
    excess = sum(size for _, size in files) - max_bytes
    old = []
    for file, size in files[:-1]:
        if excess > 0:
            old.append(file)
            excess -= size
    return _delete(folder, old)


def _list_dated_files(folder: str) -> list[tuple[str, int]]:
    return [(file, size) for file, size in _list_files(folder) if epoch_seconds(_name(file)[:_DAY]) > 0]


def _delete(folder: str, files: list[str]) -> list[str]:
    for file in files:
        # The other process may be deleting them too, and what cannot be deleted must not end a pipeline.
        with contextlib.suppress(OSError):
            if _local_path(folder):
                Path(file).unlink()
            else:
                import fsspec

                fsspec.url_to_fs(folder)[0].rm_file(file)
    return files


def epoch_seconds(text: object) -> float:
    """A time as the event log or Spark writes it, in seconds since 1970; 0 if it is none."""
    try:
        return parse_time(str(text)).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
