"""A Delta table through Delta's Java classes: what its SQL and DataFrame interfaces do not offer or do too slowly."""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from penstock.options import quote
from penstock.spark.internals import jvm, to_list
from penstock.storage.files import fsync_files, fsync_parents, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG_FILE = re.compile(r"\.?(\d{20})\.(?!.*\.tmp$)")
#: Delta writes the ids of deletion vectors in ZeroMQ's base 85, Python reads that of RFC 1924.
_BASE_85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
_ID_CHARACTERS = 20


@dataclass
class DeltaTable:
    """A table at a path, seen through one session."""

    spark: SparkSession
    path: str
    _compacted_at: float | None = field(default=None, init=False)
    """When it was last compacted, in seconds since the epoch, as far as is known."""
    _committed: tuple[int, str, int] | None = field(default=None, init=False)
    """Version, writer and batch of the last `commit`; None after a failure, which may have committed."""
    _synced: int | None = field(default=None, init=False)
    """The last version that is on the disk; None before the first `sync`."""

    @property
    def exists(self) -> bool:
        """Whether there is a Delta table at the path."""
        return bool(self._static.isDeltaTable(self.spark._jsparkSession, self.path))

    @property
    def schema(self) -> StructType:
        """Its columns now."""
        return self.spark.read.format("delta").load(self.path).schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that are folders."""
        (row,) = self._rows(self._table.detail(), "partitionColumns")
        return tuple(row.partitionColumns)

    def create(self, schema: StructType, partition_by: Sequence[str], options: Mapping[str, str]) -> None:
        """Create the table, or add the columns that it does not have."""
        nothing = self.spark.createDataFrame([], schema)
        writer = nothing.write.format("delta").mode("append").option("mergeSchema", "true").options(**options)
        writer.save(self.path, partitionBy=list(partition_by) or None)

    def commit(self, rows: DataFrame, mode: str, writer: str, number: int, options: Mapping[str, str]) -> None:
        """One commit of a batch with its transaction version, unless the table has it; `mode` is append or overwrite.

        Delta's own writer always asks the table for the version of the last batch, and for that reads its whole log
        again: most of the time that a small batch takes. It is asked only if the newest commit is not the batch before.
        """
        java = jvm(self.spark)
        delta, none, session = java.org.apache.spark.sql.delta, java.scala.Option.empty(), self.spark._jsparkSession
        log = self._log
        transaction = log.startTransaction()
        # As if it had been asked: should another process commit the same batch meanwhile, Delta refuses this one.
        transaction.readTxn().append(writer)
        follows, self._committed = self._committed == (transaction.readVersion(), writer, number - 1), None
        if not follows and transaction.txnVersion(writer) >= number:
            return
        save_mode = java.org.apache.spark.sql.SaveMode.valueOf(mode.capitalize())
        columns, settings = java.PythonUtils.toSeq([]), java.PythonUtils.toScalaMap({})
        given = delta.DeltaOptions(java.PythonUtils.toScalaMap(dict(options)), session.sessionState().conf())
        write = delta.commands.WriteIntoDelta(log, save_mode, given, columns, settings, rows._jdf, none, none, False)
        actions = write.write(transaction, session, none, False)
        # Before the commit, so that it lists only files that are on the disk, whatever happens.
        self._sync_data(action.json() for action in to_list(actions))
        operation = getattr(delta, "DeltaOperations$Write")
        metadata = given.userMetadata()
        written = operation(save_mode, none, none, metadata, none, none, none, none, none)
        self._committed = (int(transaction.commit(actions, written)), writer, number)

    def last_batch(self, writer: str) -> int:
        """The transaction version of a writer, -1 if there is none; one less if files of the newest commits are cut."""
        last = int(self._log.startTransaction().txnVersion(writer))
        return last - 1 if last >= 0 and self._find_cut_files() else last

    def sync(self) -> None:
        """The table's commits since the last call are on the disk when this returns; at first, since its checkpoint."""
        folder = local_path(self.path)
        if folder is None:
            return
        found = self._log_files(folder)
        if self._synced is None:
            fsync_parents(folder)
        commits = [file for file in found if _is_commit(file)]
        if any(".checkpoint." in file.name for file in found):
            found += [*folder.glob("_delta_log/*_last_checkpoint*"), *folder.glob("_delta_log/_sidecars/*")]
        # The files of our own commit are there already.
        others = [file for file in commits if not self._committed or _version(file) != self._committed[0]]
        self._sync_data(line for file in others for line in _lines(file))
        fsync_files(found)
        self._synced = max(map(_version, commits), default=self._synced)

    def _log_files(self, folder: Path) -> list[Path]:
        """What belongs to the versions after the last one that is on the disk, or since the newest checkpoint."""
        found = [file for file in (folder / "_delta_log").iterdir() if _LOG_FILE.match(file.name)]
        synced = self._synced
        if synced is None:
            synced = max((_version(file) for file in found if ".checkpoint." in file.name), default=0) - 1
        return sorted(file for file in found if _version(file) > synced)

    def _sync_data(self, actions: Iterable[str]) -> None:
        folder = local_path(self.path)
        if folder is None:
            return
        files = {file for file, _ in _data_files(folder, actions) if file.exists()}
        checksums = {file.with_name(f".{file.name}.crc") for file in files}
        inside = {parent for file in files for parent in file.parents if parent.is_relative_to(folder)}
        fsync_files(files | inside | {file for file in checksums if file.exists()})

    def _find_cut_files(self) -> set[Path]:
        """Files of the newest commits that are shorter than these say: the disk did not have them at a power cut."""
        folder, cut = local_path(self.path), set[Path]()
        if folder is None:
            return cut
        for lines in map(_lines, filter(_is_commit, self._log_files(folder))):
            cut -= {folder / unquote(action["path"]) for action in _actions(lines, "remove")}
            cut |= {each for each, size in _data_files(folder, lines) if each.exists() and each.stat().st_size < size}
        return cut

    def merge(self, rows: DataFrame, key: Sequence[str], latest_by: str | None) -> None:
        """Write rows over those with the same key, unless the table has a later one; add the others."""
        same = " AND ".join(f"old.{quote(name)} <=> new.{quote(name)}" for name in key)
        values = {quote(name): f"new.{quote(name)}" for name in rows.columns}
        merge = self._table.alias("old").merge(rows.alias("new")._jdf, same)
        if latest_by:
            column = quote(latest_by)
            matched = merge.whenMatched(f"old.{column} IS NULL OR new.{column} >= old.{column}")
        else:
            matched = merge.whenMatched()
        matched.updateExpr(values).whenNotMatched().insertExpr(values).execute()

    def compact(self) -> None:
        """Rewrite small files as larger ones; readers and old versions see no difference."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            self._table.optimize().executeCompaction()
        except (Py4JJavaError, PySparkException) as error:
            # Another writer changed the same files meanwhile. Nothing is lost; the next compaction does it.
            if "DELTA_CONCURRENT" not in str(error):
                raise
        self._compacted_at = time.time()

    def seconds_since_compaction(self) -> float:
        """The age of the last compaction, by this process or an earlier one; of the table if there was none."""
        if self._compacted_at is None:
            history = self._rows(self._table.history(), "operation", "timestamp")
            times = [row.timestamp.timestamp() for row in history if row.operation == "OPTIMIZE"]
            self._compacted_at = max(times or [row.timestamp.timestamp() for row in history])
        return time.time() - self._compacted_at

    def vacuum(self, hours: float) -> None:
        """Delete files that have not been part of the table for so long."""
        self._table.vacuum(float(hours))

    @property
    def _log(self) -> Any:
        return jvm(self.spark).org.apache.spark.sql.delta.DeltaLog.forTable(self.spark._jsparkSession, self.path)

    @property
    def _static(self) -> Any:
        return jvm(self.spark).io.delta.tables.DeltaTable

    @property
    def _table(self) -> Any:
        return self._static.forPath(self.spark._jsparkSession, self.path)

    def _rows(self, java_rows: Any, *columns: str) -> list[Any]:
        from pyspark.sql import DataFrame

        return DataFrame(java_rows, self.spark).select(*columns).collect()


def _version(file: Path) -> int:
    """The version that a file of the log belongs to."""
    match = _LOG_FILE.match(file.name)
    return int(match[1]) if match else -1


def _is_commit(file: Path) -> bool:
    return file.name == f"{_version(file):020d}.json"


def _lines(commit: Path) -> list[str]:
    return commit.read_text(encoding="utf-8").splitlines()


def _actions(lines: Iterable[str], *kinds: str) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield from (action for kind, action in json.loads(line).items() if kind in kinds)


def _data_files(folder: Path, lines: Iterable[str]) -> Iterator[tuple[Path, int]]:
    """The files that a commit adds to the table, with their least size in bytes."""
    for action in _actions(lines, "add", "cdc"):
        yield folder / unquote(action["path"]).removeprefix("file:"), int(action["size"])
        vector = action.get("deletionVector") or {}
        if vector.get("storageType") == "u":
            name = str(vector["pathOrInlineDv"])
            prefix, digits = name[:-_ID_CHARACTERS], name[-_ID_CHARACTERS:].translate(_BASE_85)
            file = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(digits))}.bin"
            yield folder / prefix / file, int(vector["offset"]) + int(vector["sizeInBytes"])
