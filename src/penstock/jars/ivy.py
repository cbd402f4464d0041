"""Runs Apache Ivy, which ships with pyspark and has the public repository as its default."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from xml.sax.saxutils import quoteattr

from penstock.errors import JarError
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
