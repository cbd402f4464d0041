"""penstock jars, as it prints; and the tool that makes lock lines."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tools.pin_jars import lock_lines

from penstock.cli.jars import command
from penstock.errors import CallError
from penstock.jars import GROUPS, LOCK, cache_folder


@pytest.fixture
def call(repository):
    """`penstock jars` on an empty cache."""
    return lambda *words, **options: CliRunner().invoke(command, words, **options)


def test_list_shows_each_group_and_that_it_is_not_here(call):
    found = json.loads(call("list", "--json").stdout)

    assert found["folder"] == str(cache_folder())
    assert [(group["group"], group["state"]) for group in found["groups"]] == [(name, "not fetched") for name in GROUPS]
    assert "avro" in call("list").stdout


def test_verify_looks_at_what_was_fetched_when_no_group_is_named(call):
    done = call("verify")

    assert (done.exit_code, done.stdout) == (0, "0 jars verified (no group was fetched)\n")


def test_verify_names_a_damaged_jar_and_the_command_that_repairs_it(call):
    (avro,) = LOCK.jars(["avro"])
    cache_folder().mkdir(parents=True)
    (cache_folder() / avro.file_name).write_bytes(b"half")

    done = call("verify")

    assert done.exit_code == 1
    says = f"is damaged: 4 bytes found, {avro.size_bytes} expected, in {cache_folder() / avro.file_name}"
    assert done.stdout == f"jar {avro.coordinate} {says}\n"
    assert done.stderr == "1 missing or damaged; run `penstock jars fetch avro`\n"


def test_a_misspelled_group_is_the_calls_fault(call):
    with pytest.raises(CallError, match="did you mean 'broker'"):
        call("fetch", "brokr", catch_exceptions=False)


def test_pin_writes_the_line_of_a_jar(repository):
    jar = repository.pin("org.acme:client:1.0", b"client")

    assert lock_lines("acme", [jar.coordinate], alone=True) == [f"acme org.acme:client:1.0 6 {jar.sha256}"]
