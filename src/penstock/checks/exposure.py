"""Exposure: what a run opens to the network, and where it may write."""

from __future__ import annotations

import ipaddress
import os
import posixpath
import re
from collections.abc import Iterator

from penstock.model import Finding, Location, Pipeline

FOLDERS = "PENSTOCK_OUTPUT_FOLDERS"
_BIND = "spark.driver.bindAddress"
_UI = "spark.ui.enabled"
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")


def driver_stays_on_loopback(pipeline: Pipeline) -> Iterator[Finding]:
    """The driver of a local master listens on loopback only."""
    address = pipeline.spark.get(_BIND, "localhost")
    if _master(pipeline).startswith("local") and not _is_loopback(address):
        says = f"{_BIND} is {address!r}, so the ports of the driver can be reached from other machines"
        fix = "remove it: a local master needs 127.0.0.1 only"
        yield Finding("driver-stays-on-loopback", _at(pipeline, _BIND), says, fix, severity="warning")


def spark_ui_is_off(pipeline: Pipeline) -> Iterator[Finding]:
    """Spark's own web UI is off: it has no login."""
    if pipeline.spark.get(_UI, "").strip().lower() == "true":
        says = f"{_UI} is 'true', and Spark's UI shows plans and settings without a login"
        fix = "remove it; 'penstock page' shows the pipeline behind a token"
        yield Finding("spark-ui-is-off", _at(pipeline, _UI), says, fix, severity="warning")


def outputs_stay_in_their_folders(pipeline: Pipeline) -> Iterator[Finding]:
    """Sinks write inside the folders that PENSTOCK_OUTPUT_FOLDERS lists, if any."""
    allowed = [_place("", each.strip()) for each in os.environ.get(FOLDERS, "").split(",") if each.strip()]
    if not allowed:
        return
    for sink in pipeline.sinks:
        for target in sink.targets:
            path = target.connector.path_option
            if not isinstance(path, str) or any(_is_inside(_place(pipeline.folder, path), each) for each in allowed):
                continue
            says = f"sink {sink.name!r} writes to {path!r}, which is outside the folders in {FOLDERS}"
            fix = f"write to one of {', '.join(allowed)}, or add the folder to the variable"
            at = pipeline.where(sink, *target.keys, "path")
            yield Finding("outputs-stay-in-their-folders", at, says, fix, severity="warning")


def _at(pipeline: Pipeline, key: str) -> Location:
    return pipeline.places.get(("spark", key), pipeline.at)


def _master(pipeline: Pipeline) -> str:
    return pipeline.spark.get("master") or pipeline.spark.get("spark.master") or "local"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def _place(folder: str, path: str) -> str:
    """Resolve a path, following links, because a link may lead out of an allowed folder."""
    path = re.sub(r"(?i)^file:/+", "/", path)
    if _URL.match(path):
        scheme, _, rest = path.partition(":")
        return f"{scheme}:{posixpath.normpath(rest)}"
    return os.path.realpath(os.path.join(folder, path))  # noqa: PTH118


def _is_inside(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")
