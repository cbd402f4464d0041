"""Changes pipelines by chance, and looks where the findings of `penstock check` point.

python -m tests.agreement.mutations [--count N] [--seed S]

A word of SQL    gets an ending that makes it unknown; a finding that names the word must be at its line and column.
                 The SQL is written in all styles of YAML scalars first.
Anything else    lines, characters, indentation, odd characters: no traceback, and every finding is inside the file.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.agreement.pipelines import generate
from tests.scalars import STYLES, Layout, index_of

from penstock.checks import check
from penstock.errors import LoadError
from penstock.load.document import to_pipeline
from penstock.load.variables import substitute
from penstock.load.yaml_file import parse_yaml
from penstock.model import Finding

FILE = "pipeline.yaml"
_EXAMPLES = Path(__file__).parents[2] / "examples"
_TARGET_SQL = ("select", "where", "group_by")
# Not in an escape, a reference, a string of one word or the comment that `tests.scalars` writes.
_WORD = re.compile(r"(?<![\\\w$'\"{:])(?!why\b)[A-Za-z_]\w{2,}\b(?![\"':}])")
_SECRET = re.compile(r"\$\{\w+(:\w*)?\}")
_PLACEHOLDER = re.compile(r"^(?P<key>[ -]*)\w+: (?P<name>SQL\d+SQL)$", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """A changed file."""

    kind: str
    text: str
    word: str = ""
    """What a word of SQL was changed to; empty for other changes."""
    folder: str = "."


@dataclass(frozen=True)
class Outcome:
    """What `check` said about a changed file."""

    mutation: Mutation
    findings: tuple[Finding, ...]
    traceback: str = ""
    seconds: float = 0.0

    @property
    def named(self) -> list[Finding]:
        """The findings about the changed word."""
        word = self.mutation.word
        return [each for each in self.findings if word and re.search(rf"['.]{word}'", each.says)]

    @property
    def is_decidable(self) -> bool:
        """Whether it is known where a finding has to be."""
        return bool(self.named)

    @property
    def is_at_place(self) -> bool:
        """Whether every finding about the changed word is exactly there."""
        text = self.mutation.text
        start = text.find(self.mutation.word)
        # A quoted name starts with its back-tick.
        start -= text[start - 1] == "`"
        return all(_index(text, each) == start for each in self.named)

    @property
    def outside(self) -> list[Finding]:
        """The findings at places that the file does not have."""
        return [each for each in self.findings if not _is_inside(self.mutation.text, each)]


def _index(text: str, finding: Finding) -> int:
    return index_of(text, finding.at.line, finding.at.column)


def _is_inside(text: str, finding: Finding) -> bool:
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    line, column = finding.at.line, finding.at.column
    return finding.at.file == FILE and 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1


def run(mutation: Mutation) -> Outcome:
    """Check a changed file as the command line does it."""
    began = time.perf_counter()
    try:
        findings = tuple(_findings(mutation))
    except Exception:
        return Outcome(mutation, (), traceback.format_exc(), time.perf_counter() - began)
    return Outcome(mutation, findings, seconds=time.perf_counter() - began)


def _findings(mutation: Mutation) -> list[Finding]:
    try:
        read = substitute(parse_yaml(mutation.text, FILE, mutation.folder), {})
        return check(to_pipeline(read.document, read.findings))
    except LoadError as error:
        return list(error.findings)


def mutate(chance: random.Random) -> Mutation:
    """A file of the examples, or a generated one, with one change."""
    text, folder = _choose_file(chance)
    if chance.random() < 0.6:
        mutation = _change_word(chance, text, folder)
        if mutation is not None:
            return mutation
    kind = chance.choice(list(_CHANGES))
    return Mutation(kind, _CHANGES[kind](chance, text), folder=folder)


def _choose_file(chance: random.Random) -> tuple[str, str]:
    if chance.random() < 0.4:
        return chance.choice(_examples())
    return generate(chance).text, "."


@cache
def _examples() -> list[tuple[str, str]]:
    files = (file for file in sorted(_EXAMPLES.glob("*/*.yaml")) if not file.stem.endswith("_test"))
    return [(_SECRET.sub("1 second", file.read_text(encoding="utf-8")), str(file.parent)) for file in files]


def _change_word(chance: random.Random, text: str, folder: str) -> Mutation | None:
    """The file with one word of its SQL changed; None if it has none."""
    restyled, spans = restyle(chance, text)
    words = [match for start, end in spans for match in _WORD.finditer(restyled, start, end)]
    if not words:
        return None
    chosen = chance.choice(words)
    word = f"{chosen[0]}_zq{chance.randrange(10_000)}"
    return Mutation("word", restyled[: chosen.start()] + word + restyled[chosen.end() :], word, folder)


def restyle(chance: random.Random, text: str) -> tuple[str, list[tuple[int, int]]]:
    """The file with its SQL in other styles of scalars, and where the SQL is."""
    texts: list[str] = []
    values = _take_sql(parse_yaml(text, FILE).values, (), texts)
    rest = "# é😀\n" + yaml.dump(values, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=False)
    newline = chance.choice(["\n", "\n", "\r\n"])
    done, spans = "", []
    while found := _PLACEHOLDER.search(rest):
        parent = len(found["key"])
        scalar = _emit(texts[int(found["name"][3:-3])], chance, Layout(parent + chance.choice([2, 4]), parent, newline))
        done += rest[: found.start("name")].replace("\n", newline)
        spans.append((len(done), len(done) + len(scalar)))
        done += scalar
        # A block ends with its last line break.
        rest = rest[found.end() + scalar.endswith("\n") :]
    return done + rest.replace("\n", newline), spans


def _emit(text: str, chance: random.Random, layout: Layout) -> str:
    styles = chance.sample(list(STYLES.values()), len(STYLES))
    return next(emitted[0] for emit in styles if (emitted := emit(text, chance, layout)) is not None)


def _take_sql(value: Any, keys: tuple[str | int, ...], texts: list[str]) -> Any:
    """A copy of the values in which a placeholder is in the place of each SQL text."""
    if isinstance(value, dict):
        return {key: _take_sql(each, (*keys, key), texts) for key, each in value.items()}
    if isinstance(value, list):
        return [_take_sql(each, (*keys, place), texts) for place, each in enumerate(value)]
    if not isinstance(value, str) or not _is_sql(keys):
        return value
    texts.append(value)
    return f"SQL{len(texts) - 1}SQL"


def _is_sql(keys: tuple[str | int, ...]) -> bool:
    in_step = keys[:1] == ("steps",) and (len(keys) == 2 or keys[2:] == ("sql",))
    return in_step or (keys[:1] == ("sinks",) and keys[2:3] == ("to",) and keys[-1] in _TARGET_SQL)


_ODD = [
    *("\x85", "\u2028", "\ufeff", "\u200b", "\u202e", "\x00", "\x07", "\r", "\t", "\xa0"),
    *("😀", "e\u0301", "\ud7ff", "\uffff"),
]


def _delete_line(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.pop(chance.randrange(len(lines)))
    return "".join(lines)


def _duplicate_line(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    return "".join([*lines[: place + 1], *lines[place:]])


def _swap(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) - 1)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _truncate(chance: random.Random, text: str) -> str:
    return text[: chance.randrange(len(text))]


def _indent(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    line = lines[place]
    lines[place] = " " * chance.randint(0, 6) + line.lstrip(" ")
    return "".join(lines)


def _insert(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) + 1)
    return text[:place] + chance.choice(_ODD) + text[place:]


def _delete_character(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text))
    return text[:place] + text[place + 1 :]


_CHANGES: dict[str, Callable[[random.Random, str], str]] = {
    "delete line": _delete_line,
    "duplicate line": _duplicate_line,
    "swap characters": _swap,
    "truncate": _truncate,
    "indent": _indent,
    "insert": _insert,
    "delete character": _delete_character,
}


def outcomes(count: int, seed: str) -> Iterator[Outcome]:
    """The outcomes of so many mutations."""
    return (run(mutate(random.Random(f"{seed}-{number}"))) for number in range(count))


def summarize(done: list[Outcome]) -> Iterator[str]:
    """Counts, then everything that is wrong."""
    words = [each for each in done if each.mutation.word]
    decidable = [each for each in words if each.is_decidable]
    wrong = [each for each in decidable if not each.is_at_place]
    outside = [each for each in done if each.outside]
    yield f"{len(done)} mutations, {len(words)} of them words of SQL"
    yield f"{sum(bool(each.traceback) for each in done)} tracebacks"
    yield f"{len(outside)} with a finding outside the file"
    yield f"slowest {max(each.seconds for each in done) * 1000:.0f} ms"
    yield f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
    yield f"{len(decidable) - len(wrong)} of {len(decidable)} decidable ones have their findings at the mutated place"
    for each in [each for each in done if each.traceback][:3]:
        yield f"\n{each.traceback}\n{each.mutation.text}"
    for each in outside[:3]:
        yield f"\noutside: {', '.join(map(str, each.outside))}\n{each.mutation.text}"
    for each in wrong[:5]:
        yield f"\nelsewhere: {', '.join(map(str, each.named))}\n{each.mutation.text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    for line in summarize(list(outcomes(arguments.count, arguments.seed))):
        print(line)


if __name__ == "__main__":
    main()
