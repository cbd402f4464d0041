"""Python code that the file names: checked from its text, and never imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.checks import check
from penstock.checks.python_code import SPARK_CLASSES
from penstock.load import load
from penstock.steps.processor import ProcessorStep

STEP = """\
sources:
  a: {{rate: {{}}}}
  b: {{rate: {{}}}}
steps:
  s: {{python: "{path}", reads: [{reads}]}}
sinks:
  out: {{from: s, console: {{}}}}
  other: {{from: b, console: {{}}}}
"""
SINK = "sources:\n  a: {{rate: {{}}}}\nsinks:\n  out: {{from: a, {kind}: {{python: '{path}'}}}}\n"
LISTENER = "sources:\n  a: {{rate: {{}}}}\nsinks:\n  out: {{from: a, console: {{}}}}\nlisteners: ['{path}']\n"
PROCESSOR = """\
sources:
  a: {{rate: {{}}}}
steps:
  s: {{processor: {{class: "{path}", from: a, key: [value], output: "value bigint"}}}}
sinks:
  out: {{from: s, console: {{}}}}
"""
Find = Callable[..., list[str]]


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """The findings of a pipeline next to these modules and those of the package `shop`, as they are printed."""
    monkeypatch.chdir(tmp_path)

    def found(text: str, package: Mapping[str, str] = MappingProxyType({}), **modules: str) -> list[str]:
        Path("p.yaml").write_text(text)
        files = {f"{name}.py": code for name, code in modules.items()}
        files |= {f"shop/{name}.py": code for name, code in package.items()}
        for name, code in files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(code)
        return [str(finding) for finding in check(load("p.yaml"))]

    return found


def step(path: str = "model:score", reads: str = "a") -> str:
    return STEP.format(path=path, reads=reads)


SCORE = "def score(a):\n    return a\n"


# --- modules


def test_a_module_next_to_the_file_is_found(find: Find):
    assert find(step(), model=SCORE) == []


def test_a_missing_module_is_an_error_with_the_nearest_one(find: Find):
    assert find(step("modle:score"), model=SCORE) == [
        "p.yaml:5:7: step 's': no module 'modle'; did you mean 'model'?",
    ]


def test_a_missing_module_without_a_near_one_says_where_to_put_it(find: Find):
    assert find(step("shop.scores:score")) == [
        "p.yaml:5:7: step 's': no module 'shop.scores'; put shop/scores.py next to the pipeline file, or install it",
    ]


def test_a_module_in_a_package_is_found(find: Find):
    assert find(step("shop.model:score"), {"__init__": "", "model": SCORE}) == []


def test_a_module_in_a_folder_without_init_is_found(find: Find):
    assert find(step("shop.model:score"), {"model": SCORE}) == []


def test_a_package_itself_is_a_module(find: Find):
    assert find(step("shop:score"), {"__init__": SCORE}) == []


def test_a_missing_module_of_a_package_is_an_error_with_the_nearest_one_in_it(find: Find):
    assert find(step("shop.modle:score"), {"__init__": "", "model": SCORE}) == [
        "p.yaml:5:7: step 's': no module 'shop.modle'; did you mean 'shop.model'?",
    ]


def test_a_file_has_no_inner_modules(find: Find):
    assert find(step("model.inner:score"), model=SCORE) == [
        "p.yaml:5:7: step 's': no module 'model.inner'; did you mean 'model'?",
    ]


@pytest.mark.parametrize("path", ["..:f", "a..b:f", ".a:f", "a.:f"])
def test_a_name_with_an_empty_part_is_no_module(find: Find, path: str):
    assert find(step(path)) == [
        f"p.yaml:5:7: step 's': no module {path[:-2]!r}; write 'module:name', with dots between the names of packages",
    ]


@pytest.mark.parametrize("path", ["json:dumps", "yaml:load", "yaml.nodes:Node", "yaml.not_there:f", "__main__:f"])
def test_of_an_installed_package_only_its_existence_is_checked(find: Find, path: str):
    assert find(step(path)) == []


def test_sinks_processors_and_listeners_are_checked_too(find: Find):
    missing = "no module 'nope'; put nope.py next to the pipeline file, or install it"

    assert find(SINK.format(kind="foreach", path="nope:F")) == [f"p.yaml:4:28: sink 'out': {missing}"]
    assert find(SINK.format(kind="foreach_batch", path="nope:f")) == [f"p.yaml:4:34: sink 'out': {missing}"]
    assert find(PROCESSOR.format(path="nope:P")) == [f"p.yaml:4:19: step 's': {missing}"]
    assert find(LISTENER.format(path="nope:L")) == [f"p.yaml:5:13: listeners: {missing}"]


# --- syntax


def test_a_syntax_error_is_at_its_place_in_the_module(find: Find):
    assert find(step(), model="x = 1\ny = (2 +\n") == [
        "model.py:2:5: the module 'model' is not valid Python: '(' was never closed; correct it",
    ]


def test_an_error_that_only_the_compiler_finds_is_one_too(find: Find):
    assert find(step(), model=f"{SCORE}return 5\n") == [
        "model.py:3:1: the module 'model' is not valid Python: 'return' outside function; correct it",
    ]


def test_a_module_of_two_steps_has_one_finding(find: Find):
    text = step().replace("sinks:", '  t: {python: "model:score", reads: [a]}\nsinks:\n  t: {from: t, console: {}}')
    text = text.replace("  t: {from", "  third: {from")

    assert len(find(text, model="def")) == 1


@pytest.mark.parametrize("content", [b"x = '\xff'\n", b"\0", b"\xef\xbb\xbf\xff", b"# coding: nope\n"])
def test_a_file_that_is_not_text_is_an_error(find: Find, content: bytes):
    Path("model.py").write_bytes(content)

    (finding,) = find(step())

    assert re.match(r"model.py:1:\d+: the module 'model' is not valid Python: .*; correct it$", finding)


def test_a_file_in_another_declared_encoding_is_read(find: Find):
    Path("model.py").write_bytes(b"# coding: latin-1\nx = '\xff'\n" + SCORE.encode())

    assert find(step()) == []


def test_a_file_that_is_too_large_or_too_deep_has_no_finding(find: Find):
    assert find(step("large:f"), large="#" * 1_000_001) == []
    assert find(step("deep:f"), deep="x = " + "-" * 100_000 + "1") == []


def test_a_file_that_cannot_be_read_is_an_error(find: Find):
    # Root can read every other file.
    Path("model.py").symlink_to("/proc/self/mem")

    assert find(step()) == ["model.py:1:1: the module 'model' cannot be read: Input/output error; make it readable"]


def test_a_pipe_is_no_module(find: Find):
    os.mkfifo("piped.py")

    assert find(step("piped:score")) == [
        "p.yaml:5:7: step 's': no module 'piped'; put piped.py next to the pipeline file, or install it",
    ]


def test_checking_runs_no_code_and_imports_no_spark(tmp_path: Path):
    (tmp_path / "p.yaml").write_text(step("shop.model:score"))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "shop" / "model.py").write_text(f"raise SystemExit('imported')\n{SCORE}")
    code = (
        "import sys; from penstock.load import load; from penstock.checks import check; "
        "found = check(load('p.yaml')); print(found, 'pyspark' in sys.modules, 'shop' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout == "[] False False\n"


# --- names


def test_a_name_that_the_module_does_not_define_is_an_error_with_the_nearest_one(find: Find):
    assert find(step("model:scor"), model=SCORE) == [
        "p.yaml:5:7: step 's': the module 'model' does not define 'scor'; did you mean 'score'?",
    ]


def test_a_name_in_an_empty_module_says_to_define_it(find: Find):
    assert find(step(), model="") == [
        "p.yaml:5:7: step 's': the module 'model' does not define 'score'; define it there",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "score = lambda a: a",
        "score: object = make()",
        "from other import score",
        "from other import rate as score",
        "import score",
        "import score.inner",
        "if fast:\n    def score(a): ...\nelse:\n    def score(a, b): ...",
        "try:\n    from fast import score\nexcept ImportError:\n    score = None",
        "with x as score: ...",
        "for score in functions: ...",
        "match x:\n    case [score]: ...",
        "one, (score, *two) = make()",
        "print(score := make())",
        "def define():\n    global score\n    score = 1",
        "from other import *",
        "def __getattr__(name): ...",
        "exec(text)",
        "globals()['score'] = 5",
        "setattr(module, 'score', 5)",
        "import sys\nsys.modules[__name__] = make()",
        "@decorate\ndef score(): ...",
        "@decorate\nclass score: ...",
    ],
)
def test_a_name_that_the_module_defines_or_may_define_has_no_finding(find: Find, code: str):
    assert find(step(), model=code) == []


@pytest.mark.parametrize(
    "code", ["def f():\n    score = 1", "class C:\n    def score(self): ...", "score()", "x.score = 1"]
)
def test_a_name_inside_of_something_else_is_not_defined(find: Find, code: str):
    (finding,) = find(step(), model=code)

    assert "does not define 'score'" in finding


def test_a_module_of_a_package_may_be_a_name_of_it(find: Find):
    assert find(step("shop:score"), {"__init__": "", "score": ""}) == []


# --- calls


@pytest.mark.parametrize(
    "parameters", ["a, b", "*all", "a, *more", "a, b=1, c=2", "a, b, /", "a, b, *, c=1", "a, b, **c", "x, y"]
)
def test_a_function_that_takes_its_streams_has_no_finding(find: Find, parameters: str):
    assert find(step(reads="a, b"), model=f"def score({parameters}): ...") == []


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("", "too many positional arguments"),
        ("a", "too many positional arguments"),
        ("a, b, c", "missing a required argument: 'c'"),
        ("a, *, b", "too many positional arguments"),
        ("a, b, *, c", "missing a required argument: 'c'"),
        ("**all", "too many positional arguments"),
    ],
)
def test_a_function_that_cannot_take_its_streams_is_an_error(find: Find, parameters: str, says: str):
    (finding,) = find(step(reads="a, b"), model=f"def score({parameters}): ...")

    # Python 3.12 and later say `keyword-only` of some arguments.
    assert finding.replace("keyword-only ", "") == (
        f"p.yaml:5:7: step 's': model:score is called with (a, b): {says}; write 'def score(a, b)'"
    )


def test_an_async_function_is_an_error(find: Find):
    assert find(step(), model="async def score(a): ...") == [
        "p.yaml:5:7: step 's': model:score is 'async', and nothing awaits it; write 'def score(a)'",
    ]


def test_a_value_is_not_a_function(find: Find):
    assert find(step(), model="score = 0.5") == ["p.yaml:5:7: step 's': model:score is a value; make it a function"]


def test_a_function_of_batches_takes_rows_and_their_number(find: Find):
    text = SINK.format(kind="foreach_batch", path="mine:keep")

    assert find(text, mine="def keep(rows, number): ...") == []
    assert find(text, mine="def keep(rows): ...") == [
        "p.yaml:4:34: sink 'out': mine:keep is called with (rows, batch_number): too many positional arguments; "
        "write 'def keep(rows, batch_number)'",
    ]
    assert find(text, mine="class keep: ...") == [
        "p.yaml:4:34: sink 'out': mine:keep is a class without '__init__', and it is called with (rows, batch_number); "
        "make it a function",
    ]


FOREACH = SINK.format(kind="foreach", path="mine:Lines")


@pytest.mark.parametrize(
    "code",
    [
        "class Lines:\n    def process(self, row): ...",
        "class Lines:\n    process = print",
        "class Lines:\n    @staticmethod\n    def process(row): ...",
        "class Lines:\n    def __getattr__(self, name): ...",
        "class Base:\n    def process(self, row): ...\nclass Lines(Base): ...",
        "from other import Base\nclass Lines(Base): ...",
        "from other import Base\nclass Lines(Base):\n    def __init__(self, path): ...",
        "class Lines(make()): ...",
        "class Lines(metaclass=Meta): ...",
        "class Lines(Lines): ...",
        "def _make(): ...\nLines = _make()",
    ],
)
def test_a_class_that_takes_rows_or_may_take_them_has_no_finding(find: Find, code: str):
    assert find(FOREACH, mine=code) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("class Lines: ...", "has no method 'process'; add 'def process(self, row)'"),
        ("class Base: ...\nclass Lines(Base, object): ...", "has no method 'process'; add 'def process(self, row)'"),
        ("def Lines(): ...", "is a function; make it a class with process(self, row)"),
        (
            "class Lines:\n    def process(self): ...",
            "method 'process' is called with (row): too many positional arguments; write 'def process(self, row)'",
        ),
        (
            "class Lines:\n    async def process(self, row): ...",
            "method 'process' is 'async', and nothing awaits it; write 'def process(self, row)'",
        ),
        (
            "class Lines:\n    def process(self, row): ...\n    def open(self): ...",
            "method 'open' is called with (partition, batch_number): too many positional arguments; "
            "write 'def open(self, partition, batch_number)'",
        ),
        (
            "class Lines:\n    def __init__(self, path): ...\n    def process(self, row): ...",
            "method '__init__' is called with no arguments: missing a required argument: 'path'; "
            "write 'def __init__(self)'",
        ),
        (
            "from other import Base\nclass Lines(Base):\n    def process(self): ...",
            "method 'process' is called with (row): too many positional arguments; write 'def process(self, row)'",
        ),
    ],
)
def test_a_class_that_cannot_take_rows_is_an_error(find: Find, code: str, says: str):
    assert find(FOREACH, mine=code) == [f"p.yaml:4:28: sink 'out': mine:Lines {says}"]


PROCESSES = "    def init(self, handle): ...\n    def handleInputRows(self, key, rows, timerValues): ...\n"


@pytest.mark.parametrize(
    "start",
    [
        "from pyspark.sql.streaming import StatefulProcessor\nclass P(StatefulProcessor):",
        "from pyspark.sql.streaming.stateful_processor import StatefulProcessor as Base\nclass P(Base):",
        "import pyspark.sql.streaming as s\nclass P(s.StatefulProcessor):",
        "from pyspark.sql import streaming\nclass P(streaming.StatefulProcessor):",
        "from other import StatefulProcessor\nclass P(StatefulProcessor):",
    ],
)
def test_a_processor_has_no_finding(find: Find, start: str):
    assert find(PROCESSOR.format(path="mine:P"), mine=f"{start}\n{PROCESSES}") == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            f"class P:\n{PROCESSES}",
            "is not a StatefulProcessor; derive it from pyspark.sql.streaming.StatefulProcessor",
        ),
        (
            "from pyspark.sql.streaming import StatefulProcessor\nclass P(StatefulProcessor):\n"
            "    def init(self, handle): ...",
            "has no method 'handleInputRows'; add 'def handleInputRows(self, key, rows, timerValues)'",
        ),
        (
            f"import pyspark.sql.streaming as s\nclass P(s.StatefulProcessor):\n{PROCESSES}"
            "    def handleExpiredTimer(self, key, timers, info): ...",
            "method 'handleExpiredTimer' is called by name with (key, timerValues, expiredTimerInfo): missing a "
            "required argument: 'timers'; write 'def handleExpiredTimer(self, key, timerValues, expiredTimerInfo)'",
        ),
    ],
)
def test_a_class_that_is_no_processor_is_an_error(find: Find, code: str, says: str):
    assert find(PROCESSOR.format(path="mine:P"), mine=code) == [f"p.yaml:4:19: step 's': mine:P {says}"]


LISTENS = "".join(f"    def onQuery{name}(self, event): ...\n" for name in ("Started", "Progress", "Terminated"))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (f"from pyspark.sql.streaming import StreamingQueryListener as L\nclass Pager(L):\n{LISTENS}", []),
        (f"class Pager:\n{LISTENS}    def onQueryIdle(self, event): ...", []),
        ("def Pager(): ...", []),
        (f"class Pager:\n{LISTENS}", ["has no method 'onQueryIdle'; add 'def onQueryIdle(self, event)'"]),
        (
            "def Pager(url): ...",
            ["is called with no arguments: missing a required argument: 'url'; write 'def Pager()'"],
        ),
    ],
)
def test_a_listener_has_the_methods_of_a_listener(find: Find, code: str, says: list[str]):
    assert find(LISTENER.format(path="mine:Pager"), mine=code) == [
        f"p.yaml:5:13: listeners: mine:Pager {each}" for each in says
    ]


def test_the_methods_that_spark_does_not_define_are_those_that_a_class_needs():
    processor = ProcessorStep.model_validate({"class": "m:P", "from": "a", "key": ["k"], "output": "k int"})
    (code,) = processor.user_code

    assert set(code.methods) - code.inherited == StatefulProcessor.__abstractmethods__
    assert {"onQueryStarted", "onQueryProgress", "onQueryTerminated"} == StreamingQueryListener.__abstractmethods__
    assert set(SPARK_CLASSES) == {StatefulProcessor.__name__, StreamingQueryListener.__name__}
