"""What a page tells its reader to do, done: files are made, commands are run, and what they print is compared.

A fence with a name, like ```yaml words.yaml, is a file. A fence ```console has lines that begin with `$ `, each
followed by what it prints: `...` in a line stands for anything in that line, a line `...` for any number of lines. A
line `^C` is the reader's Ctrl-C, pressed once everything above it has been printed. ```console fails is for commands
that exit with an error, ```console varies for numbers, times and widths of tables that are others in every run.

`python -m tests.docs.console PAGE...` runs pages and writes what the commands print into them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 180.0
_FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"(?:yaml|python|json|csv|text|sh) (?P<name>[\w./-]+\.\w+)")
_CHANGING = (
    (re.compile(r"\d[\d.,]* rows/s"), "... rows/s"),
    (re.compile(r"\d+\.\d+ s\b"), "... s"),
    (re.compile(r"\bpid \d+ on \S+"), "pid ..."),
    (re.compile(r"\bpid \d+"), "pid ..."),
    (re.compile(r"20(2[5-9]|[3-9]\d)-\d\d-\d\d \d\d:\d\d:\d\d"), "..."),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:..."),
)


@dataclass(frozen=True)
class Command:
    """One command of a page, and what it prints according to the page."""

    line: int
    text: str
    prints: tuple[str, ...]
    marks: frozenset[str] = frozenset()

    @property
    def fails(self) -> bool:
        """Whether the page says that the command exits with an error."""
        return "fails" in self.marks


@dataclass(frozen=True)
class File:
    """A file that the page tells the reader to make."""

    name: str
    text: str


def steps(page: str) -> Iterator[Command | File]:
    """What there is to do, in the order of the page."""
    for found in _FENCE.finditer(page):
        info = found["info"].strip()
        named = _NAMED.fullmatch(info)
        if named:
            yield File(named["name"], found["text"])
        elif info.split(" ")[0] == "console":
            marks = frozenset(info.split(" ")[1:])
            assert marks <= {"fails", "varies"}, f"a console block can be 'fails' and 'varies', not {info!r}"
            yield from _commands(found["text"], page.count("\n", 0, found.start("text")) + 1, marks)


def _commands(text: str, first: int, marks: frozenset[str]) -> Iterator[Command]:
    current: tuple[int, list[str], list[str]] | None = None
    for number, line in enumerate(text.splitlines(), first):
        if line.startswith("$ "):
            if current:
                yield _command(current, marks)
            current = (number, [line[2:]], [])
        elif current and not current[2] and line.startswith("> "):
            current[1].append(line[2:])
        elif current:
            current[2].append(line)
    if current:
        yield _command(current, marks)


def _command(current: tuple[int, list[str], list[str]], marks: frozenset[str]) -> Command:
    line, said, prints = current
    while prints and not prints[-1].strip():
        prints.pop()
    return Command(line, "\n".join(said), tuple(prints), marks)


def fits(expected: tuple[str, ...], printed: str, *, whole: bool = True, varies: bool = False) -> bool:
    """Whether what was printed is what the page says; with `whole=False`, whether it begins so."""
    pattern = _loose if varies else _pattern
    lines = [_any_lines if line.strip() == "..." else pattern(line) for line in expected]
    text = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    text = re.sub(r"\n+\Z", "\n", text) if whole else text
    match = re.compile("".join(lines)).fullmatch if whole else re.compile("".join(lines)).match
    return match(text) is not None


_any_lines = r"(?:[^\n]*\n)*?"


def _pattern(line: str) -> str:
    return r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("...")) + r" *\n"


_varying = re.compile(r"\.\.\.|\d[\d.,:]*(?:-\d\d-\d\d)?|-{2,}|  +")


def _loose(line: str) -> str:
    """Any number for a number, and any width for a gap or a rule of a table."""
    kept = [re.escape(part).replace(r"\ ", " *") for part in _varying.split(line.rstrip())]
    found = [_VARIES[mark[0]] for mark in _varying.findall(line.rstrip())]
    return "".join(part + gap for part, gap in zip(kept, [*found, ""], strict=True)) + r" *\n"


_VARIES = {".": r"[^\n]*?", "-": "-*", " ": " *", **dict.fromkeys("0123456789", r"\d[\d.,:]*(?:-\d\d-\d\d)?")}


@dataclass
class Shell:
    """A reader's terminal: the folder and the variables stay from one command to the next."""

    folder: Path
    dev: Path
    _groups: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._state = self.folder.parent / f"{self.folder.name}-state"
        self._state.write_text(f"cd {shlex.quote(str(self.folder))}\n")
        tools = self.folder.parent / f"{self.folder.name}-bin"
        tools.mkdir(exist_ok=True)
        for name, module in (("penstock", "-m penstock "), ("python", "")):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
            tool.chmod(0o755)
        self._env = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "PYTHONUNBUFFERED": "1",
            "PENSTOCK_DEV": str(self.dev),
            "COLUMNS": "100",
        }

    def here(self) -> Path:
        """The folder that the terminal is in."""
        return Path(shlex.split(self._state.read_text().splitlines()[-1])[1])

    def run(self, text: str, until: Callable[[str], bool] | None = None) -> tuple[int, str]:
        """The exit code and what was printed; with `until`, Ctrl-C once that is true of it."""
        state = shlex.quote(str(self._state))
        script = (
            f"trap : INT; . {state}\n{text}\nstatus=$?; {{ export -p; echo cd \"'$PWD'\"; }} >{state}; exit $status"
        )
        output = self.folder.parent / f"{self.folder.name}-output"
        with output.open("wb") as printed:
            process = subprocess.Popen(
                ["bash", "-c", script],
                stdout=printed,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
                # Ctrl-C works at a terminal, also where these tests run in the background of a shell, which ignores it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self._groups.append(process.pid)
        ends = time.monotonic() + SECONDS
        if until is not None:
            while process.poll() is None and not until(output.read_text()):
                if time.monotonic() > ends:
                    raise AssertionError(f"{text}: not printed in {SECONDS:.0f} s; so far:\n{output.read_text()}")
                time.sleep(0.2)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        process.wait(max(ends - time.monotonic(), 30))
        return process.returncode, output.read_text()

    def end(self) -> None:
        """End what commands have left in the background."""
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue


def done(command: Command, shell: Shell) -> tuple[int, str]:
    """Run a command as the page says it, Ctrl-C included."""
    if "^C" not in command.prints:
        return shell.run(command.text)
    before = command.prints[: command.prints.index("^C")]
    varies = "varies" in command.marks
    return shell.run(command.text, until=lambda printed: fits(before, printed, whole=False, varies=varies))


def as_told(command: Command, printed: str) -> bool:
    """Whether a command printed what the page says; a terminal shows `^C`, a pipe does not."""
    told = tuple(line for line in command.prints if line != "^C")
    return fits(told, printed, varies="varies" in command.marks)


def make(file: File, shell: Shell) -> None:
    """Write a file of the page where the reader is."""
    path = shell.here() / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text)


