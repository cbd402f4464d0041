"""What lies in the cache is used only when it is what was pinned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import JarError
from penstock.jars import Lock, cache_folder, paths, verify


def test_paths_of_two_groups_name_a_shared_jar_once(cached):
    found = [path.name for path in paths(["one", "two"], cached)]

    assert found == ["org.acme_shared-1.0.jar", "org.acme_client-1.0.jar", "org.acme_client-2.0.jar"]


def test_a_missing_jar_is_named_with_the_command_that_fetches_it(cached):
    (cache_folder() / "org.acme_client-1.0.jar").unlink()

    with pytest.raises(JarError) as caught:
        paths(["one"], cached)

    assert str(caught.value) == f"jar org.acme:client:1.0 is not in {cache_folder()}; run `penstock jars fetch one`"


def test_of_many_missing_jars_three_are_named_and_the_rest_counted(repository):
    lock = Lock({"many": tuple(repository.pin(f"org.acme:part:{number}", b"part") for number in range(5))})

    with pytest.raises(JarError) as caught:
        paths(["many"], lock)

    *named, last = str(caught.value).splitlines()
    assert named == [f"jar org.acme:part:{number} is not in {cache_folder()}" for number in range(3)]
    assert last == "and 2 more jars; run `penstock jars fetch many`"


def test_a_truncated_jar_says_how_many_bytes_it_has_and_should_have(cached):
    (cache_folder() / "org.acme_client-1.0.jar").write_bytes(b"old")

    with pytest.raises(
        JarError, match=r"client:1\.0 is damaged: 3 bytes found, 10 expected, in .*; run `penstock jars fetch one`"
    ):
        paths(["one"], cached)


def test_a_jar_changed_after_it_was_verified_is_noticed(cached):
    paths(["one"], cached)
    jar = cache_folder() / "org.acme_client-1.0.jar"
    jar.write_bytes(b"OLD client")
    os.utime(jar, ns=(1, 1))

    with pytest.raises(JarError, match=r"damaged: sha256 [0-9a-f]{64} found, [0-9a-f]{64} expected"):
        paths(["one"], cached)


def test_verify_hashes_again_what_the_stamp_would_let_pass(cached):
    jar = cache_folder() / "org.acme_client-1.0.jar"
    paths(["one"], cached)
    before = jar.stat()
    jar.write_bytes(b"OLD client")
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    paths(["one"], cached)

    (bad,) = verify(["one"], cached)

    assert bad.jar.coordinate == "org.acme:client:1.0"
    assert not bad.missing


def test_the_cache_is_where_the_environment_says(monkeypatch):
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_folder() == Path("/shared/penstock/jars")

    monkeypatch.setenv("PENSTOCK_CACHE", "/own")
    assert cache_folder() == Path("/own/jars")
