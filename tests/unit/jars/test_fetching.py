"""Fetching with the real Ivy from a repository on this disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from penstock.errors import JarError
from penstock.jars import cache_folder, fetch, paths
from penstock.jars.ivy import _parse_error


def test_one_fetch_brings_all_groups_also_two_versions_of_one_jar(lock):
    seen = []

    found = fetch(["one", "two"], lambda *step: seen.append(step), lock)

    assert [path.read_bytes() for path in found] == [b"shared", b"old client", b"new client"]
    assert seen[0][1:] == (0, 26)
    assert seen[-1][1:] == (26, 26)
    assert not (cache_folder() / ".fetching").exists()


def test_what_is_here_is_not_fetched_again(cached, monkeypatch):
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", "/nowhere.xml")

    assert fetch(["one"], lock=cached) == paths(["one"], cached)


def test_a_damaged_jar_is_replaced(cached):
    (cache_folder() / "org.acme_client-1.0.jar").write_bytes(b"")

    fetch(["one"], lock=cached)

    assert (cache_folder() / "org.acme_client-1.0.jar").read_bytes() == b"old client"


def test_a_jar_that_comes_with_another_hash_never_enters_the_cache(lock, repository):
    repository.publish("org.acme:client:1.0", b"evilclient")

    with pytest.raises(
        JarError, match=r"client:1\.0 was downloaded with sha256 .* found, .* expected; it was discarded"
    ):
        fetch(["one"], lock=lock)

    assert not (cache_folder() / "org.acme_client-1.0.jar").exists()
    assert (cache_folder() / "org.acme_shared-1.0.jar").exists()


def test_a_jar_that_the_repository_does_not_have_is_named(lock, repository):
    (repository.folder / "org.acme" / "client-1.0.jar").unlink()

    with pytest.raises(JarError, match=r"^the repository does not have org\.acme:client:1\.0; check its version"):
        fetch(["one"], lock=lock)


def test_settings_that_are_not_a_file_are_named(lock, monkeypatch):
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", "/nowhere.xml")

    with pytest.raises(JarError, match=r"PENSTOCK_IVY_SETTINGS is '/nowhere\.xml', which is not a file"):
        fetch(["one"], lock=lock)


def test_two_processes_can_fetch_at_once(lock):
    program = textwrap.dedent(f"""
        from penstock.jars import Jar, Lock, fetch
        fetch(["one", "two"], lambda *step: print(*step), {lock!r})
    """)
    pair = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(2)
    ]

    said = [process.communicate(timeout=60)[0] for process in pair]

    assert [process.returncode for process in pair] == [0, 0]
    assert sum(bool(each) for each in said) == 1, "one fetches, the other finds them here"
    assert len(paths(["one", "two"], lock)) == 3


def test_a_repository_that_does_not_answer_is_worth_another_try(lock, monkeypatch):
    monkeypatch.delenv("PENSTOCK_IVY_SETTINGS")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")

    with pytest.raises(
        JarError, match=r"cannot be reached \(ConnectException: Connection refused\); check the"
    ) as caught:
        fetch(["one"], lock=lock)

    assert caught.value.retry


def test_other_errors_of_ivy_are_reported_in_one_line():
    error = _parse_error("picked up options\n\nException in thread main: no disk\n\tat somewhere\n")

    assert str(error) == "Ivy could not fetch the jars: Exception in thread main: no disk; run the command again"
