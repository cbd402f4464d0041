"""Every command in the blocks for the shell of README, docs and examples runs, as it is written.

A command without an end is given Ctrl-C at its first sign of life; the server of an HTTP stream is one of ours.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.docs.console import ROOT, Shell
from tests.unit.feeds.streams import Server, sends, serving

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
    if BLOCK.search(page.read_text())
]
#: What says that a command without an end is at work.
ALIVE = {
    r"penstock run (?!.*--once)": r"batch \d",
    r"penstock feed (?!.*(--count|--file))": r"records/s|waiting for a pipeline's",
}
#: This test is a part of the first; tests/services/test_examples_tests.py runs the tests of all examples.
ELSEWHERE = ("make test", "penstock test ")


def seen(command: str) -> Callable[[str], bool] | None:
    """When it gets Ctrl-C; None for a command that ends by itself or is in the background."""
    sign = next((sign for begins, sign in ALIVE.items() if re.match(begins, command)), None)
    return None if sign is None or command.endswith("&") else lambda said: bool(re.search(sign, said))


def commands(page: Path) -> list[str]:
    return [
        line
        for block in BLOCK.findall(page.read_text())
        for line in block.splitlines()
        if not line.startswith(ELSEWHERE)
    ]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a reader has: the examples, and the Makefile of the clone that is tested."""
    folder = tmp_path_factory.mktemp("reader") / "clone"
    unclean = shutil.ignore_patterns(".penstock", "input", "output", "archive", "lake", "__pycache__")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=unclean)
    token = folder / "stream-token"
    token.write_text("a-token")
    token.chmod(0o600)
    yield folder
    ended(folder)


def ended(folder: Path) -> None:
    """End the services of a folder."""
    place = folder.parent / "last"
    place.mkdir(exist_ok=True)
    shell = Shell(place, folder / ".penstock" / "dev")
    code, printed = shell.run("penstock dev down")
    assert code == 0, printed


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(sends(b'{"id": "1", "user": {"id": "7"}}\r\n', then="stall")) as server:
        yield server


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_runs(page: Path, clone: Path, server: Server):
    lines = commands(page)
    # A broker with listeners of its own is not the one that the other pages share.
    if any(line.startswith("penstock dev up") for line in lines):
        ended(clone)
    shell = Shell(clone, clone / ".penstock" / "dev")
    try:
        for line in lines:
            text = re.sub(r"^make ", f"make -C {shlex.quote(str(ROOT))} ", line)
            text = text.replace("https://api.example/stream", server.url)
            code, printed = shell.run(f"export STREAM_TOKEN=a-token\n{text}", until=seen(line))
            assert code == 0, f"{page.relative_to(ROOT)}: {line}\nends with {code}\n{printed}"
    finally:
        shell.end()
