"""The pages for contributors and operators agree with the code: layers, packages and messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.console import ROOT

SOURCE = ROOT / "src" / "penstock"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
TROUBLESHOOTING = (ROOT / "docs" / "troubleshooting.md").read_text()


def contract_layers() -> list[set[str]]:
    """The layers of the import contract, top first."""
    tomllib = pytest.importorskip("tomllib")
    config: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(each["layers"] for each in config["contracts"] if each["type"] == "layers")
    return [{name.strip("() ").removeprefix("penstock.") for name in re.split(r"[|:]", layer)} for layer in layers]


def drawn_layers() -> list[set[str]]:
    """The layers in the page's drawing, top first: names with `|` between them, then a description."""
    drawing = ARCHITECTURE.partition("## Layers")[2].partition("```text\n")[2].partition("```")[0]
    return [set(re.split(r" {2,}", line)[0].split(" | ")) for line in drawing.splitlines()]


def test_the_drawing_has_every_layer_of_the_import_contract_in_the_same_order():
    contract = contract_layers()
    named = set().union(*contract)

    drawn = [layer & named for layer in drawn_layers()]

    assert [layer for layer in drawn if layer] == contract


def test_the_drawing_has_every_package_and_module():
    rooms = {path.stem for path in SOURCE.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}

    assert set().union(*drawn_layers()) == rooms - {"__init__", "__main__"}


#: Attributes of PySpark that lead into the JVM, and Py4J's own door.
INTERNALS = re.compile(
    r"\._(jvm|jdf|jsq|jsparkSession|jsc|sc|gateway|jc|jwrite|jreader|ensure_initialized|active_spark_context|options)\b"
    r"|java_gateway|launch_gateway"
)


def test_only_the_spark_package_reaches_into_sparks_internals():
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "spark"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if INTERNALS.search(line)
    ]

    assert found == []


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock"):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_the_private_modules_of_a_package_are_imported_by_that_package_only():
    private = re.compile(r"(penstock(?:\.\w+)*?)\.(_[a-z]\w*)(\.|$)")
    found = []
    for path in SOURCE.rglob("*.py"):
        package = ".".join(("penstock", *path.relative_to(SOURCE).parent.parts))
        for name in imports(path):
            match = private.match(name)
            is_module = match and (SOURCE.parent / match[1].replace(".", "/") / f"{match[2]}.py").exists()
            if match and is_module and not package.startswith(match[1]):
                found.append(f"{path.relative_to(SOURCE)} imports {name}")

    assert found == []


def test_each_term_of_the_glossary_stands_once_in_alphabetical_order():
    terms = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[2:]

    assert terms == sorted(set(terms), key=str.lower)


def test_every_message_of_the_troubleshooting_page_is_one_that_penstock_prints():
    source = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    parts = [
        (heading, part.strip(" ,:;"))
        for heading in re.findall(r"^### `(.+)`$", TROUBLESHOOTING, re.MULTILINE)
        for part in heading.split("...")
    ]

    assert len(parts) > 20
    assert [heading for heading, part in parts if part and not part.isupper() and part not in source] == []
