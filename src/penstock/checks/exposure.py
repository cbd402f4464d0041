"""What a pipeline exposes: ports, output folders, secrets in the file, passwords on the wire."""

from __future__ import annotations

import ipaddress
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from penstock.model import Finding, Keys, Location, Pipeline
from penstock.options import OpenSecret, Options, Secret

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


_NAMED = re.compile(r"password|passwd|secret|token|credential|access.?key|account.?key|api.?key", re.IGNORECASE)
_PASSWORD = re.compile(r"(password|passwd|secret)$")
_LOOKS = (
    (re.compile(r"SharedAccessKey=[^;\s]"), "a shared access key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"://[^/\s:@]+:[^/\s@]+@"), "a password"),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), "an access key"),
    (re.compile(r"(?i)\bpassword\s*=\s*[^\s;]"), "a password"),
)


def secrets_are_not_in_the_file(pipeline: Pipeline) -> Iterator[Finding]:
    """No secret is in the file, where all its readers would see it."""
    fix = "write ${env:NAME}, ${file:path} or ${secret:name}"
    if pipeline.at.file.endswith(".py"):
        fix = "read it from elsewhere and wrap it: Secret(os.environ['NAME'])"
    for who, name, value, at in _values(pipeline):
        what = _open_secret(name, value)
        if what:
            says = f"{who}: {name!r} holds {what} in plain text"
            yield Finding("secrets-are-not-in-the-file", at, says, fix, severity="warning")


def passwords_travel_encrypted(pipeline: Pipeline) -> Iterator[Finding]:
    """A connection with a password uses TLS."""
    for node, connector in pipeline.ends:
        if connector.sends_plaintext_password:
            says = f"{type(node).__name__.lower()} {node.name!r} logs in without TLS: its data travels unencrypted"
            at = pipeline.where(node, connector.kind, "sasl", "plaintext")
            fix = "use a TLS listener of the broker, and remove 'plaintext'"
            yield Finding("passwords-travel-encrypted", at, says, fix, severity="warning")


def _values(pipeline: Pipeline) -> Iterator[tuple[str, str, Any, Location]]:
    for node, connector in pipeline.ends:
        who = f"{type(node).__name__.lower()} {node.name!r}"
        for keys, value in _texts(connector, ()):
            yield who, ".".join(map(str, keys)), value, pipeline.where(node, connector.kind, *keys)
    for key, value in pipeline.spark.items():
        yield "spark", key, value, pipeline.places.get(("spark", key), pipeline.at)
    yield "the pipeline", "storage", pipeline.storage, pipeline.places.get(("storage",), pipeline.at)


def _texts(value: Any, keys: Keys) -> Iterator[tuple[Keys, str]]:
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, Options):
        for name in type(value).model_fields:
            yield from _texts(getattr(value, name), (*keys, name))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*keys, key))
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from _texts(each, (*keys, at))


def _open_secret(name: str, value: Any) -> str:
    if isinstance(value, OpenSecret):
        return "a secret"
    if not isinstance(value, str) or isinstance(value, Secret) or not value:
        return ""
    if _NAMED.search(name) if name.startswith("options.") else _PASSWORD.search(name):
        return "a secret"
    return next((what for looks, what in _LOOKS if looks.search(value)), "")
