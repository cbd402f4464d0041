"""penstock doctor"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from penstock import jars, services
from penstock.cli import print_status
from penstock.connector import Embeddable, Probeable, SinkOptions, SourceOptions
from penstock.errors import PenstockError
from penstock.java import find_java, read_java_version
from penstock.load import load
from penstock.redaction import redact, redact_values
from penstock.spark.session import archive_file


@dataclass(frozen=True)
class Fact:
    """The result of one check, and the fix if it failed."""

    name: str
    well: bool
    found: str
    fix: str = ""


@click.command(short_help="Check the installation, or whether a pipeline can reach its systems.")
@click.argument("file", required=False, type=click.Path())
@click.option("--wait", "wait_seconds", default=5.0, show_default=True, help="Seconds to wait for the brokers of FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str | None, wait_seconds: float, as_json: bool) -> None:
    """Check this machine: Python, Java, Spark, jars, services, memory and disk.

    With a pipeline's FILE, check the systems that it reads and writes instead: whether brokers answer, whether
    certificates are valid and for how long, and whether login and topic permissions work. No data is read or written.

    Example: penstock doctor trades.yaml
    """
    if file is None:
        facts = [fact() for fact in FACTS] + [_jars(group) for group in jars.GROUPS] + _services()
    else:
        facts = _check_pipeline(file, wait_seconds)
    if as_json:
        click.echo(json.dumps(redact_values([asdict(fact) for fact in facts]), indent=2))
    else:
        width = max(14, *(len(fact.name) for fact in facts))
        for fact in facts:
            mark = "ok  " if fact.well else "MISS" if file is None else "BAD "
            text = f"{mark} {fact.name:<{width}} {fact.found}" + (f"; {fact.fix}" if fact.fix and not fact.well else "")
            click.echo(redact(text))
    if not all(fact.well for fact in facts):
        sys.exit(1)


def _python() -> Fact:
    return Fact("python", sys.version_info >= (3, 10), platform.python_version(), "install Python 3.10 or later")


def _java() -> Fact:
    try:
        return Fact("java", True, f"{read_java_version(find_java())} at {find_java()}")
    except PenstockError as error:
        return Fact("java", False, str(error))


def _spark() -> Fact:
    found = importlib.metadata.version("pyspark")
    return Fact("pyspark", found.startswith("4.2"), found, "pip install pyspark==4.2.0")


def _memory() -> Fact:
    if not hasattr(os, "sysconf"):
        return Fact("memory", True, "unknown")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Fact("memory", gib >= 3, f"{gib:.0f} GB", "Spark's driver uses 2 GB: lower spark.driver.memory")


def _disk() -> Fact:
    gib = shutil.disk_usage(".").free / 2**30
    return Fact(
        "disk",
        gib >= 1,
        f"{gib:.0f} GB free here",
        "free some space: a pipeline stops if it cannot write checkpoints",
    )


def _archive() -> Fact:
    try:
        exists = archive_file().exists()
    except PenstockError:
        return Fact("start-up", True, "unknown without Java")
    return Fact(
        "start-up",
        True,
        "class archive present" if exists else "no class archive; for a faster start run penstock jars warm",
    )


FACTS: tuple[Callable[[], Fact], ...] = (_python, _java, _spark, _memory, _disk, _archive)


def _jars(group: str) -> Fact:
    try:
        return Fact(f"jars {group}", True, f"{len(jars.paths([group]))} jars")
    except PenstockError as error:
        return Fact(f"jars {group}", False, str(error).splitlines()[0])


def _services() -> list[Fact]:
    facts = []
    for name, service in services.SERVICES.items():
        status = service(services.dev_folder() / name, ()).status()
        facts.append(Fact(f"dev {name}", True, f"{status.state} {status.address or ''}".strip()))
    return facts


def _check_pipeline(file: str, wait_seconds: float) -> list[Fact]:
    pipeline = load(file)
    facts: list[Fact] = []
    for node, connector in pipeline.ends:
        who = f"{type(node).__name__.lower()} {node.name}"
        located = connector.with_absolute_paths(Path(pipeline.folder))
        services = located.services if isinstance(located, Embeddable) else ()
        found = f"the local {', '.join(services)}, started by penstock run"
        facts += [Fact(who, True, found)] if services else _probe(who, located, wait_seconds)
    return facts


def _probe(who: str, connector: SourceOptions | SinkOptions, wait_seconds: float) -> list[Fact]:
    facts: list[Fact] = []
    try:
        for seen in connector.probe(wait_seconds, print_status) if isinstance(connector, Probeable) else ():
            facts.append(Fact(f"{who}: {seen.what}", True, seen.says))
    except PenstockError as error:
        return [*facts, Fact(who, False, str(error))]
    return facts or [Fact(who, True, f"{connector.kind}: nothing to check")]
