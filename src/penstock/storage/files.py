"""Small files of a storage: written atomically and fsynced, through the file system or fsspec."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import re
import stat
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError

_FSYNC_THREADS = 8


def is_local(url: str) -> bool:
    """Whether it is a path of this machine (a shared file system that is mounted here included)."""
    return "://" not in url


def local_path(url: str) -> Path | None:
    """Where a file or folder of Spark's is on this machine; None if it is elsewhere."""
    path = Path(re.sub(r"^file:(//)?(?=/)", "", url))
    # Without a scheme it may still be elsewhere: Hadoop has a setting for that.
    return path if path.is_absolute() and path.exists() else None


def write_atomic(url: str, text: str, *, sync: bool = True) -> None:
    """Replace a file in one step; with `sync` it survives a power cut."""
    if not is_local(url):
        import fsspec

        # An object store writes an object atomically.
        system, path = fsspec.url_to_fs(url)
        if "file" in system.protocol:
            system.makedirs(system._parent(path), exist_ok=True)
        system.pipe_file(path, text.encode())
        return
    path = Path(url)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Its own name each time: two threads may write the same file.
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if sync:
        fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """The names in a folder are on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_file(path: Path) -> None:
    """What another program wrote to a file is on the disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_files(paths: Iterable[Path]) -> None:
    """What another program wrote to these files, and their names, are on the disk when this returns."""
    found = set(paths)
    _fsync_all(found | {path.parent for path in found})


def fsync_tree(folder: Path) -> None:
    """A folder and everything in it is on the disk when this returns."""
    _fsync_all([folder, *folder.rglob("*")])


def fsync_parents(folder: Path) -> None:
    """The folder itself survives a power cut, however many of those above it are new."""
    for each in (folder, *folder.parents):
        try:
            fsync_folder(each)
        except PermissionError:
            # Not ours to read, so not created by us.
            return
        if each.is_mount():
            return


def _fsync_all(paths: Iterable[Path]) -> None:
    # At the same time: the file system then writes them in one transaction instead of one for each.
    with ThreadPoolExecutor(_FSYNC_THREADS) as pool:
        list(pool.map(fsync_file, paths))


def remove_crc(url: str) -> None:
    """Remove Hadoop's checksum of a file, which was that of its old content."""
    if is_local(url):
        Path(url).with_name(f".{Path(url).name}.crc").unlink(missing_ok=True)


def read(url: str) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        if is_local(url):
            return Path(url).read_bytes()
        import fsspec

        system, path = fsspec.url_to_fs(url)
        content: bytes = system.cat_file(path)
        return content
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_names(url: str) -> list[str]:
    """The names in a folder; empty if the folder does not exist."""
    try:
        if is_local(url):
            return sorted(each.name for each in Path(url).iterdir())
        import fsspec

        system, path = fsspec.url_to_fs(url)
        return sorted(str(each).rstrip("/").rsplit("/", 1)[-1] for each in system.ls(path, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(url: str) -> None:
    """Delete a file, if it is there."""
    if is_local(url):
        Path(url).unlink(missing_ok=True)
        return
    import fsspec

    system, path = fsspec.url_to_fs(url)
    if system.exists(path):
        system.rm_file(path)


def find_other_writers(path: Path) -> str:
    """Describe who besides us and root can change a file or folder; empty if only we can."""
    return other_writers(path.stat(), os.getuid())


def other_writers(found: os.stat_result, user: int) -> str:
    """The same for a `stat` result and a user."""
    mode = f"(mode {stat.S_IMODE(found.st_mode):03o})"
    if found.st_uid not in (user, 0):
        return f"its owner is user {found.st_uid}"
    if found.st_mode & stat.S_IWOTH:
        return f"everyone can {mode}"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid, user):
        return f"its group can {mode}"
    return ""


def _is_private_group(group: int, user: int) -> bool:
    """Whether it is the user's private group: same id, no other member."""
    if group != user or group == 0:
        return False
    try:
        return not grp.getgrgid(group).gr_mem
    except KeyError:
        return True


class RecordError(PenstockError):
    """A file of the storage is not what was written."""

    def __init__(self, url: str, says: str, fix: str) -> None:
        self.says, self.fix = f"{url} is damaged: {says}", fix
        super().__init__(f"{self.says}; {fix}")


def digest(content: bytes) -> str:
    """The checksum that records carry."""
    return hashlib.sha256(content).hexdigest()


def write_record(url: str, values: Mapping[str, Any]) -> None:
    """Replace a record; on the disk when this returns."""
    write_atomic(url, json.dumps({"record": values, "sum": _sum(url, values)}))


def read_record(url: str, fix: str) -> dict[str, Any] | None:
    """What was written, None if nothing was; a RecordError with the remedy `fix` if it has changed since.

    Release 0.1 wrote most of them without a checksum: those are taken as they are.
    """
    content = read(url)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        if "sum" not in found:
            return found
        values: dict[str, Any] = found["record"]
        # Release 0.1 did not include the place.
        if found["sum"] not in (_sum(url, values), _sum("", values)):
            raise ValueError("its checksum differs")
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(url, str(error), fix) from error
    return values


def _sum(url: str, values: Mapping[str, Any]) -> str:
    """Includes the name and its folder: a record that was copied over another one is noticed."""
    place = "/".join(url.split("/")[-2:]) if url else ""
    return digest((place + json.dumps(values, sort_keys=True)).encode())
