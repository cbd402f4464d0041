"""A small repository of jars on this disk, which the real Ivy fetches from without any network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.jars import Jar, Lock, cache_folder

SETTINGS = """\
<ivysettings><settings defaultResolver="disk"/><resolvers><filesystem name="disk">
<artifact pattern="{folder}/[organisation]/[module]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>
"""


@dataclass(frozen=True)
class Repository:
    """Jars that can be fetched, each with the content it was pinned with."""

    folder: Path

    def pin(self, coordinate: str, content: bytes) -> Jar:
        """Publish a jar and give its pinned form."""
        self.publish(coordinate, content)
        return Jar(*coordinate.split(":"), size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    def publish(self, coordinate: str, content: bytes) -> None:
        """Put a jar into the repository, in place of the one before."""
        organisation, name, version = coordinate.split(":")
        path = self.folder / organisation / f"{name}-{version}.jar"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Repository:
    """An empty repository, and an empty cache."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(SETTINGS.format(folder=tmp_path / "repository"))
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    return Repository(tmp_path / "repository")


@pytest.fixture
def lock(repository) -> Lock:
    """Two groups that share a jar, and hold two versions of another."""
    shared = repository.pin("org.acme:shared:1.0", b"shared")
    old, new = (
        repository.pin("org.acme:client:1.0", b"old client"),
        repository.pin("org.acme:client:2.0", b"new client"),
    )
    return Lock({"one": (shared, old), "two": (shared, new)})


@pytest.fixture
def cached(lock) -> Lock:
    """The same lock with all its jars in the cache already."""
    cache_folder().mkdir(parents=True)
    for jar, content in zip(lock.jars(["one", "two"]), (b"shared", b"old client", b"new client"), strict=True):
        (cache_folder() / jar.file_name).write_bytes(content)
    return lock
