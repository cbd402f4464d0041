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

import click

from penstock import jars, services
from penstock.engine.archive import archive_file
from penstock.errors import PenstockError
from penstock.java import java, java_version


@dataclass(frozen=True)
class Fact:
    """One thing that is looked at, and how to mend it when it is not well."""

    name: str
    well: bool
    found: str
    fix: str = ""


@click.command(short_help="Say what is installed, what is missing and how to get it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(as_json: bool) -> None:
    """Look at this machine: Python, Java, Spark, jars, services, memory and disk."""
    facts = [fact() for fact in FACTS] + [_jars(group) for group in jars.GROUPS] + _services()
    if as_json:
        click.echo(json.dumps([asdict(fact) for fact in facts], indent=2))
    else:
        for fact in facts:
            mark = "ok  " if fact.well else "MISS"
            click.echo(f"{mark} {fact.name:<14} {fact.found}" + (f"; {fact.fix}" if fact.fix and not fact.well else ""))
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
    there = archive_file().exists()
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
