"""Secrets: they are not in the file and do not travel unencrypted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.model import Finding, Keys, Location, Pipeline
from penstock.options import OpenSecret, Options, Secret

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
