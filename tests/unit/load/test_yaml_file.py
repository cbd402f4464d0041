"""YAML: typed as people mean it, placed by line, and safe for any text."""

from __future__ import annotations

from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import LoadError
from penstock.load import yaml_file
from penstock.load.document import to_pipeline
from penstock.load.variables import substitute
from penstock.load.yaml_file import parse_yaml
from penstock.model import Location


def complaint(text: str) -> str:
    with pytest.raises(LoadError) as error:
        parse_yaml(text, "a.yaml")
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-7", -7),
        ("0", 0),
        ("007", "007"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("12:30:45", "12:30:45"),
        ("2024-05-01", "2024-05-01"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        (".", "."),
        ("'12'", "12"),
        ('""', ""),
        ("9" * 500, "9" * 500),
    ],
)
def test_only_what_looks_like_a_number_or_true_or_false_is_one(text, value):
    assert parse_yaml(f"a: {text}", "a.yaml").values == {"a": value}


def test_keys_are_always_text():
    assert parse_yaml("on: 1\n2: x\ntrue: y", "a.yaml").values == {"on": 1, "2": "x", "true": "y"}


def test_every_key_and_item_has_its_place():
    document = parse_yaml("a:\n  b: [x,\n      y]\n", "a.yaml")

    assert document.place(("a", "b")) == Location("a.yaml", 2, 3)
    assert document.place(("a", "b", 1)) == Location("a.yaml", 3, 7)
    assert document.place(("a", "c", "d")) == Location("a.yaml", 1, 1)


def test_a_text_is_placed_by_character():
    document = parse_yaml("a:\n  b: |2   # why\n\n      x\n    y\n  c: 'z'\n", "a.yaml")

    assert document.values == {"a": {"b": "\n  x\ny\n", "c": "z"}}
    assert document.text_at(("a", "b"), "").locate(3) == Location("a.yaml", 4, 7)
    assert document.text_at(("a", "c"), "").locate(0) == Location("a.yaml", 6, 7)


def test_aliases_repeat_a_value():
    document = parse_yaml("a: &x {b: 1}\nc: *x\n", "a.yaml")

    assert document.values == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.place(("c", "b")).line == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a.yaml:1:1: the file is empty; a pipeline has at least 'sources:' and 'sinks:'"),
        ("# only\n", "a.yaml:1:1: the file is empty; a pipeline has at least 'sources:' and 'sinks:'"),
        (
            "- a",
            "a.yaml:1:1: the file is not a mapping of keys to values; a pipeline has at least 'sources:' and 'sinks:'",
        ),
        ("a: 1\nb: 2\na: 3", "a.yaml:3:1: 'a' is written twice, first on line 1; keep one"),
        ("a:\n\tb: 1", "a.yaml:2:1: not YAML: a tab indents this line; indent with spaces"),
        (
            "a: b: c",
            "a.yaml:1:5: not YAML: a ': ' is not allowed here; quote the text that contains it, or indent the key",
        ),
        (
            "a: [1, 2\nb: 3",
            "a.yaml:2:2: not YAML: a bracket is not closed, or a comma is missing; close the list with ']'",
        ),
        ("a: {b: ${X}}", 'a.yaml:1:9: not YAML: ${...} between brackets needs quotes; write "${...}"'),
        ("a: 'x", "a.yaml:1:4: not YAML: a quote is opened and never closed; close it"),
        ("a: @x", "a.yaml:1:4: not YAML: '@' cannot start a value; put the value in quotes"),
        ("a: 1\n---\nb: 2", "a.yaml:2:1: a second document starts here with '---'; write one pipeline per file"),
        ("a: *x", "a.yaml:1:4: '*x' refers to nothing before it; mark a value with '&x' first"),
        ("a: &x [*x]", "a.yaml:1:8: '*x' contains itself; write the value out"),
        ("a: {<<: {b: 1}}", "a.yaml:1:5: '<<' does not merge mappings here; write the keys out"),
        (
            "{{ x }}: 1",
            "a.yaml:1:1: a key is a list, a mapping or an alias; write a word; quote text that starts with '{' or '['",
        ),
        (
            "a: !!python/object/apply:os.system [ls]",
            "a.yaml:1:4: the tag '!!python/object/apply:os.system' is not allowed; "
            "write the value alone; quotes make it text",
        ),
        ("a: !x 1", "a.yaml:1:4: the tag '!x' is not allowed; write the value alone; quotes make it text"),
    ],
)
def test_what_is_no_pipeline_is_said_in_plain_words(text, says):
    assert complaint(text) == says


