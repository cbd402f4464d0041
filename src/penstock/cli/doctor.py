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
from penstock.cli import say
from penstock.errors import PenstockError
from penstock.java import java, java_version
from penstock.load import load
from penstock.options import SinkOptions, SourceOptions
from penstock.redaction import redact, redacted
from penstock.spark.archive import archive_file


@dataclass(frozen=True)
class Fact:
    """One thing that is looked at, and how to mend it when it is not well."""

    name: str
    well: bool
    found: str
    fix: str = ""


@click.command(short_help="Say what is installed, what is missing and how to get it; of a pipeline, what it can reach.")
@click.argument("file", required=False, type=click.Path())
@click.option("--wait", "wait_seconds", default=5.0, show_default=True, help="Seconds to wait for brokers of FILE.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(file: str | None, wait_seconds: float, as_json: bool) -> None:
    """Look at this machine: Python, Java, Spark, jars, services, memory and disk.

    With a pipeline's FILE, look at what it reads and writes instead: whether brokers answer, whether their
    certificates fit and for how long, whether we are let in, and may use the topics. Nothing is read or written.

    Example: penstock doctor trades.yaml
    """
    if file is None:
        facts = [fact() for fact in FACTS] + [_jars(group) for group in jars.GROUPS] + _services()
    else:
        facts = _ends(file, wait_seconds)
    if as_json:
        click.echo(json.dumps(redacted([asdict(fact) for fact in facts]), indent=2))
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
        return Fact("java", True, f"{java_version(java())} at {java()}")
    except PenstockError as error:
        return Fact("java", False, str(error))


def _spark() -> Fact:
    found = importlib.metadata.version("pyspark")
    return Fact("pyspark", found.startswith("4.2"), found, "pip install pyspark==4.2.0")


def _memory() -> Fact:
    if not hasattr(os, "sysconf"):
        return Fact("memory", True, "unknown")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Fact("memory", gib >= 3, f"{gib:.0f} GB", "Spark's driver takes 2 GB: set spark.driver.memory lower")


def _disk() -> Fact:
    gib = shutil.disk_usage(".").free / 2**30
    return Fact(
        "disk",
        gib >= 1,
        f"{gib:.0f} GB free here",
        "free some space: checkpoints that cannot be written stop a pipeline",
    )


def _archive() -> Fact:
    try:
        there = archive_file().exists()
    except PenstockError:
        return Fact("start-up", True, "not known without Java")
    return Fact("start-up", True, "with an archive" if there else "slow: penstock jars warm makes an archive, once")


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


def _ends(file: str, wait_seconds: float) -> list[Fact]:
    pipeline = load(file)
    facts: list[Fact] = []
    for node, connector in pipeline.ends:
        who = f"{type(node).__name__.lower()} {node.name}"
        located = connector.with_absolute_paths(Path(pipeline.folder))
        found = f"the {', '.join(located.services)} of this machine, which a run starts"
        facts += [Fact(who, True, found)] if located.services else _examined(who, located, wait_seconds)
    return facts


def _examined(who: str, connector: SourceOptions | SinkOptions, wait_seconds: float) -> list[Fact]:
    facts: list[Fact] = []
    try:
        for seen in connector.probe(wait_seconds, say):
            facts.append(Fact(f"{who}: {seen.what}", True, seen.says))
    except PenstockError as error:
        return [*facts, Fact(who, False, str(error))]
    return facts or [Fact(who, True, f"{connector.kind}: nothing to look at before it runs")]
