"""The guide: pictures that are right, references that leave nothing out, and pages that need nothing from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.docs.console import ROOT

from penstock.checks.silences import NOT_SILENCED
from penstock.cli import COMMANDS
from penstock.cli.explain import rules
from penstock.connectors import SINKS, SOURCES
from penstock.events import CATALOGUE
from penstock.load import load
from penstock.load.document import KEYS
from penstock.steps import STEPS
from penstock.watch.metrics import METRICS

EXTENSION = ROOT / "docs" / "_ext" / "guide"


@pytest.fixture(scope="module", autouse=True)
def _extension() -> None:
    """The modules of the extension that need no Sphinx, importable one by one."""
    sys.path.insert(0, str(EXTENSION))


def test_every_connector_and_step_is_in_the_reference_with_its_options():
    import reference

    text = reference.connectors()

    for role, kinds in (("source", SOURCES), ("step", STEPS), ("sink", SINKS)):
        for kind in kinds:
            assert f"({role}-{kind})=" in text
    assert "| `records_per_trigger` |" in text
    assert "Promise: exactly-once: a batch is one commit with its number" in text


def test_the_table_of_sinks_is_generated_from_the_registry():
    import reference

    assert "\n<!-- generated: sinks -->\n" in (ROOT / "docs" / "file.md").read_text()
    assert all(f"`{kind}`" in reference.PARTS["sinks"]() for kind in SINKS)
    assert "'delivery: exactly-once'" in reference.PARTS["sinks"]()


def test_the_rules_that_cannot_be_silenced_are_generated_from_the_code():
    import reference

    assert "\n<!-- generated: silences -->\n" in (ROOT / "docs" / "howto" / "check.md").read_text()
    assert all(f"| {why} |" in reference.PARTS["silences"]() for why in NOT_SILENCED.values())


def test_the_readme_describes_the_demo_that_make_demo_runs():
    readme, demo = (ROOT / "README.md").read_text(), (ROOT / "examples" / "demo.py").read_text()
    paragraph = readme.partition("`make demo` sets everything up")[2].partition("\n`make test`")[0]

    ((path, name),) = re.findall(r"\((examples/\w+/(\w+\.yaml))\)", paragraph)
    assert f'"{name}"' in demo
    kinds = {connector.kind for connector in load(ROOT / path).connectors}
    assert [kind for kind in kinds if kind.capitalize() not in paragraph] == []


def test_every_rule_has_a_section_with_what_check_says():
    import reference

    text = reference.rules()

    assert [name for name in rules() if f"({name})=\n## {name}\n" not in text] == []
    assert "[names-exist]\n```" in text


def test_every_promise_command_metric_and_key_is_in_the_reference():
    import reference

    assert all(SINKS[kind].promise in reference.promises() for kind in SINKS)
    assert all(f"## penstock {verb}\n" in reference.cli() for verb in COMMANDS)
    assert "### penstock dev up\n" in reference.cli()
    assert all(f"| `{metric.name}` |" in reference.metrics() for metric in METRICS)
    assert all(f"| `{name}` |" in reference.events() for name in CATALOGUE)
    assert all(f"| `{key}` |" in reference.file() for key in KEYS)


def test_every_key_and_setting_of_the_file_says_what_it_is():
    import reference

    rows = [line for line in reference.file().splitlines() if line.startswith("| `")]

    assert [row for row in rows if row.endswith("|  |")] == []


def test_a_row_is_late_as_spark_says_it():
    import timeline

    #  batch 1 has 10:40, so that batch 2 is judged by 10:10; batch 3 has 10:46, so that batch 4 is judged by 10:16
    times = [[605, 612], [640], [601], [646], [602]]

    marks = timeline.watermarks(times, 30)

    assert [timeline.clock(mark) if mark else None for mark in marks] == [
        None,
        "09:42",
        "10:10",
        "10:10",
        "10:16",
        "10:16",
    ]
    assert timeline.fate(601, 640, marks[2], 15, 15) == "late"
    assert timeline.fate(602, 646, marks[4], 15, 15) == "too-late"
    assert timeline.windows_of(612, 15, 5) == [(600, 615), (605, 620), (610, 625)]


def test_pictures_are_drawings():
    import graph
    import timeline

    from penstock.load import load
    from penstock.storage.layout import manifest

    ads = graph.draw_graph(manifest(load(ROOT / "examples" / "ads" / "ads.yaml"))["nodes"])
    times = timeline.draw_timeline("15 minutes", "30 minutes", [["10:05"], ["10:40"], ["09:01"]])

    assert len(ElementTree.fromstring(ads).findall("rect")) == 10
    assert 'class="too-late"' in ElementTree.tostring(ElementTree.fromstring(times)).decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` builds them."""
    out = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_the_build_has_no_warnings_and_every_page(built: Path):
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").glob("**/*.md")}

    assert [str(page) for page in pages if not (built / page).exists()] == []
    assert "<svg" in (built / "tutorial" / "4-windows.html").read_text()


def test_the_pages_load_nothing_from_outside(built: Path):
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]+src="(?:https?:)?//|<link[^>]+(?:stylesheet|preload|icon)[^>]+href="(?:https?:)?//'
    )

    assert [page.name for page in built.glob("**/*.html") if loads.search(page.read_text())] == []
    assert [
        sheet.name for sheet in built.glob("**/*.css") if re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text())
    ] == []
