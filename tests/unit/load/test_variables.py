"""Variables and secrets in values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load
from penstock.load.reader import Document
from penstock.load.variables import substitute
from penstock.options import Secret

FORMS = "write ${NAME}, ${NAME:-default}, ${env:NAME}, ${file:path} or ${secret:name}"


def replaced(value, variables=None, folder="."):
    read = substitute(Document({"a": value}, "a.yaml", folder), variables or {})
    assert read.findings == []
    return read.document.values["a"]


def complaint(value, variables=None, folder="."):
    read = substitute(Document({"a": value}, "a.yaml", folder), variables or {})
    return [str(finding) for finding in read.findings]


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("${HOST}", "h"),
        ("${HOST}:${PORT}", "h:92"),
        ("${PORT}", 92),
        ("${NOPE:-9092}", 9092),
        ("${NOPE:-true}", True),
        ("${NOPE:-no}", "no"),
        ("${NOPE:-}", None),
        ("${HOST:-x}", "h"),
        ("$${HOST}", "${HOST}"),
        ("$HOST", "$HOST"),
        ("$ConnectionString", "$ConnectionString"),
        ("${ODD}", "${HOST}"),
        (["${HOST}", {"x": "${PORT}"}], ["h", {"x": 92}]),
        ({"${HOST}": 1}, {"${HOST}": 1}),
    ],
)
def test_references_in_values_are_replaced_once_and_keys_are_not(value, result):
    assert replaced(value, {"HOST": "h", "PORT": "92", "ODD": "${HOST}"}) == result


def test_a_variable_that_is_not_set_is_one_finding_and_hides_no_other(complaints):
    unset = "eventhubs: {connection: '${env:NOT_SET}'"
    sink = "sinks: {b: {from: a, console: }}\n"

    alone = complaints(f"sources: {{a: {{{unset}}}}}}}\n{sink}", {})
    with_another = complaints(f"sources: {{a: {{{unset}, strt: earliest}}}}}}\n{sink}", {})

    says = "clicks.yaml:1:40: the environment variable 'NOT_SET' is not set; set it before the run"
    assert alone == [says]
    assert set(with_another) == {"clicks.yaml:1:57: source 'a': unknown key 'strt'; did you mean 'start'?", says}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("${NOPE}", "a.yaml:1:1: the variable 'NOPE' is not set; set it, or write ${NOPE:-default}"),
        ("${HOTS}", "a.yaml:1:1: the variable 'HOTS' is not set; did you mean 'HOST'?"),
        ("${env:NOPE_}", "a.yaml:1:1: the environment variable 'NOPE_' is not set; set it before the run"),
        (
            "${cmd:ls}",
            "a.yaml:1:1: unknown reference '${cmd:...}'; " + FORMS,
        ),
        (
            "${a b}",
            "a.yaml:1:1: '${a b}' does not name a variable; " + FORMS,
        ),
        (
            "${A:-${HOST}}",
            "a.yaml:1:1: a '${...}' is nested in another; use one variable; substitution is not recursive",
        ),
        ("x ${HOST", "a.yaml:1:1: '${' is opened and never closed; close it with '}', or write '$${' for the text"),
        (
            "${file:nope}",
            "a.yaml:1:1: the secret file 'nope' cannot be used: no such file or directory; "
            "correct the path or the file",
        ),
    ],
)
def test_what_cannot_be_replaced_is_said_without_values(value, says):
    assert complaint(value, {"HOST": "h"}) == [says]


def test_secrets_stay_text_and_never_show_themselves(monkeypatch):
    monkeypatch.setenv("PASSWORD", "12345")

    secret = replaced("${env:PASSWORD}")

    assert secret == "12345"
    assert isinstance(secret, Secret)
    assert repr(secret) == "'***'"
    assert repr(replaced({"x": "user=me;pw=${env:PASSWORD}"})) == "{'x': '***'}"


def test_a_secret_file_is_read_without_its_last_newline(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    (tmp_path / "key").chmod(0o600)

    assert replaced("${file:key}", folder=str(tmp_path)) == "s3cret"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_secret_file_that_others_can_read_is_refused(tmp_path, mode):
    (tmp_path / "key").write_text("s3cret")
    (tmp_path / "key").chmod(mode)

    (says,) = complaint("${file:key}", folder=str(tmp_path))

    assert says == (
        f"a.yaml:1:1: the secret file 'key' cannot be used: others can read it (mode {mode:o}); run chmod 600 on it"
    )


def test_a_pipe_is_no_secret_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)

    (says,) = complaint("${file:pipe}", folder=str(tmp_path))

    assert "it is not a regular file" in says


def test_options_keep_their_secrets_hidden(folder, monkeypatch):
    monkeypatch.setenv("BROKERS", "b1:9092")
    monkeypatch.setenv("PASSWORD", "hunter2")
    Path("a.yaml").write_text(
        "sources: {a: {kafka: {servers: '${env:BROKERS}', topics: [t],\n"
        "                      sasl: {mechanism: plain, user: '${env:PASSWORD}', password: '${env:PASSWORD}'}}}}\n"
        "sinks: {b: {from: a, console: }}\n"
    )

    connector = load("a.yaml").sources[0].connector

    assert connector.servers == "b1:9092"
    assert (connector.sasl.user, connector.sasl.password) == ("hunter2", "hunter2")
    assert "b1" not in repr(connector)
    assert "hunter2" not in repr(connector)


def test_a_message_about_a_secret_does_not_tell_it(complaints, monkeypatch):
    monkeypatch.setenv("LATE", "hunter2 minutes")

    found = complaints(
        "sources: {a: {rate: {rows_per_second: '${env:LATE}'}, watermark: {column: x, delay: '${env:LATE}'}}}\n"
        "sinks: {b: {from: a, console: }}\n"
    )

    assert found == [
        "clicks.yaml:1:22: source 'a': 'rows_per_second' is '***', expected a whole number; "
        "a secret is text; write ${NAME} for a value that is not secret",
        "clicks.yaml:1:78: source 'a': '***' is not a duration; write a number and a unit, like '10 minutes'",
    ]


def test_a_number_in_a_variable_is_text_where_text_is_wanted(folder):
    Path("a.yaml").write_text(
        "sources: {a: {socket: {port: '${PORT}', host: '${HOST}'}}}\nsinks: {b: {from: a, console: }}\n"
    )

    connector = load("a.yaml", {"PORT": "9092", "HOST": "1"}).sources[0].connector

    assert (connector.port, connector.host) == (9092, "1")


SQL = """\
sources: {{a: {{rate: }}}}
steps:
  big: |
    {text}
