from __future__ import annotations

import json

from click.testing import CliRunner

from penstock.cli import penstock
from penstock.connectors import SINKS, SOURCES


def test_every_connector_is_listed_with_its_role():
    shown = CliRunner().invoke(penstock, ["list"]).output.splitlines()

    roles = {tuple(line.split()[:2]) for line in shown}
    assert roles >= {(kind, "source") for kind in SOURCES} | {(kind, "sink") for kind in SINKS}


def test_the_options_of_one_are_shown_with_type_default_and_promise():
    shown = CliRunner().invoke(penstock, ["list", "console"]).output

    assert "  rows                 How many rows of a batch to print. (whole number; default 20)\n" in shown
    assert "  promise: none (debug only): a replayed batch is printed again\n" in shown


def test_json_is_for_machines():
    shown = json.loads(CliRunner().invoke(penstock, ["list", "files", "--json"]).output)

    assert [(each["kind"], each["role"]) for each in shown] == [("files", "source"), ("files", "sink")]
    assert "schema" in [option["name"] for option in shown[0]["options"]]


def test_an_unknown_word_gets_the_nearest_one():
    result = CliRunner().invoke(penstock, ["list", "kafak"])

    assert result.exit_code != 0
    assert str(result.exception) == "unknown connector or step 'kafak'; did you mean 'kafka'?"


def test_an_unknown_command_gets_the_nearest_one():
    result = CliRunner().invoke(penstock, ["chekc"])

    assert result.exit_code == 2
    assert "unknown command 'chekc'; did you mean 'check'?" in result.output
