"""Parses YAML into plain values with their locations; safe for untrusted text.

Comments silence a finding: `# penstock: allow RULE because REASON`, and with `--` in SQL. A comment after other text is
about its own line, one that is alone about the next line; comments may stand above each other. Text in quotes and in
blocks (`|`, `>`) has no YAML comments.
"""

from __future__ import annotations

import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from penstock.errors import LoadError
from penstock.load.reader import Document, parse_scalar, sort_by_location
from penstock.load.text_map import FileText, ScalarText
from penstock.model import Finding, Keys, Location, Silence
from penstock.sql import Token, tokenize

MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_ALIASED = 10_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, file: str) -> Document:
    """Read the document of a file; a LoadError has every YAML error."""
    return parse_yaml(_text(path, file), file, str(path.parent))


def parse_yaml(text: str, file: str, folder: str = ".") -> Document:
    """Parse the document of a text; a LoadError has every YAML error."""
    tree = _Tree(FileText(file, text))
    try:
        for event in _events(text):
            tree.add(event)
    except yaml.YAMLError as error:
        tree.findings.append(explain_error(error, tree.file))
    except _StopError:
        pass
    tree.check_top()
    if tree.findings:
        raise LoadError(sort_by_location(tree.findings))
    silences = find_silences(text, file, tree.places, _events) if may_have_silences(text) else ()
    return Document(tree.top, file, folder, tree.places, tree.texts, tree.aliases, silences=silences)


def _text(path: Path, file: str) -> str:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise _load_error(file, "this is not a regular file", "give a .yaml file")
    if found.st_size > MAX_BYTES:
        raise _load_error(file, f"the file has {found.st_size} bytes, more than {MAX_BYTES}", "keep data out of it")
    return decode_text(path.read_bytes(), file)


