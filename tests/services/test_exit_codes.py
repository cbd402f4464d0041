"""A failed write is tried again only if that can help, and the exit code says which it was."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.services.command import penstock
from tests.services.postgres import PASSWORD

FUNCTIONS = """
class OddError(Exception): pass


def calls(raises):
    def step(rows):
        def each(parts):
            for part in parts:
                raise raises
                yield part
        return rows.mapInPandas(each, rows.schema)
    return step


value = calls(ValueError("never"))
lost = calls(ConnectionRefusedError("not now"))


def collect(rows, number): rows.collect()
def odd(rows, number): raise OddError("never")
def slow(rows, number): raise TimeoutError("not now")
def chained(rows, number):
    try:
        raise ConnectionResetError("not now")
    except OSError as error:
        raise OddError("not now") from error


def insert(rows, number):
    rows.write.format("jdbc").mode("append").options(**{options!r}).save()


class Rows:
    def process(self, row): 1 / 0


class Lost:
    def process(self, row): raise ConnectionResetError("not now")
"""
#: The step, the sink, and whether to try again.
FAILURES = {
    "a step raises": ("value", "foreach_batch: {python: 'NAME:collect'}", False),
    "a step raises, and Spark writes": ("value", "console: {}", False),
    "a step has lost its connection": ("lost", "foreach_batch: {python: 'NAME:collect'}", True),
    "a function raises": ("", "foreach_batch: {python: 'NAME:odd'}", False),
    "a function has no answer": ("", "foreach_batch: {python: 'NAME:slow'}", True),
    "a function raises for a lost connection": ("", "foreach_batch: {python: 'NAME:chained'}", True),
    "a function violates a constraint": ("", "foreach_batch: {python: 'NAME:insert'}", False),
    "a class raises": ("", "foreach: {python: 'NAME:Rows'}", False),
    "a class has lost its connection": ("", "foreach: {python: 'NAME:Lost'}", True),
    "a constraint is violated": ("", "jdbc: {url: URL, user: tests, password: PASSWORD, table: TABLE}", False),
    "a value is too long": ("", "jdbc: {url: URL, user: tests, password: PASSWORD, table: TABLE_short}", False),
    "a record is too large": ("", "kafka: {servers: SERVERS, topic: TOPIC}", False),
    "a record is too large for one of two": (
        "",
        "to: [{kafka: {servers: SERVERS, topic: TOPIC}}, {console: {}}]",
        False,
    ),
    "a record is too large for a transaction": (
        "",
        "kafka: {servers: SERVERS, topic: TOPIC, delivery: exactly-once}",
        False,
    ),
}


@pytest.fixture
def table(postgres) -> str:
    name = f"t_{uuid.uuid4().hex[:12]}"
    postgres.ask(f"CREATE TABLE {name} (id int PRIMARY KEY, s text)")
    postgres.ask(f"CREATE TABLE {name}_short (id int, s varchar(3))")
    return name


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_is_retryable_only_if_trying_again_can_help(project, postgres, table, kafka, topic, what):
    step, sink, retry = FAILURES[what]
    name = f"functions_{uuid.uuid4().hex[:8]}"
    options = {"url": postgres.url, "user": "tests", "password": PASSWORD, "dbtable": table}
    project.put(f"{name}.py", FUNCTIONS.replace("{options!r}", repr(options)))
    size = 3_000_000 if "large" in what else 5
    project.put("input/a.json", f'{{"id": 1, "s": "{"x" * size}"}}\n{{"id": 1, "s": "y"}}\n')
    words = {"NAME": name, "URL": postgres.url, "PASSWORD": PASSWORD, "TABLE": table, "TOPIC": topic}
    for word, text in {**words, "SERVERS": f'"{kafka.address}"'}.items():
        sink = sink.replace(word, text)
    steps = f"steps: {{made: {{python: '{name}:{step}', reads: [rows]}}}}" if step else "state_limit: 1 GB"
    pipeline = project.load(f"""
        name: fails
        sources:
          rows: {{files: {{path: input, format: json, schema: "id int, s string"}}}}
        {steps}
        sinks:
          out: {{from: {"made" if step else "rows"}, {sink}}}
        """)

    with project.started(pipeline) as (queries, _):
        while not queries.failures():
            queries.wake.wait(0.1)
        ((_, failure),) = queries.failures()

    assert failure.retry == retry, failure


RUN = """
name: fails
restart: {limit: 1, backoff: 100 milliseconds}
sources: {ticks: {rate: {rows_per_second: 10}}}
sinks: {out: {from: ticks, foreach_batch: {python: "functions:fail"}}}
"""
FAIL = """
from pathlib import Path

def fail(rows, number):
    with Path({calls!r}).open("a") as file:
        file.write("called\\n")
    raise {raises}
"""


@pytest.mark.parametrize(
    ("raises", "calls", "code"),
    [("ValueError('never')", 1, 1), ("ConnectionResetError('not now')", 4, 75)],
    ids=["fix something", "try again"],
)
def test_what_cannot_work_is_tried_once_and_has_another_exit_code(tmp_path: Path, raises: str, calls: int, code: int):
    (tmp_path / "p.yaml").write_text(RUN)
    (tmp_path / "functions.py").write_text(FAIL.format(calls=str(tmp_path / "calls"), raises=raises))

    ran = penstock("run", "p.yaml", folder=tmp_path)

    assert ran.returncode == code, ran.stderr
    assert (tmp_path / "calls").read_text().count("called") == calls, "twice in each driver: a query is restarted once"
    assert raises.partition("(")[0] in ran.stderr.splitlines()[-1 if code == 1 else -2]
