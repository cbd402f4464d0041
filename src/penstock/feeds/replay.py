"""Recorded data, sent again: JSON lines, lines of text, CSV, Parquet, and what `penstock record` has stored.

The value of a record is what stands in the file: a line of JSON, text or CSV as it is, a row of Parquet as JSON.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CallError
from penstock.feeds import recording, rows
from penstock.feeds.record import Record
from penstock.text import did_you_mean, join_words, show

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LITERALS = {"": None, "true": True, "false": False}


@dataclass(frozen=True)
class Replay:
    """A file, and which of its columns say when a record happened and what its key is."""

    path: Path
    time_column: str | None = None
    key_column: str | None = None
    as_json: bool = False
    """CSV: send each row as a JSON object instead of its line."""
    key_separator: str | None = None
    """Lines: what stands between the key and the value."""
    shift_to: float | None = None
    """The second that the first record is moved to, and all others with it."""

    def records(self) -> Iterator[Record]:
        """The records in the file's order; an error says what is wrong, and in which line."""
        reader = self._reader()
        if reader != self._recorded and self.shift_to is not None and not self.time_column:
            raise CallError(f"moving the times of {self.path.name} to now needs to know them; give --time-column")
        return self._shifted(reader()) if self.shift_to is not None else reader()

    def _reader(self) -> Callable[[], Iterator[Record]]:
        try:
            with self.path.open("rb") as file:
                begins = file.read(4096)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise CallError(f"{self.path} cannot be read: {why}; give a .jsonl, .txt, .csv or .parquet file") from error
        if recording.is_recording(begins):
            return self._recorded
        readers = {
            **dict.fromkeys((".jsonl", ".json", ".txt", ".log"), self._lines),
            ".csv": self._csv,
            ".parquet": self._parquet,
        }
        found = readers.get(self.path.suffix.lower())
        if self.key_separator and found is not None and found != self._lines:
            raise CallError(f"--key-separator is for lines of text, and {self.path.name} has columns; use --key-column")
        if found is None:
            ending = self.path.suffix or "a name without an ending"
            raise CallError(f"{self.path.name} is {ending}; a feed replays {join_words(sorted(readers))}")
        return found

    def _recorded(self) -> Iterator[Record]:
        options = {
            "--time-column": self.time_column,
            "--key-column": self.key_column,
            "--key-separator": self.key_separator,
        }
        given = [name for name, value in options.items() if value]
        if given:
            raise CallError(f"{self.path.name} is a recording, with times and keys of its own; take {given[0]} out")
        return recording.read(self.path)

    def _lines(self) -> Iterator[Record]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                value = line.rstrip(b"\r\n")
                if not value.strip():
                    continue
                key, value = self._split(value, number)
                row: Mapping[str, Any] = {}
                if self.time_column or self.key_column or self.shift_to is not None:
                    row = self._object(value, number)
                record = self._record(value, row, f"{self.path.name}:{number}")
                yield record if key is None else record._replace(key=key)

    def _split(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        """The key and the value of a line; the key is None unless there is a separator."""
        if not self.key_separator:
            return None, line
        key, found, value = line.partition(self.key_separator.encode())
        if not found:
            says = f"there is no {self.key_separator!r} in {show(line.decode(errors='replace'))}"
            raise CallError(f"{self.path.name}:{number}: {says}; write a key, the separator and a value on every line")
        return key, value

    def _object(self, value: bytes, number: int) -> Mapping[str, Any]:
        try:
            row = json.loads(value)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            text = show(value.decode(errors="replace"))
            raise CallError(
                f"{self.path.name}:{number}: {text} is no JSON object; take the line out to replay the rest"
            )
        return row

    def _csv(self) -> Iterator[Record]:
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            taken: list[str] = []

            def lines() -> Iterator[str]:
                for line in file:
                    taken.append(line)
                    yield line

            rows_of_text = csv.reader(lines(), strict=True)
            names = next(rows_of_text, None)
            if not names:
                raise CallError(f"{self.path.name} is empty; its first line should name the columns")
            taken.clear()
            for texts in rows_of_text:
                line = "".join(taken).rstrip("\r\n")
                taken.clear()
                if not texts:
                    continue
                yield self._csv_record(names, texts, line, rows_of_text.line_num)

    def _csv_record(self, names: list[str], texts: list[str], line: str, number: int) -> Record:
        where = f"{self.path.name}:{number}"
        if len(texts) != len(names):
            raise CallError(f"{where}: {len(texts)} values, and the first line names {len(names)} columns; correct it")
        row = dict(zip(names, texts, strict=True))
        typed = {name: _typed(text) for name, text in row.items()}
        return self._record(rows.encoded(typed) if self.as_json else line.encode(), row, where)

    def _parquet(self) -> Iterator[Record]:
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(self.path)
        except pyarrow.ArrowInvalid as error:
            raise CallError(f"{self.path.name} is no Parquet file: {str(error).splitlines()[0]}") from error
        number = 0
        with file:
            for batch in file.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    yield self._record(rows.encoded(row), row, f"{self.path.name}, row {number}")

    def _record(self, value: bytes, row: Mapping[str, Any], where: str) -> Record:
        key = self._at(row, self.key_column, where) if self.key_column else None
        if not self.time_column:
            return Record(rows.key(key), value)
        found = self._at(row, self.time_column, where)
        try:
            return Record(rows.key(key), value, rows.seconds(found))
        except ValueError:
            says = f"{where}: {self.time_column!r} is {show(found)}, which is no time"
            raise CallError(f"{says}; a time is '2024-05-01 12:00:00' or seconds or milliseconds since 1970") from None

    def _at(self, row: Mapping[str, Any], column: str, where: str) -> Any:
        found = rows.field(row, column)
        if found is rows.MISSING:
            raise CallError(f"{where}: there is no column {column!r}; {did_you_mean(column, row)}")
        return found

    def _shifted(self, records: Iterator[Record]) -> Iterator[Record]:
        by: float | None = None
        for record in records:
            if record.time is None:
                yield record
                continue
            by = (self.shift_to or 0.0) - record.time if by is None else by
            yield self._moved(record, by)

    def _moved(self, record: Record, by: float) -> Record:
        moment = (record.time or 0.0) + by
        if record.timestamp is not None:
            return record._replace(time=moment, timestamp=record.timestamp + round(by * 1000))
        if not self.time_column:
            return record._replace(time=moment)
        text = record.value or b""
        if self.path.suffix.lower() == ".csv" and not self.as_json:
            raise CallError("--now rewrites the time in each record, and a CSV line stays as it is; add --as-json")
        return record._replace(time=moment, value=rows.moved(text, self.time_column, by))


def _typed(text: str) -> Any:
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    return json.loads(text) if _NUMBER.fullmatch(text) else text
