"""Runs Apache Ivy, which ships with pyspark and has the public repository as its default."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from xml.sax.saxutils import quoteattr

from penstock.errors import JarError
from penstock.jars.lock import LOCK, Jar, Lock, cache_folder, find_damage, find_problems, paths
from penstock.java import find_java

SETTINGS = "PENSTOCK_IVY_SETTINGS"
_POLL_SECONDS = 0.1
_SILENCE_SECONDS = 60.0


def run(staging: Path, coordinates: Iterable[str], report: Callable[[], None], *, transitive: bool = False) -> None:
    """Download jars to `staging/jars/organisation/name/version.jar`, calling `report` meanwhile."""
    staging.mkdir(parents=True, exist_ok=True)
    # Resolving needs the POM of every jar and its parents: half a minute for the broker, unnecessary with pinned jars.
    (staging / "settings.xml").write_text(_settings(staging, poms=transitive), encoding="utf-8")
    (staging / "ivy.xml").write_text(_module(coordinates, transitive), encoding="utf-8")
    log = staging / "ivy.log"
    command = [str(find_java()), "-jar", str(_ivy_jar()), "-settings", str(staging / "settings.xml")]
    # Jars with packaging `bundle` in their POM, such as scala-logging, have that type.
    command += ["-ivy", str(staging / "ivy.xml"), "-types", "jar", "bundle"]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            _wait(process, staging, report)
        finally:
            process.kill()
    if process.returncode != 0:
        raise _parse_error(log.read_text(encoding="utf-8", errors="replace"))


def downloaded_files(staging: Path) -> list[Path]:
    """The jars downloaded so far, including the incomplete one."""
    return [path for path in (staging / "jars").glob("*/*/*") if path.suffix in {".jar", ".part"}]


def _wait(process: subprocess.Popen[bytes], staging: Path, report: Callable[[], None]) -> None:
    seen, since = (0, 0), monotonic()
    while True:
        try:
            process.wait(_POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            report()
        now = (_size(staging / "ivy.log"), sum(_size(path) for path in downloaded_files(staging)))
        if now != seen:
            seen, since = now, monotonic()
        elif monotonic() - since > _SILENCE_SECONDS:
            raise _unreachable(f"nothing arrived for {_SILENCE_SECONDS:.0f} seconds")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # Ivy has just renamed it
        return 0


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations or [] if spec else []
    found = [jar for place in places for jar in Path(place, "jars").glob("ivy-*.jar")]
    if not found:
        raise JarError("pyspark and the Ivy inside it are not installed here; run `pip install pyspark==4.2.0`")
    return found[0]


def _settings(staging: Path, *, poms: bool) -> str:
    own = os.environ.get(SETTINGS)
    if own and not Path(own).is_file():
        raise JarError(f"{SETTINGS} is {own!r}, which is not a file; name an ivysettings.xml or unset it")
    resolver = f"<include file={quoteattr(str(Path(own).absolute()))}/>" if own else _public_repository(poms)
    where = f"defaultCacheDir={quoteattr(str(staging))}"
    pattern = 'artifactPattern="jars/[organisation]/[module]/[revision].[ext]"'
    return f"<ivysettings>{resolver}<caches {where} {pattern}/></ivysettings>\n"


def _public_repository(poms: bool) -> str:
    timeout = '<timeout-constraint name="patience" connectionTimeout="15000" readTimeout="30000"/>'
    # The sha256 in jars.lock replaces the checksums of the repository.
    options = f'm2compatible="true" usepoms="{str(poms).lower()}" checksums="" timeoutConstraint="patience"'
    resolver = f'<resolvers><ibiblio name="public" {options}/></resolvers>'
    return f'<settings defaultResolver="public"/><timeout-constraints>{timeout}</timeout-constraints>{resolver}'


def _module(coordinates: Iterable[str], transitive: bool) -> str:
    dependencies = "".join(_dependency(coordinate, transitive) for coordinate in coordinates)
    # Two groups may pin two versions of one jar: keep both.
    both = "" if transitive else '<conflict org="*" module="*" manager="all"/>'
    return (
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{both}</dependencies></ivy-module>\n"
    )


def _dependency(coordinate: str, transitive: bool) -> str:
    organisation, name, version = coordinate.split(":")
    what = f"org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(version)}"
    if transitive:
        return f'<dependency {what} conf="default->default"/>'
    artifact = f'<artifact name={quoteattr(name)} type="jar" ext="jar"/>'
    return f'<dependency {what} conf="default" transitive="false">{artifact}</dependency>'


def _parse_error(output: str) -> JarError:
    """Summarize Ivy's output in one line; its own report has dozens and contains URLs."""
    refused = re.search(r"Server access error at url \S+ \((?:[\w.]+\.)?(\w+: .*)\)", output)
    if refused:
        return _unreachable(refused.group(1))
    absent = sorted(
        {":".join(found) for found in re.findall(r":: ([\w.\-]+)#([\w.\-]+);([\w.\-]+): not found", output)}
    )
    if absent:
        return JarError(f"the repository does not have {', '.join(absent)}; check its version in jars.lock")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    failed = [line for line in lines if re.search(r"error|exception|failed", line, re.IGNORECASE)]
    return JarError(f"Ivy could not fetch the jars: {(failed or lines or ['no output'])[0]}; run the command again")


def _unreachable(why: str) -> JarError:
    fix = f"check the network, or name your mirror's ivysettings.xml in {SETTINGS}, and run the command again"
    error = JarError(f"the repository of jars cannot be reached ({why}); {fix}")
    error.retry = True
    return error


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
        run(staging, [jar.coordinate for jar in wanted], lambda: _report(staging, total, progress))
    finally:
        # After a failure or Ctrl-C too: keep the jars that are complete.
        bad = [says for jar in wanted if (says := _move_to_cache(staging, jar)) is not None]
        shutil.rmtree(staging, ignore_errors=True)
    if bad:
        raise JarError("\n".join(bad))
    progress(wanted[-1].coordinate, total, total)


def _report(staging: Path, total: int, progress: Progress) -> None:
    sizes: dict[Path, tuple[int, int]] = {}
    for path in downloaded_files(staging):
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
