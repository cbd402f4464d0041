"""Every block of YAML and Python in the docs is right, and every file that the docs name exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from penstock.checks import check
from penstock.feeds import FEEDS
from penstock.load import load

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
)


CONNECTION = (
    "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=demo;SharedAccessKey=abc=;EntityPath=orders"
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets that docs and examples speak of."""
    monkeypatch.setenv("EVENTHUBS_CONNECTION", CONNECTION)
    monkeypatch.setenv("KAFKA_PASSWORD", "not-a-real-one")


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        texts = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        found += [(f"{page.relative_to(ROOT)}[{number}]", text) for number, text in enumerate(texts)]
    return found


@pytest.mark.parametrize(("where", "text"), blocks("yaml"), ids=[where for where, _ in blocks("yaml")])
def test_a_yaml_block_is_a_pipeline_without_errors(where: str, text: str, tmp_path: Path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    (tmp_path / "vault.py").write_text("def fetch(name):\n    return 'not-a-real-one'\n")
    for module in ("board", "lines", "model", "pager", "visits"):
        # Other blocks show parts of these modules.
        (tmp_path / f"{module}.py").write_text("def __getattr__(name): ...\n")
    (tmp_path / "kafka-password").write_text("not-a-real-one\n")
    (tmp_path / "kafka-password").chmod(0o600)

    found = check(load(file))

    assert [str(finding) for finding in found if finding.severity == "error"] == []


@pytest.mark.parametrize(("where", "text"), blocks("python"), ids=[where for where, _ in blocks("python")])
def test_a_python_block_builds_a_pipeline_without_errors(where: str, text: str, tmp_path: Path):
    file = tmp_path / "pipeline.py"
    file.write_text(text)

    found = check(load(file))

    assert [str(finding) for finding in found if finding.severity == "error"] == []


@pytest.mark.parametrize(("where", "text"), blocks("py"), ids=[where for where, _ in blocks("py")])
def test_a_piece_of_python_is_python(where: str, text: str):
    compile(text, where, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_file_leads_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_command_that_the_docs_name_exists():
    from penstock.cli import COMMANDS

    named = {
        verb for page in PAGES for verb in re.findall(r"^(?:`|\| `)?penstock ([a-z]+)", page.read_text(), re.MULTILINE)
    }

    assert named
    assert named <= set(COMMANDS)


def calls(verbs: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each call of some commands, in blocks for the shell and inside sentences."""
    pattern = rf"(?:^|`)penstock ((?:{'|'.join(verbs)}) [^`\n]+)"
    return [
        (str(page.relative_to(ROOT)), call.removesuffix(" &"))
        for page in PAGES
        for call in re.findall(pattern, page.read_text(), re.MULTILINE)
        if "..." not in call and "[" not in call
    ]


@pytest.mark.parametrize(("page", "call"), calls(("feed", "record")))
def test_a_call_of_feed_or_record_is_one_that_the_command_line_takes(page: str, call: str):
    import importlib

    verb, *arguments = shlex.split(call, comments=True)
    command = importlib.import_module(f"penstock.cli.{verb}").command

    taken = command.make_context(verb, arguments).params

    assert taken.get("kind") is None or taken["kind"] in FEEDS


def test_every_example_has_a_readme_and_no_errors():
    folders = [path for path in (ROOT / "examples").iterdir() if path.is_dir()]

    for folder in folders:
        assert (folder / "README.md").exists()
        for file in (each for each in folder.glob("*.yaml") if not each.stem.endswith("_test")):
            assert [str(each) for each in check(load(file)) if each.severity == "error"] == []
