"""Secrets that stand in the file are warned of, without being repeated."""

from __future__ import annotations

import pytest

from penstock.checks import check
from penstock.load import load

FIX = "write ${env:NAME}, ${file:path} or ${secret:name}"


def kafka(options: str) -> str:
    return f"""\
sources:
  a:
    kafka:
      servers: b:1
      topics: [t]
      {options}
sinks: {{b: {{from: a, console: }}}}
"""


def test_a_password_in_the_file_is_warned_of_and_not_repeated(findings):
    found = findings(kafka("sasl: {mechanism: plain, user: u, password: hunter2}"))

    assert found == [f"a.yaml:6:41: warning: source 'a': 'sasl.password' holds a secret in plain text; {FIX}"]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("options: {fs.s3a.secret.key: abc}", "'options.fs.s3a.secret.key' holds a secret"),
        ("options: {path: 's3://me:pw@bucket'}", "'options.path' holds a password"),
    ],
)
def test_values_that_look_like_secrets_are_warned_of(findings, value, what):
    text = f"sources: {{a: {{rate: {{}}}}}}\nsinks: {{b: {{from: a, files: {{path: out, format: json, {value}}}}}}}\n"

    (found,) = findings(text)

    assert f"warning: sink 'b': {what} in plain text; {FIX}" in found


def test_a_password_of_another_system_is_warned_of_too(findings):
    sink = "{from: a, mode: update, cassandra: {table: k.t, user: u, password: pw-x}}"
    text = f"sources: {{a: {{rate: {{}}}}}}\nsinks: {{b: {sink}}}\n"

    warned = [line for line in findings(text) if "plain text" in line]

    assert warned == [f"a.yaml:2:69: warning: sink 'b': 'password' holds a secret in plain text; {FIX}"]


@pytest.mark.parametrize("storage", ["s3://key:hidden@bucket/x", "/data/x"])
def test_a_storage_with_a_password_is_warned_of(findings, storage):
    text = f"storage: {storage}\nsources: {{a: {{rate: {{}}}}}}\nsinks: {{b: {{from: a, console: }}}}\n"

    warned = [line for line in findings(text) if "'storage' holds a password in plain text" in line]

    assert bool(warned) == ("hidden" in storage)
    assert "hidden" not in "".join(warned)


def test_secrets_from_elsewhere_are_fine(tmp_path, monkeypatch):
    monkeypatch.setenv("PW", "hunter2")
    (tmp_path / "a.yaml").write_text(kafka("sasl: {mechanism: plain, user: u, password: '${env:PW}'}"))

    assert check(load(tmp_path / "a.yaml")) == []


def test_in_python_a_secret_is_wrapped(tmp_path):
    text = """\
from penstock import Pipeline, Secret, console, kafka
pipeline = Pipeline("p")
login = {{"mechanism": "plain", "user": "u", "password": {password}}}
pipeline.source("a", kafka(servers="b:1", topics=["t"], sasl=login))
pipeline.sink("b", "a", console())
"""
    (tmp_path / "open.py").write_text(text.format(password='"hunter2"'))
    (tmp_path / "wrapped.py").write_text(text.format(password='Secret("hunter2")'))

    (found,) = check(load(tmp_path / "open.py"))

    assert str(found).endswith(
        "'sasl.password' holds a secret in plain text; read it from elsewhere and wrap it: Secret(os.environ['NAME'])"
    )
    assert check(load(tmp_path / "wrapped.py")) == []


def test_a_login_without_tls_is_warned_of(findings):
    found = findings(kafka("sasl: {mechanism: scram-sha-512, user: u, password: a-b-c-d, plaintext: true}"))

    assert [line for line in found if "plaintext" in line] == [
        "a.yaml:6:68: warning: source 'a' logs in without TLS: its data travels unencrypted; "
        "use a TLS listener of the broker, and remove 'plaintext'"
    ]