sinks: {{b: {{from: big, console: }}}}
"""


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("SELECT * FROM a WHERE value > ${X}", "10", "SELECT * FROM a WHERE value > 10"),
        ("SELECT * FROM a WHERE value > ${X}", "-1.5", "SELECT * FROM a WHERE value > -1.5"),
        ("SELECT window(timestamp, '${X}') FROM a", "15 minutes", "SELECT window(timestamp, '15 minutes') FROM a"),
        ("SELECT * FROM ${X}", "a", "SELECT * FROM a"),
    ],
)
def test_a_variable_in_sql_fills_one_name_number_or_quoted_text(folder, text, value, result):
    Path("a.yaml").write_text(SQL.format(text=text))

    assert load("a.yaml", {"X": value}).steps[0].what.text == f"{result}\n"


@pytest.mark.parametrize(
    "value", ["1 OR true", "1; DROP TABLE x", "1 -- ", "x' OR 'a' = 'a", "json.`/etc/passwd`", "f(1)"]
)
@pytest.mark.parametrize("text", ["SELECT * FROM a WHERE value > ${X} AND 1 = 1", "SELECT '${X}' AS x, 1 FROM a"])
def test_a_variable_in_sql_does_not_change_the_statement(complaints, text, value):
    found = complaints(SQL.format(text=text), {"X": value})

    inside_quotes = text.startswith("SELECT '") and "'" not in value
    says = (
        f"clicks.yaml:4:{text.index('$') + 5}: the value of ${{X}} would change the SQL around it; "
        "a variable in SQL is one name, one number or text inside quotes"
    )
    assert found == ([] if inside_quotes else [says])


def test_a_secret_in_sql_is_refused(complaints, monkeypatch):
    monkeypatch.setenv("KEY", "hunter2")

    assert complaints(SQL.format(text="SELECT '${env:KEY}' FROM a")) == [
        "clicks.yaml:3:3: step 'big' has a secret in its text; write ${NAME} for a value that is not secret"
    ]


def test_a_missing_variable_is_one_finding(complaints):
    found = complaints("sources: {a: {socket: {port: '${NOPE}'}}}\nsinks: {b: {from: a, console: }}\n", {})

    assert found == ["clicks.yaml:1:31: the variable 'NOPE' is not set; set it, or write ${NOPE:-default}"]


def test_load_takes_variables_from_the_environment_by_default(folder, monkeypatch):
    monkeypatch.setenv("ROWS", "5")
    Path("a.yaml").write_text("sources: {a: {rate: {rows_per_second: '${ROWS}'}}}\nsinks: {b: {from: a, console: }}\n")

    assert load("a.yaml").sources[0].connector.rows_per_second == 5
    with pytest.raises(LoadError):
        load("a.yaml", {})


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A pipeline's folder, and a secret beside it."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/key").write_text("s3cret\n")
    (tmp_path / "vault/key").chmod(0o600)
    (tmp_path / "pipeline/link").symlink_to(tmp_path / "vault/key")
    return tmp_path


@pytest.mark.parametrize("path", ["../vault/key", "link", "{folder}/vault/key"])
def test_a_secret_file_outside_of_the_pipelines_folder_needs_its_folder_to_be_listed(
    folders: Path, path: str, monkeypatch: pytest.MonkeyPatch
):
    value = f"${{file:{path.format(folder=folders)}}}"

    (says,) = complaint(value, folder=str(folders / "pipeline"))
    assert says.endswith(
        "cannot be used: it is outside the pipeline's folder; "
        "move it there, or add its folder to PENSTOCK_SECRET_FOLDERS"
    )

    monkeypatch.setenv("PENSTOCK_SECRET_FOLDERS", f"/nowhere, {folders}/vault")
    assert replaced(value, folder=str(folders / "pipeline")) == "s3cret"


def test_a_folder_whose_name_only_begins_alike_is_another_folder(folders: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PENSTOCK_SECRET_FOLDERS", f"{folders}/vau")

    (says,) = complaint("${file:link}", folder=str(folders / "pipeline"))
    assert "outside the pipeline's folder" in says
