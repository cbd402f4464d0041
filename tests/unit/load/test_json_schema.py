"""The JSON Schema accepts the files that load, and refuses wrong keys, types and values."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock.cli.list import describe_options
from penstock.connectors import SINKS, SOURCES
from penstock.errors import LoadError
from penstock.load import load_text
from penstock.load.document import KEYS
from penstock.load.json_schema import case_file_schema, file_schema
from penstock.load.yaml_file import parse_yaml, read_yaml
from penstock.options import Options
from penstock.steps import STEPS
from penstock.testing.parse import KEYS as TEST_KEYS
from penstock.testing.parse import case_schema

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@functools.cache
def validator(tests: bool = False) -> Draft202012Validator:
    schema = case_file_schema(case_schema()) if tests else file_schema(case_schema())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def mistakes(values: Any, tests: bool = False) -> list[str]:
    return [error.message for error in validator(tests).iter_errors(values)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_is_valid(file: Path):
    values = read_yaml(file, file.name).values

    assert mistakes(values, file.stem.endswith("_test")) == []


def pipelines_of_the_guide() -> list[Any]:
    """The YAML blocks of the guide that are pipelines."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"^```yaml.*?\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        for number, block in enumerate(blocks):
            if re.search(r"^sources:", block, re.MULTILINE) and re.search(r"^sinks:", block, re.MULTILINE):
                found.append(pytest.param(block, id=f"{page.stem}-{number}"))
    return found


@pytest.mark.parametrize("text", pipelines_of_the_guide())
def test_every_pipeline_of_the_guide_is_valid(text: str):
    assert mistakes(parse_yaml(text, "page").values) == []


@pytest.mark.parametrize(("role", "kinds"), [("sources", SOURCES), ("steps", STEPS), ("sinks", SINKS)])
def test_every_option_is_in_the_schema_with_its_description(role: str, kinds: dict[str, type[Options]]):
    definitions = validator().schema["$defs"]

    for options in kinds.values():
        properties = definitions[options.__name__]["properties"]
        assert list(properties) == [option["name"] for option in describe_options(options)]
        assert [name for name, each in properties.items() if not each.get("description")] == []


def test_every_key_of_the_file_and_of_a_test_has_its_description():
    properties = validator().schema["properties"]

    assert {key: each["description"] for key, each in properties.items()} == KEYS
    assert {key: each["description"] for key, each in case_schema()["properties"].items()} == TEST_KEYS


GOOD = """\
name: orders
sources:
  orders:
    kafka: {servers: "h:9092", topics: [orders]}
    json: id int, at timestamp
    watermark: {column: at, delay: 10 minutes}
steps:
  once: {dedupe: {from: orders, keys: [id]}}
  scored: {python: "model:score", reads: [once]}
sinks:
  out: {from: scored, files: {path: out}, trigger: 1 minute}
restart: {limit: 5}
history: 7 days
"""
WRONG = {
    "an unknown key": ("name: orders", "nam: orders"),
    "a bad name": ("name: orders", "name: or ders"),
    "an unknown connector": ("kafka: {", "kafak: {"),
    "a misspelled option": ("topics:", "topcis:"),
    "two connectors": ("    json: id", "    rate: {}\n    json: id"),
    "two decoders": ("    json: id", "    csv: id int\n    json: id"),
    "a list instead of columns": ("json: id int, at timestamp", "json: [id]"),
    "a bad duration": ("10 minutes", "10 min"),
    "a missing option": ("{column: at, delay: 10 minutes}", "{column: at}"),
    "no keys": ("keys: [id]", "keys: []"),
    "a function without inputs": (", reads: [once]", ""),
    "an unknown step": ("{dedupe: {from", "{dedup: {from"),
    "a sink that reads nothing": ("from: scored, ", ""),
    "a bad trigger": ("trigger: 1 minute", "trigger: every minute"),
    "a number in quotes": ("limit: 5", "limit: '5'"),
    "a negative number": ("limit: 5", "limit: -1"),
    "a name that SQL cannot use": ("  out:", "  out-1:"),
    "a key that is written as text": ("restart: {limit: 5}", "restart: always"),
}


def test_a_good_file_is_valid():
    assert mistakes(parse_yaml(GOOD, "a.yaml").values) == []


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_not_valid(what: str):
    text = GOOD.replace(*WRONG[what], 1)

    assert text != GOOD
    assert mistakes(parse_yaml(text, "a.yaml").values) != []
    with pytest.raises(LoadError):
        load_text(text.encode(), "a.yaml")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("delay: 10 minutes", 'delay: "${DELAY}"'),
        ("limit: 5", 'limit: "${LIMIT:-5}"'),
        ("keys: [id]", 'keys: "${KEYS}"'),
        ("topics: [orders]", "topics: orders"),
        ("files: {path: out}", "console: "),
        ("files: {path: out}", "to: [{memory: }, {files: {path: out}, where: id > 3}]"),
    ],
)
def test_variables_and_short_forms_are_valid(old: str, new: str):
    assert mistakes(parse_yaml(GOOD.replace(old, new, 1), "a.yaml").values) == []


def test_a_file_of_tests_has_tests_only():
    good: dict[str, Any] = {"tests": [{"name": "a", "given": {"x": [[{"id": 1}]]}, "expect": {"y": []}}]}

    assert mistakes(good, tests=True) == []
    assert mistakes({**good, "sources": {}}, tests=True) != []
    assert mistakes({"tests": [{"nam": "a", "given": {"x": []}}]}, tests=True) != []


def test_the_schema_is_json():
    assert json.loads(json.dumps(validator().schema)) == validator().schema