def decode_text(data: bytes, file: str) -> str:
    """Decode the bytes of a file; a LoadError if they are too long or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise _load_error(file, f"the file has more than {MAX_BYTES} bytes", "keep data out of it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
        at = FileText(file, before).locate(len(before))
        finding = Finding("yaml", at, "the text is not UTF-8", "save the file as UTF-8")
        raise LoadError([finding]) from None


def _load_error(file: str, says: str, fix: str) -> LoadError:
    return LoadError([Finding("file", Location(file), says, fix)])


def _events(text: str) -> Iterator[Any]:
    # Events, not nodes: the node parser recurses as deep as the text is nested.
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


class _StopError(Exception):
    """Parsing cannot continue after this error."""


@dataclass
class _OpenCollection:
    """A mapping or list being filled."""

    values: Any
    keys: Keys
    anchor: str | None
    key: str | None = None
    size: int = 1
    lines: dict[str, int] = field(default_factory=dict)


class _Tree:
    """Values, locations and findings, built event by event."""

    def __init__(self, file: FileText) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.places: dict[Keys, Location] = {(): Location(file.file)}
        self.texts: dict[Keys, ScalarText] = {}
        self.aliases: dict[Keys, Keys] = {}
        self.top: Any = None
        self._documents = 0
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[Any, int, Keys]] = {}
        self._aliased = 0

    def add(self, event: Any) -> None:
        """Add one event of the parser."""
        if isinstance(event, yaml.NodeEvent):
            self._check_tag(event)
            self._add_node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            self._close(done.values, done.size, done.anchor, done.keys)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop("yaml", event, "a second document starts here with '---'", "write one pipeline per file")

    def check_top(self) -> None:
        """Report a file that is not a mapping."""
        if self.findings or isinstance(self.top, dict):
            return
        at = Location(self.file.file)
        found = "the file is empty" if self.top is None else "the file is not a mapping of keys to values"
        self.findings.append(Finding("yaml", at, found, "a pipeline has at least 'sources:' and 'sinks:'"))

    def _add_node(self, event: Any) -> None:
        holder = self._open[-1] if self._open else None
        if holder is not None and isinstance(holder.values, dict) and holder.key is None:
            self._add_key(holder, event)
            return
        keys = self._keys(event, holder)
        if isinstance(event, yaml.AliasEvent):
            value, size, self.aliases[keys] = self._resolve_alias(event)
            self._close(value, size, None, keys)
        elif isinstance(event, yaml.ScalarEvent):
            self._close(self._scalar(event, keys), 1, event.anchor, keys)
        else:
            if len(self._open) >= MAX_DEPTH:
                self._stop("yaml", event, f"the nesting is deeper than {MAX_DEPTH} levels", "flatten it")
            values: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._anchors.pop(event.anchor, None)
            self._open.append(_OpenCollection(values, keys, event.anchor))

    def _add_key(self, holder: _OpenCollection, event: Any) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            says, fix = "a key is a list, a mapping or an alias", "write a word; quote text that starts with '{' or '['"
            self._stop("yaml", event, says, fix)
        key, at = event.value, self._at(event)
        if key == "<<" and not event.style:
            self._report("yaml", at, "'<<' does not merge mappings here", "write the keys out")
        if key in holder.lines:
            says = f"{key!r} is written twice, first on line {holder.lines[key]}"
            self._report("duplicate-key", at, says, "keep one")
        holder.lines.setdefault(key, at.line)
        holder.key = key
        self.places.setdefault((*holder.keys, key), at)

    def _keys(self, event: Any, holder: _OpenCollection | None) -> Keys:
        if holder is None:
            return ()
        if holder.key is not None:
            return (*holder.keys, holder.key)
        keys = (*holder.keys, len(holder.values))
        self.places[keys] = self._at(event)
        return keys

    def _scalar(self, event: Any, keys: Keys) -> Any:
        value = event.value if event.style else parse_scalar(event.value)
        if isinstance(value, str):
            self.texts.setdefault(keys, ScalarText(self.file, event.start_mark.index, event.style or "", value))
        return value

    def _resolve_alias(self, event: Any) -> tuple[Any, int, Keys]:
        name = event.anchor
        if any(each.anchor == name for each in self._open):
            self._stop("yaml", event, f"'*{name}' contains itself", "write the value out")
        if name not in self._anchors:
            self._stop("yaml", event, f"'*{name}' refers to nothing before it", f"mark a value with '&{name}' first")
        value, size, keys = self._anchors[name]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            self._stop("yaml", event, f"aliases repeat more than {MAX_ALIASED} values", "use fewer")
        return value, size, keys

    def _close(self, value: Any, size: int, anchor: str | None, keys: Keys) -> None:
        if anchor:
            self._anchors[anchor] = (value, size, keys)
        if not self._open:
            self.top = value
            return
        holder = self._open[-1]
        holder.size += size
        if holder.key is None:
            holder.values.append(value)
        else:
            holder.values.setdefault(holder.key, value)
            holder.key = None

    def _check_tag(self, event: Any) -> None:
        tag = getattr(event, "tag", None)
        if tag:
            short = tag.replace("tag:yaml.org,2002:", "!!")
            says = f"the tag '{short[:60]}' is not allowed"
            self._report("yaml-tag", self._at(event), says, "write the value alone; quotes make it text")

    def _at(self, event: Any) -> Location:
        return self.file.locate(event.start_mark.index)

    def _report(self, rule: str, at: Location, says: str, fix: str) -> None:
        self.findings.append(Finding(rule, at, says, fix))

    def _stop(self, rule: str, event: Any, says: str, fix: str) -> NoReturn:
        self._report(rule, self._at(event), says, fix)
        raise _StopError


_BRACKET = "a bracket is not closed, or a comma is missing"
_UNCLOSED = "found unexpected end of stream"
_WORDS = {
    "mapping values are not allowed": (
        "a ': ' is not allowed here",
        "quote the text that contains it, or indent the key",
    ),
    "did not find expected key": ("the indentation does not fit", "align this key with its neighbours"),
    "did not find expected '-' indicator": ("the indentation does not fit", "start each item of the list with '- '"),
    "could not find expected ':'": ("a key has no ':'", "write 'key: value', or quote the text"),
    "expected ',' or ']'": (_BRACKET, "close the list with ']'"),
    "expected ',' or '}'": (_BRACKET, "close the mapping with '}'"),
    _UNCLOSED: ("a quote is opened and never closed", "close it"),
    "unknown escape character": ("a backslash in double quotes starts an escape", "use single quotes"),
    "special characters are not allowed": ("a control character is in the file", "remove it"),
    "control characters are not allowed": ("a control character is in the file", "remove it"),
}


def explain_error(error: yaml.YAMLError, file: FileText) -> Finding:
    """Convert a parser error to a finding at its line and column."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    # Of a quote that is never closed, the end of the file is not what to look at.
    wanted = "context_mark" if _UNCLOSED in problem else "problem_mark"
    mark = getattr(error, wanted, None)
    at = file.locate(mark.index) if mark else _locate(error, file)
    says, fix = _explain(problem, file.line(at.line), at.column)
    return Finding(rule="yaml", at=at, says=f"not YAML: {says}", fix=fix)


def _explain(problem: str, line: str, column: int) -> tuple[str, str]:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab indents this line", "indent with spaces"
    if "${" in line and "expected ','" in problem:
        return "${...} between brackets needs quotes", 'write "${...}"'
    if "cannot start any token" in problem:
        return f"{line[column - 1 : column]!r} cannot start a value", "put the value in quotes"
    return next((words for part, words in _WORDS.items() if part in problem), (problem, "correct this line"))