def test_everything_wrong_is_said_at_once_in_file_order():
    text = "a: !x 1\na: 2\nb: [\n"

    assert [line[:9] for line in complaint(text).splitlines()] == ["a.yaml:1:", "a.yaml:2:", "a.yaml:4:"]


def test_a_billion_laughs_are_not_laughed():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert complaint("\n".join(lines)).endswith("aliases repeat more than 10000 values; use fewer")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_nesting_without_end_is_refused(opening):
    assert "the nesting is deeper than 50 levels" in complaint(opening * 10_000)


def test_a_file_that_is_too_big_is_not_read(complaints):
    assert complaints("a: " + "x" * 1_000_000) == [
        "clicks.yaml:1:1: the file has 1000003 bytes, more than 1000000; keep data out of it"
    ]


def test_a_file_that_is_not_utf8_is_said_to_be_so(folder):
    (folder / "a.yaml").write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(LoadError) as error:
        yaml_file.read_yaml(folder / "a.yaml", "a.yaml")

    assert str(error.value) == "a.yaml:2:4: the text is not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_is_no_part_of_the_first_key(folder):
    (folder / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1")

    assert yaml_file.read_yaml(folder / "a.yaml", "a.yaml").values == {"a": 1}


def test_python_alone_reads_the_same_as_the_c_library(monkeypatch):
    text = "a: &x {b: [1, yes]}\nc: *x\nd: |\n  SELECT 1\n"
    fast = parse_yaml(text, "a.yaml")

    monkeypatch.setattr(yaml_file, "_Loader", yaml.SafeLoader)

    assert parse_yaml(text, "a.yaml") == fast
    assert "nesting is deeper" in complaint("[" * 1000)
    assert complaint("a:\n\tb: 1") == "a.yaml:2:1: not YAML: a tab indents this line; indent with spaces"


ALMOST = st.text(st.sampled_from(list("abn:-{}[]&*!|>'\"#%@`$ \n\t,?~01.\\<é\x00\u2028")), max_size=60)
NODES = st.sampled_from(["sources:\n  a: ", "steps:\n  a: ", "sinks:\n  a: ", "tests: ", "spark: ", "name: ", ""])


@settings(max_examples=400, deadline=None)
@given(st.tuples(NODES, st.one_of(st.text(), ALMOST)).map("".join))
def test_no_text_raises_anything_but_a_load_error(text):
    with suppress(LoadError):
        read = substitute(parse_yaml(text, "a.yaml"), {})
        to_pipeline(read.document, read.findings)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["${A}", "$${", "${"]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kafka", "rate", "sql", "python", "reads", "from", "value", "json", "avro", "options", "mode"]
            )
            | st.text(max_size=4),
            inside,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SECTIONS = st.sampled_from(["sources", "steps", "sinks", "tests", "spark", "storage", "name"])


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(SECTIONS, st.dictionaries(st.sampled_from(["a", "b", "C"]), VALUES, max_size=3) | VALUES))
def test_no_values_raise_anything_but_a_load_error(values):
    read = substitute(yaml_file.Document(values, "a.yaml"), {"A": "1"})
    with suppress(LoadError):
        to_pipeline(read.document, read.findings)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("é: 1\r\nb: \x01\r\n", (2, 4)),
        ("😀: 'é\u2028é'\nb: [\n", (3, 1)),
        ("a: 1\nb: 'é\n\nc: 2\n", (2, 4)),
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml_file._Loader])
def test_an_error_is_placed_as_an_editor_counts(monkeypatch, text, place, loader):
    monkeypatch.setattr(yaml_file, "_Loader", loader)

    with pytest.raises(LoadError) as error:
        parse_yaml(text, "a.yaml")

    assert error.value.findings[0].at == Location("a.yaml", *place)
