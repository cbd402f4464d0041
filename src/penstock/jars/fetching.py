"""Downloads missing jars in one Ivy run and checks each before it enters the cache."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from penstock.errors import JarError
from penstock.jars import ivy
from penstock.jars.cache import cache_folder, find_damage, find_problems, paths
from penstock.jars.lock import LOCK, Jar, Lock

Progress = Callable[[str, int, int], None]
"""Called with the current jar, the bytes so far and the total bytes."""


def fetch(groups: Iterable[str], progress: Progress | None = None, lock: Lock = LOCK) -> list[Path]:
    """Download the missing jars of some groups and return their files; safe with concurrent processes."""
    groups = list(groups)
    if find_problems(groups, lock):
        with _lock_folder(cache_folder()):
            # Another process may have fetched them while this one waited.
            wanted = [problem.jar for problem in find_problems(groups, lock)]
            if wanted:
                _fetch(wanted, progress or (lambda *_: None))
    return paths(groups, lock)


def _fetch(wanted: Sequence[Jar], progress: Progress) -> None:
    staging = cache_folder() / ".fetching"
    shutil.rmtree(staging, ignore_errors=True)
    total = sum(jar.size_bytes for jar in wanted)
    progress(wanted[0].coordinate, 0, total)
    try:
        ivy.run(staging, [jar.coordinate for jar in wanted], lambda: _report(staging, total, progress))
    finally:
        # After a failure or Ctrl-C too: keep the jars that are complete.
        bad = [says for jar in wanted if (says := _move_to_cache(staging, jar)) is not None]
        shutil.rmtree(staging, ignore_errors=True)
    if bad:
        raise JarError("\n".join(bad))
    progress(wanted[-1].coordinate, total, total)


def _report(staging: Path, total: int, progress: Progress) -> None:
    sizes: dict[Path, tuple[int, int]] = {}
    for path in ivy.downloaded_files(staging):
        with contextlib.suppress(FileNotFoundError):  # Ivy has just renamed it
            found = path.stat()
            sizes[path] = (found.st_mtime_ns, found.st_size)
    if sizes:
        newest = max(sizes, key=lambda path: sizes[path])
        version = newest.name.partition(".jar")[0]
        so_far = sum(size for _, size in sizes.values())
        progress(f"{newest.parent.parent.name}:{newest.parent.name}:{version}", min(so_far, total), total)


def _move_to_cache(staging: Path, jar: Jar) -> str | None:
    """Move a jar into the cache if it is the pinned one; otherwise return how it differs."""
    downloaded = staging / "jars" / jar.organisation / jar.name / f"{jar.version}.jar"
    if not downloaded.exists():
        return f"jar {jar.coordinate} was not downloaded; run the command again"
    says = find_damage(jar, downloaded)
    if says is not None:
        return f"jar {jar.coordinate} was downloaded with {says}; it was discarded, run the command again"
    downloaded.replace(cache_folder() / jar.file_name)
    return None


@contextlib.contextmanager
def _lock_folder(place: Path) -> Iterator[None]:
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = (place / ".lock").open("w")
    except OSError as error:
        raise JarError(
            f"jars cannot be stored in {place}: {error.strerror}; set PENSTOCK_CACHE to a folder that you can write"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
