"""Records of a megabyte: our own expressions take them in the stack of a task and in linear time."""

from __future__ import annotations

import pytest

SIZE = 1_000_000
SCHEMA = "id int NOT NULL, name string, x double, m decimal(10,2)"


def text_of(content: str, more: str = "") -> str:
    return '{"id": 1, "name": "}{' + content + '"' + more + "}"


#: Valid, whatever stands inside the strings.
GOOD = {
    "a long string": text_of("a" * SIZE),
    "escaped quotes": text_of('\\"' * (SIZE // 2)),
    "escaped backslashes": text_of("\\\\" * (SIZE // 2)),
    "escaped control characters": text_of("\\u0001" * (SIZE // 6)),
    "braces in a string": text_of("}{" * (SIZE // 2)),
    "dots": text_of("." * SIZE),
    "numbers with dots": text_of("1." * (SIZE // 2)),
    "digits": text_of("1" * SIZE),
    "signs": text_of("-" * SIZE),
    "exponents": text_of("1e1 " * (SIZE // 4)),
    "blanks": text_of("", more=" " * SIZE),
    "many strings": text_of("", more=', "others": [' + ", ".join(['"}{"'] * (SIZE // 6)) + "]"),
    "many numbers": text_of("", more=', "others": [' + ", ".join(["1.5"] * (SIZE // 5)) + "]"),
    "many objects": text_of("", more=', "others": [' + ", ".join(['{"a": {}}'] * (SIZE // 11)) + "]"),
}

BAD = {
    "a second record with a long string": text_of("") + text_of("a" * SIZE),
    "a second record whose string does not end": text_of("") + '{"' + '\\"' * (SIZE // 2) + "}",
    "a second record of many strings": text_of("") + "{" + '"a", ' * (SIZE // 5) + "}",
    "a string that does not end": '{"id": 1, "name": "}{' + '\\"' * (SIZE // 2) + "}",
    "nothing but a backslash at the end": '{"id": 1}{"' + "a" * SIZE + "}\\",
    "arrays without an end": text_of("") + "{" + "[" * SIZE + "}",
    "objects deeper than json goes": '{"id": 1, "name": "}{", "other": '
    + '{"a": ' * (SIZE // 10)
    + "1"
    + "}" * (SIZE // 10),
    "blanks before a second record": text_of("") + "{" + "} " * (SIZE // 2) + "}",
    "a huge exponent after many digits": '{"id": 1, "m": ' + "1" * 900 + "e1000000000}",
}


def pipeline(bad_records: str) -> str:
    return f"""
    name: large
    sources:
      rows:
        files: {{path: input, format: text}}
        json: {SCHEMA}
        bad_records: {bad_records}
    steps:
      step: SELECT id, length(name) AS n FROM rows
    sinks:
      out: {{from: step, memory: {{}}}}
    """


def test_large_records_are_read(project):
    project.put("input/a.txt", "\n".join(GOOD.values()).encode())

    run = project.run(pipeline("fail"))

    assert len(project.rows("out")) == len(GOOD)
    assert sum(run.bad.values()) == 0


def test_large_records_that_are_bad_are_counted_and_the_others_are_read(project):
    project.put("input/a.txt", "\n".join([*GOOD.values(), *BAD.values()]).encode())

    run = project.run(pipeline("drop"))

    assert len(project.rows("out")) == len(GOOD)
    assert run.bad == {"rows": len(BAD)}


@pytest.mark.parametrize("what", ["a second record with a long string", "a string that does not end"])
def test_a_large_record_that_is_bad_ends_the_run_with_its_beginning(project, refusal, what):
    project.put("input/a.txt", BAD[what].encode())

    said = refusal(project.run, pipeline("fail"))

    assert f"is not json of the declared schema: {BAD[what][:200]}; correct it" in said
