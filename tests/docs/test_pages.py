"""The reader's path: every page with commands is followed step by step, and what it shows is what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.console import ROOT, Command, File, Shell, as_told, done, fits, make, steps


def _number(page: Path) -> tuple[str, int, str]:
    """Labs in their order: the tenth comes after the ninth."""
    number = page.name.partition("-")[0]
    return str(page.parent), int(number) if number.isdigit() else 0, page.name


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"), key=_number)]
    if any(isinstance(step, Command) for step in steps(page.read_text()))
]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the services of the pages live, from one page to the next, as a reader's do."""
    folder = tmp_path_factory.mktemp("services")
    yield folder / "dev"
    place = tmp_path_factory.mktemp("last") / "last"
    place.mkdir()
    Shell(place, folder / "dev").run("penstock dev down")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_followed(page: Path, tmp_path: Path, dev: Path):
    folder = tmp_path / "reader"
    folder.mkdir()
    shell = Shell(folder, dev)
    try:
        for step in steps(page.read_text()):
            if isinstance(step, File):
                make(step, shell)
                continue
            code, printed = done(step, shell)
            where = f"{page.relative_to(ROOT)}:{step.line}: $ {step.text}"
            assert as_told(step, printed), f"{where}\nprints\n{printed}\nand not\n" + "\n".join(step.prints)
            assert bool(code) == step.fails, f"{where}\nends with {code}"
    finally:
        shell.end()


def test_the_first_pages_of_a_reader_are_among_them():
    names = {str(page.relative_to(ROOT)) for page in PAGES}

    assert {"README.md", "docs/quickstart.md"} <= names


def test_dots_stand_for_what_changes():
    assert fits(("batch 1, ... s", "...", "end"), "batch 1, 2.5 s\na\nb\nend\n")
    assert fits(("a", "..."), "a\n")
    assert not fits(("batch 1, ... s",), "batch 2, 2.5 s\n")
    assert not fits(("a",), "a\nb\n")
    assert fits(("a",), "a\nb\n", whole=False)


def test_numbers_and_widths_may_vary_where_the_page_says_so():
    shown = (
        "+---+",
        "|n  |",
        "|12 | rows at 2026-11-16 04:05:30, 5.3 s",
    )

    assert fits(shown, "+-----+\n|n    |\n|1234 | rows at 2027-01-02 10:00:00, 12 s\n", varies=True)
    assert not fits(shown, "+---+\n|m  |\n|12 | rows at 2026-11-16 04:05:30, 5.3 s\n", varies=True)


def test_a_page_is_read_in_order():
    page = "```yaml a.yaml\nx: 1\n```\ntext\n```console\n$ one\nprinted\n$ two \\\n> more\n```\n```yaml\ny: 2\n```\n"

    assert list(steps(page)) == [
        File("a.yaml", "x: 1\n"),
        Command(6, "one", ("printed",)),
        Command(8, "two \\\nmore", ()),
    ]