def _recorded(page: Path, shell: Shell) -> None:
    text = page.read_text()
    for step in steps(text):
        if isinstance(step, File):
            make(step, shell)
            continue
        try:
            code, printed = done(step, shell)
        except AssertionError as error:
            print(error, flush=True)
            continue
        if not as_told(step, printed) or bool(code) != step.fails or "^C" in step.prints:
            print(f"{page}:{step.line}: $ {step.text} (exit {code})\n{printed}", flush=True)
            if "^C" not in step.prints:
                text = _with(text, step, printed)
                page.write_text(text)


def _with(text: str, command: Command, printed: str) -> str:
    for changing, dots in () if "varies" in command.marks else _CHANGING:
        printed = changing.sub(dots, printed)
    said = "$ " + command.text.replace("\n", "\n> ")
    old = "\n".join([said, *command.prints])
    new = "\n".join([said, *(line.rstrip() for line in printed.rstrip("\n").splitlines())])
    # The same command may stand on the page twice: only where nothing else follows that it printed.
    return re.sub(re.escape(old) + r"\n+(?=\$ |```)", lambda _: new + "\n", text, count=1)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(sys.argv[1:]):
            folder = Path(place, str(number))
            folder.mkdir()
            shell = Shell(folder, Path(place, "dev"))
            try:
                _recorded(Path(name), shell)
            finally:
                shell.end()
        folder = Path(place, "last")
        folder.mkdir()
        print(Shell(folder, Path(place, "dev")).run("penstock dev down")[1])
