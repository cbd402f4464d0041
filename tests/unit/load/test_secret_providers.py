"""`secrets:`: a function of the user's hands out what `${secret:name}` means."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.load import load

TEXT = """\
secrets: {{python: "{path}"}}
sources:
  a:
    kafka:
      servers: b:1
      topics: [t]
      sasl: {{mechanism: plain, user: "${{secret:kafka/user}}", password: "${{secret:kafka/password}}"}}
sinks: {{b: {{from: a, console: }}}}
"""


@pytest.fixture
def vault(folder: Path):
    """A module beside the file that counts how often it is asked."""
    name = f"vault_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(
        "asked = []\n"
        "def get(name):\n    asked.append(name)\n    return {'kafka/user': 'me', 'kafka/password': 'hunter2'}[name]\n"
        "def nothing(name):\n    return None\n"
    )
    yield name
    sys.modules.pop(name, None)


def test_a_function_hands_out_secrets_each_asked_for_once(folder, vault):
    Path("a.yaml").write_text(TEXT.format(path=f"{vault}:get"))

    connector = load("a.yaml").sources[0].connector

    assert (connector.sasl.user, connector.sasl.password) == ("me", "hunter2")
    assert "hunter2" not in repr(connector)
    assert sys.modules[vault].asked == ["kafka/user", "kafka/password"]


def test_a_function_that_no_value_needs_is_not_called(folder):
    text = 'secrets: {python: "nowhere:get"}\nsources: {a: {rate: {}}}\nsinks: {b: {from: a, console: }}\n'
    Path("a.yaml").write_text(text)

    assert load("a.yaml").name == "a"


def test_what_goes_wrong_is_said_without_what_the_vault_said(complaints, vault):
    text = TEXT.format(path=f"{vault}:get").replace("kafka/user", "other")

    assert complaints(text) == [
        f"clicks.yaml:7:39: the secret 'other' cannot be fetched: {vault}:get raised KeyError; "
        f"call {vault}:get in Python to see why"
    ]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere_at_all:get", "'secrets': no module named 'nowhere_at_all'; put nowhere_at_all.py next to the file"),
        ("{vault}:fetch", "'secrets': '{vault}' has no function 'fetch'; correct the name"),
        (
            "{vault}:nothing",
            "{vault}:nothing returned no string for the secret 'kafka/user'; "
            "make it return the secret, or raise an error",
        ),
    ],
)
def test_a_function_that_is_not_there_is_named(complaints, vault, path, says):
    found = complaints(TEXT.format(path=path.format(vault=vault)))

    assert f"clicks.yaml:7:39: {says.format(vault=vault)}" in found


def test_a_secret_without_a_function_is_one_finding(complaints):
    text = TEXT.format(path="x:y").split("\n", 1)[1].replace("${secret:kafka/user}", "me")

    assert complaints(text) == [
        "clicks.yaml:6:55: no provider for the secret 'kafka/password'; "
        "write 'secrets: {python: \"module:function\"}', a function of the name"
    ]


@pytest.mark.parametrize(
    ("secrets", "says"),
    [
        ("vault", "1: 'secrets' is 'vault', expected a mapping; write 'secrets: {python: \"module:function\"}'"),
        ("{phyton: a:b}", "11: 'secrets': unknown key 'phyton'; did you mean 'python'?"),
        ("{python: get}", "11: 'secrets' has 'get' for 'python', expected module:function; write 'secrets: "),
    ],
)
def test_the_declaration_itself_is_checked(complaints, secrets, says):
    (found,) = complaints(f"secrets: {secrets}\nsources: {{a: {{rate: {{}}}}}}\nsinks: {{b: {{from: a, console: }}}}\n")

    assert found.startswith(f"clicks.yaml:1:{says}")


def test_a_number_in_a_variable_is_a_password_too(folder):
    text = TEXT.format(path="x:y").replace("${secret:kafka/user}", "me").replace("${secret:kafka/password}", "${PIN}")
    Path("a.yaml").write_text(text)

    assert load("a.yaml", {"PIN": "12345"}).sources[0].connector.sasl.password == "12345"


def test_a_misspelled_word_inside_is_named_with_the_nearest_one(complaints):
    text = TEXT.format(path="x:y").replace("user:", "usr:").replace("${secret:", "${HOME:-")

    assert complaints(text, {}) == [
        "clicks.yaml:7:7: source 'a' (kafka) needs 'sasl.user'; add 'sasl.user: ...'",
        "clicks.yaml:7:32: source 'a': unknown key 'usr' in 'sasl'; did you mean 'user'?",
    ]
