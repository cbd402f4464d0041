"""Reads files to replay: JSON lines, lines of text, CSV, Parquet, and recordings of `penstock record`.

A line of JSON, text or CSV becomes the value of a record unchanged; a row of Parquet becomes JSON.
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
from penstock.feeds import recording
from penstock.feeds import records as rows
from penstock.feeds.records import Record
from penstock.text import did_you_mean, join_words, show

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_LITERALS = {"": None, "true": True, "false": False}


@dataclass(frozen=True)
class Replay:
    """A file, and its columns for the event time and the key."""

    path: Path
    time_column: str | None = None
    key_column: str | None = None
    as_json: bool = False
    """CSV: send each row as a JSON object instead of its line."""
    key_separator: str | None = None
    """Lines: the text between the key and the value."""
    shift_to: float | None = None
    """The new time of the first record, in seconds since 1970; all others are shifted by the same amount."""

    def records(self) -> Iterator[Record]:
        """The records in file order; an error names the line and what is wrong with it."""
        reader = self._select_reader()
        if reader != self._read_recording and self.shift_to is not None and not self.time_column:
            raise CallError(f"--now needs the time of each record of {self.path.name}; give --time-column")
        return self._shift_times(reader()) if self.shift_to is not None else reader()

    def _select_reader(self) -> Callable[[], Iterator[Record]]:
        try:
            with self.path.open("rb") as file:
                head = file.read(4096)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise CallError(f"{self.path} cannot be read: {why}; give a .jsonl, .txt, .csv or .parquet file") from error
        if recording.is_recording(head):
            return self._read_recording
        readers = {
            **dict.fromkeys((".jsonl", ".json", ".txt", ".log"), self._read_lines),
            ".csv": self._read_csv,
            ".parquet": self._read_parquet,
        }
        found = readers.get(self.path.suffix.lower())
        if self.key_separator and found is not None and found != self._read_lines:
            raise CallError(f"--key-separator is for lines of text, and {self.path.name} has columns; use --key-column")
        if found is None:
            ending = f"is {self.path.suffix}" if self.path.suffix else "has no file extension"
            raise CallError(f"{self.path.name} {ending}; a feed replays {join_words(sorted(readers))}")
        return found

    def _read_recording(self) -> Iterator[Record]:
        options = {
            "--time-column": self.time_column,
            "--key-column": self.key_column,
            "--key-separator": self.key_separator,
        }
        given = [name for name, value in options.items() if value]
        if given:
            raise CallError(f"{self.path.name} is a recording, which has times and keys already; remove {given[0]}")
        return recording.read_records(self.path)

    def _read_lines(self) -> Iterator[Record]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                value = line.rstrip(b"\r\n")
                if not value.strip():
                    continue
                key, value = self._split(value, number)
                row: Mapping[str, Any] = {}
                if self.time_column or self.key_column or self.shift_to is not None:
                    row = self._parse_object(value, number)
                record = self._make_record(value, row, f"{self.path.name}:{number}")
                yield record if key is None else record._replace(key=key)

    def _split(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        """Split a line into key and value; the key is None without a separator."""
        if not self.key_separator:
            return None, line
        key, found, value = line.partition(self.key_separator.encode())
        if not found:
            says = f"no {self.key_separator!r} in {show(line.decode(errors='replace'))}"
            raise CallError(f"{self.path.name}:{number}: {says}; write a key, the separator and a value on every line")
        return key, value

    def _parse_object(self, value: bytes, number: int) -> Mapping[str, Any]:
        try:
            row = json.loads(value)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            text = show(value.decode(errors="replace"))
            raise CallError(
                f"{self.path.name}:{number}: {text} is not a JSON object; remove the line to replay the rest"
            )
        return row

    def _read_csv(self) -> Iterator[Record]:
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            taken: list[str] = []

            def lines() -> Iterator[str]:
                for line in file:
                    taken.append(line)
                    yield line

            rows_of_text = csv.reader(lines(), strict=True)
            names = next(rows_of_text, None)
            if not names:
                raise CallError(f"{self.path.name} is empty; its first line must name the columns")
            taken.clear()
            for texts in rows_of_text:
                line = "".join(taken).rstrip("\r\n")
                taken.clear()
                if not texts:
                    continue
                yield self._parse_csv_row(names, texts, line, rows_of_text.line_num)

    def _parse_csv_row(self, names: list[str], texts: list[str], line: str, number: int) -> Record:
        where = f"{self.path.name}:{number}"
        if len(texts) != len(names):
            raise CallError(f"{where}: {len(texts)} values, and the first line names {len(names)} columns; correct it")
        row = dict(zip(names, texts, strict=True))
        typed = {name: _parse_cell(text) for name, text in row.items()}
        return self._make_record(rows.encode(typed) if self.as_json else line.encode(), row, where)

    def _read_parquet(self) -> Iterator[Record]:
        import pyarrow
        import pyarrow.parquet

        try:
            file = pyarrow.parquet.ParquetFile(self.path)
        except pyarrow.ArrowInvalid as error:
            raise CallError(f"{self.path.name} is not a Parquet file: {str(error).splitlines()[0]}") from error
        number = 0
        with file:
            for batch in file.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    yield self._make_record(rows.encode(row), row, f"{self.path.name}, row {number}")

    def _make_record(self, value: bytes, row: Mapping[str, Any], where: str) -> Record:
        key = self._get(row, self.key_column, where) if self.key_column else None
        if not self.time_column:
            return Record(rows.encode_key(key), value)
        found = self._get(row, self.time_column, where)
        try:
            return Record(rows.encode_key(key), value, rows.epoch_seconds(found))
        except ValueError:
            says = f"{where}: {self.time_column!r} is {show(found)}, which is not a time"
            raise CallError(f"{says}; a time is '2024-05-01 12:00:00' or seconds or milliseconds since 1970") from None

    def _get(self, row: Mapping[str, Any], column: str, where: str) -> Any:
        found = rows.get_field(row, column)
        if found is rows.MISSING:
            raise CallError(f"{where}: no column {column!r}; {did_you_mean(column, row)}")
        return found

    def _shift_times(self, records: Iterator[Record]) -> Iterator[Record]:
        by: float | None = None
        for record in records:
            if record.time is None:
                yield record
                continue
            by = (self.shift_to or 0.0) - record.time if by is None else by
            yield self._shift(record, by)

    def _shift(self, record: Record, by: float) -> Record:
        moment = (record.time or 0.0) + by
        if record.timestamp is not None:
            return record._replace(time=moment, timestamp=record.timestamp + round(by * 1000))
        if not self.time_column:
            return record._replace(time=moment)
        text = record.value or b""
        if self.path.suffix.lower() == ".csv" and not self.as_json:
            raise CallError("--now rewrites the time in each record, and a CSV line stays as it is; add --as-json")
        return record._replace(time=moment, value=rows.shift_time(text, self.time_column, by))


def _parse_cell(text: str) -> Any:
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    return json.loads(text) if _NUMBER.fullmatch(text) else text
