"""Fetching: Ivy once for all jars that are not here, each one checked before it enters the cache."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from penstock.errors import JarError
from penstock.jars import ivy
from penstock.jars.cache import damage, folder, paths, problems
from penstock.jars.lock import LOCK, Jar, Lock

Progress = Callable[[str, int, int], None]
"""Called with the jar under way, the bytes so far and the bytes in all."""


def fetch(groups: Iterable[str], progress: Progress | None = None, lock: Lock = LOCK) -> list[Path]:
    """Fetch what some groups lack, and give their files; two processes may do so at once."""
    groups = list(groups)
    if problems(groups, lock):
        with _alone(folder()):
            # Another process may have fetched them while this one waited.
            wanted = [problem.jar for problem in problems(groups, lock)]
            if wanted:
                _fetch(wanted, progress or (lambda *_: None))
    return paths(groups, lock)


def _fetch(wanted: Sequence[Jar], progress: Progress) -> None:
    staging = folder() / ".fetching"
    shutil.rmtree(staging, ignore_errors=True)
    total = sum(jar.size_bytes for jar in wanted)
    progress(wanted[0].coordinate, 0, total)
    try:
        ivy.run(staging, [jar.coordinate for jar in wanted], lambda: _report(staging, total, progress))
    finally:
        # Also after a failure or Ctrl-C: what came whole need not come again.
        bad = [says for jar in wanted if (says := _adopt(staging, jar)) is not None]
        shutil.rmtree(staging, ignore_errors=True)
    if bad:
        raise JarError("\n".join(bad))
    progress(wanted[-1].coordinate, total, total)


def _report(staging: Path, total: int, progress: Progress) -> None:
    sizes: dict[Path, tuple[int, int]] = {}
    for path in ivy.arrived(staging):
        with contextlib.suppress(FileNotFoundError):  # Ivy has just renamed it
            found = path.stat()
            sizes[path] = (found.st_mtime_ns, found.st_size)
    if sizes:
        newest = max(sizes, key=lambda path: sizes[path])
        version = newest.name.partition(".jar")[0]
        so_far = sum(size for _, size in sizes.values())
        progress(f"{newest.parent.parent.name}:{newest.parent.name}:{version}", min(so_far, total), total)


def _adopt(staging: Path, jar: Jar) -> str | None:
    """Move a jar into the cache if it is the pinned one; say how it differs otherwise."""
    came = staging / "jars" / jar.organisation / jar.name / f"{jar.version}.jar"
    if not came.exists():
        return f"jar {jar.coordinate} did not come; run the command again"
    says = damage(jar, came)
    if says is not None:
        return f"jar {jar.coordinate} came with {says}; it was thrown away, run the command again"
    came.replace(folder() / jar.file_name)
    return None


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    try:
        place.mkdir(parents=True, exist_ok=True)
        file = (place / ".lock").open("w")
    except OSError as error:
        raise JarError(
            f"jars cannot be kept in {place}: {error.strerror}; set PENSTOCK_CACHE to a folder of yours"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
