"""penstock run: how it ends, what it says, and what it says when something is wrong."""

from __future__ import annotations

import re
import signal
import textwrap
from pathlib import Path

import psutil
import pytest
from tests.services.command import penstock, started, until

from penstock.errors import TRY_AGAIN
from penstock.load import load
from penstock.storage.layout import Storage

NUMBERS = """
    name: numbers
    sources: {ticks: {rate: {rows_per_second: 50}}}
    sinks: {screen: {from: ticks, console: {rows: 1}}}
"""


def write(folder: Path, text: str, file: str = "pipeline.yaml") -> Path:
    path = folder / file
    path.write_text(textwrap.dedent(text))
    return path


def test_a_signal_stops_it_cleanly(tmp_path: Path):
    file = write(tmp_path, NUMBERS)
    with started("run", file, folder=tmp_path) as run:
        until(lambda: "batch" in run.said or run.process.poll() is not None, f"a batch\n{run.said}")
        children = psutil.Process(run.process.pid).children(recursive=True)

        run.process.send_signal(signal.SIGINT)

        assert run.process.wait(60) == 0, run.said
        assert re.search(r"screen: [\d,]+ rows in \d+ batch", run.said), run.said
        assert "Traceback" not in run.said
        until(lambda: not any(child.is_running() for child in children), "the JVM to end")


def test_several_sinks_are_several_queries_and_one_that_fails_ends_the_run(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"a": 1}\n{"a": "one"}\n')
    file = write(
        tmp_path,
        """
        name: two
        sources:
          ticks: {rate: {}}
          rows: {files: {path: in, format: json, schema: a int}}
        sinks:
          steady: {from: ticks, memory: {}}
          weak: {from: rows, memory: {}}
        """,
    )

    ran = penstock("run", file, folder=tmp_path)

    assert ran.returncode == 1
    said = ran.stderr.splitlines()[-1]
    assert re.match(rf"{file}:8:3: sink 'weak': source 'rows': .*{tmp_path}/in/1.json.* is not json", said), said
    assert '{"a": "one"}' in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "java" not in ran.stderr


def test_verbose_shows_the_traceback(tmp_path: Path):
    file = write(tmp_path, NUMBERS.replace("from: ticks", "from: none"))

    ran = penstock("run", file, "-v", folder=tmp_path)

    assert ran.returncode == 1
    assert "Traceback" in ran.stderr


BAD = {
    "a missing file": (None, "pipeline.yaml:1:1: no such file"),
    "broken YAML": ("name: x\nsources: {a: [1, 2}\n", "pipeline.yaml:2:19: not YAML"),
    "a SQL error": (
        """
        name: bad
        sources: {ticks: {rate: {}}}
        steps:
          wrong: |
            SELECT value,
                   vlaue
            FROM ticks
        sinks: {screen: {from: wrong, console: {}}}
        """,
        "pipeline.yaml:7:12: step 'wrong': there is no column 'vlaue'; did you mean 'value'?",
    ),
    "a broker that is down": (
        """
        name: bad
        sources: {a: {kafka: {servers: "127.0.0.1:1", topics: [t]}}}
        sinks: {screen: {from: a, console: {}}}
        """,
        "pipeline.yaml:3:11: source 'a': no Kafka broker answers at 127.0.0.1:1 after 1 s: connection refused; "
        "start it (penstock dev up kafka runs one here) or correct 'servers'",
    ),
    "an unwritable checkpoint": (
        """
        name: bad
        storage: file-in-the-way
        sources: {ticks: {rate: {}}}
        sinks: {screen: {from: ticks, console: {}}}
        """,
        "/file-in-the-way/bad: Not a directory; make that folder writable or set 'storage' to another place",
    ),
    "a cluster without shared storage": (
        """
        name: bad
        spark: {master: "spark://127.0.0.1:1"}
        sources: {ticks: {rate: {}}}
        sinks: {screen: {from: ticks, console: {}}}
        """,
        "storage",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_sentence(tmp_path: Path, case: str):
    text, expected = BAD[case]
    (tmp_path / "file-in-the-way").write_text("")
    if text is not None:
        write(tmp_path, text)

    ran = penstock("run", "pipeline.yaml", "--once", "--wait", "1", folder=tmp_path)

    assert ran.returncode == (TRY_AGAIN if case == "a broker that is down" else 1), ran.stderr
    assert expected in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "\tat " not in ran.stderr


def test_a_missing_topic_is_named_with_the_nearest_one_that_is_there(broker: str, topic: str, tmp_path: Path):
    write(
        tmp_path,
        f"""
        name: bad
        sources: {{a: {{kafka: {{servers: "{broker}", topics: [{topic[:-1]}]}}}}}}
        sinks: {{screen: {{from: a, console: {{}}}}}}
        """,
    )

    ran = penstock("run", "pipeline.yaml", folder=tmp_path)

    assert ran.returncode == 1
    says = f"pipeline.yaml:3:11: source 'a': Kafka at {broker} has no topic '{topic[:-1]}'; did you mean '{topic}'?"
    assert says in ran.stderr


def test_a_wrong_option_is_the_calls_fault(tmp_path: Path):
    ran = penstock("run", "--onec", folder=tmp_path)

    assert ran.returncode == 2
    assert "--once" in ran.stderr


def test_a_new_project_passes_check_and_runs_with_no_service(tmp_path: Path):
    made = penstock("init", "demo", folder=tmp_path)
    checked = penstock("check", folder=tmp_path / "demo")
    ran = penstock("run", "--once", folder=tmp_path / "demo")
    again = penstock("init", "demo", folder=tmp_path)

    assert made.returncode == 0, made.stderr
    assert checked.stdout == "demo: 1 source, 2 steps, 1 sink: no errors found\n"
    assert ran.returncode == 0, ran.stderr
    assert "|start|end|sensor|average|readings|" in ran.stdout
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_a_broker_that_has_never_answered_is_tried_once_and_one_that_has_by_policy(tmp_path: Path):
    write(
        tmp_path,
        """
        name: bad
        restart: {limit: 1, backoff: 100 milliseconds}
        sources: {a: {kafka: {servers: "127.0.0.1:1,localhost:1", topics: [t]}}}
        sinks: {screen: {from: a, console: {}}}
        """,
    )

    first = penstock("run", "pipeline.yaml", "--wait", "1", folder=tmp_path)
    # What a run leaves that has come as far as to its checkpoints.
    pipeline = load(tmp_path / "pipeline.yaml")
    Storage.of(pipeline).claim(pipeline)
    later = penstock("run", "pipeline.yaml", "--wait", "1", folder=tmp_path)

    waiting, *told = first.stderr.splitlines()
    assert waiting.startswith("waiting for a Kafka broker at 127.0.0.1:1,localhost:1 (1 s left): ")
    assert told == [
        "pipeline.yaml:4:11: source 'a': no Kafka broker answers at 127.0.0.1:1,localhost:1 after 1 s: "
        "127.0.0.1:1: connection refused and localhost:1: connection refused; "
        "start it (penstock dev up kafka runs one here) or correct 'servers'",
        "this pipeline has never run, so it is not retried; --wait SECONDS waits longer",
    ]
    assert "1 restarts within 10 minutes did not help" in later.stderr
    assert (first.returncode, later.returncode) == (1, TRY_AGAIN)