def _locate(error: yaml.YAMLError, file: FileText) -> Location:
    """The place of a character that YAML does not allow; libyaml counts bytes, PyYAML's own reader characters."""
    position = getattr(error, "position", 0)
    if getattr(error, "encoding", "") == "unicode":
        return file.locate(position)
    return file.locate(len(file.text.encode()[:position].decode(errors="ignore")))


_ALLOW = re.compile(r"\s*penstock:\s*allow\b\s*(?P<rule>\S*)\s*(?:because\b\s*(?P<reason>.*))?")
_MARK = re.compile(r"penstock:\s*allow\b")
_HASH = re.compile(r"(?:^|(?<=\s))#")
_BLOCKS = ("|", ">")


def may_have_silences(text: str) -> bool:
    """Whether a text is worth a search."""
    return _MARK.search(text) is not None


def find_silences(
    text: str, file: str, places: Mapping[Keys, Location], parse: Callable[[str], Iterable[Any]]
) -> tuple[Silence, ...]:
    """The silences of a valid YAML text, in file order; `parse` gives its events."""
    lines = text.splitlines()
    scalars = [event for event in parse(text) if isinstance(event, yaml.ScalarEvent)]
    found = [*_in_yaml(lines, file, scalars), *_in_sql(lines, file, _of_steps(scalars, places))]
    return tuple(sorted(found, key=lambda silence: silence.at))


def _in_yaml(lines: Sequence[str], file: str, scalars: Sequence[Any]) -> Iterator[Silence]:
    below = _find_lines_below(lines, "#")
    for number, line in enumerate(lines):
        column = _find_comment(line, number, scalars) if _MARK.search(line) else None
        if column is not None:
            yield from _parse(line[column + 1 :], Location(file, number + 1, column + 1), lines, below)


def _find_comment(line: str, number: int, scalars: Sequence[Any]) -> int | None:
    starts = (match.start() for match in _HASH.finditer(line))
    return next((start for start in starts if not _is_text(scalars, number, start)), None)


def _is_text(scalars: Sequence[Any], line: int, column: int) -> bool:
    """Whether a position is inside a scalar; they are in file order and do not overlap."""
    at = bisect_right(scalars, (line, column), key=lambda each: _position(each.start_mark)) - 1
    if at < 0:
        return False
    scalar = scalars[at]
    # A comment may follow the `|` of a block.
    is_header = scalar.style in _BLOCKS and line == scalar.start_mark.line
    return not is_header and (line, column) < _position(scalar.end_mark)


def _of_steps(scalars: Iterable[Any], places: Mapping[Keys, Location]) -> Iterator[Any]:
    """The texts below `steps`, which are SQL if they have a comment of SQL."""
    starts = sorted(((at.line - 1, at.column - 1), keys[0]) for keys, at in places.items() if len(keys) == 1)
    for scalar in scalars:
        if may_have_silences(scalar.value):
            at = bisect_right(starts, _position(scalar.start_mark), key=lambda start: start[0]) - 1
            if at >= 0 and starts[at][1] == "steps":
                yield scalar


def _position(mark: Any) -> tuple[int, int]:
    return mark.line, mark.column


def _in_sql(lines: Sequence[str], file: str, scalars: Iterable[Any]) -> Iterator[Silence]:
    below = _find_lines_below(lines, "--")
    for scalar in scalars:
        first = _first_line(scalar)
        for token in _comments(scalar.value) if first else ():
            number = first + scalar.value.count("\n", 0, token.start)
            at = Location(file, number, lines[number - 1].rfind(token.text.strip()) + 1)
            yield from _parse(token.text[2:], at, lines, below)


def _first_line(scalar: Any) -> int:
    """The line of a text's first line; 0 if its lines are not those of the file."""
    if scalar.style == "|":
        return int(scalar.start_mark.line) + 2
    return int(scalar.start_mark.line) + 1 if scalar.start_mark.line == scalar.end_mark.line else 0


def _comments(text: str) -> list[Token]:
    try:
        return [token for token in tokenize(text) if token.type == "comment" and token.text.startswith("--")]
    except ValueError:
        # A quote or a comment is not closed, which the rule sql-is-understood reports.
        return []


def _find_lines_below(lines: Sequence[str], mark: str) -> list[int]:
    """For each line, the number of the next one that is not only a comment."""
    below = [len(lines) + 1] * (len(lines) + 1)
    for number in range(len(lines) - 1, -1, -1):
        is_comment = number + 1 < len(lines) and lines[number + 1].lstrip().startswith(mark)
        below[number] = below[number + 1] if is_comment else number + 2
    return below


def _parse(comment: str, at: Location, lines: Sequence[str], below: Sequence[int]) -> Iterator[Silence]:
    match = _ALLOW.match(comment)
    if match is not None:
        is_alone = not lines[at.line - 1][: at.column - 1].strip()
        line = below[at.line - 1] if is_alone else at.line
        yield Silence(match["rule"], (match["reason"] or "").strip(), at, line)
