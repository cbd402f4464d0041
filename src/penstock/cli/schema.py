"""penstock schema"""

from __future__ import annotations

import json

import click


@click.command(short_help="Print the JSON Schema of pipeline files, for editors.")
@click.option("--tests", is_flag=True, help="The schema of files of tests, NAME_test.yaml, instead.")
def command(tests: bool) -> None:
    """Print the JSON Schema (draft 2020-12) of a pipeline file, with which editors complete and check it.

    It has the connectors of installed packages too. Editors see keys, types and values; `penstock check` sees the rest.

    Example: penstock schema > penstock.schema.json
    """
    from penstock.load.json_schema import case_file_schema, file_schema
    from penstock.testing.parse import case_schema

    schema = case_file_schema(case_schema()) if tests else file_schema(case_schema())
    click.echo(json.dumps(schema, indent=2))
