from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

from penstock.cli import penstock


def test_the_schema_is_printed():
    result = CliRunner().invoke(penstock, ["schema"])

    schema = json.loads(result.stdout)
    assert result.exit_code == 0
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "sources" in schema["properties"]


def test_the_schema_is_printed_without_spark():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli import penstock; "
        "r = CliRunner().invoke(penstock, ['schema']); assert r.exit_code == 0; assert 'pyspark' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_schema_of_files_of_tests_is_printed():
    result = CliRunner().invoke(penstock, ["schema", "--tests"])

    assert list(json.loads(result.stdout)["properties"]) == ["tests"]
