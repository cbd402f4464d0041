from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.errors import CallError

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_everything_wrong_is_said_at_once_with_its_line(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "sources:\n  ticks: {rate: {rows_per_secnd: 5}}\n"
        "sinks:\n  out: {from: ticks, consle: {}}\n  two: {form: ticks, memory: {}}\n"
    )

    result = CliRunner().invoke(penstock, ["check", str(file)])

    assert result.exit_code == 1
    *lines, why = result.output.splitlines()
    assert [line.split(":")[1:3] for line in lines] == [["2", "18"], ["4", "22"], ["5", "9"]]
    says = "source 'ticks': unknown key 'rows_per_secnd'; did you mean 'rows_per_second'?"
    assert f"{file}:2:18: {says} [unknown-key]" in lines
    assert why == "why: penstock explain unknown-key"


def test_findings_as_json(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: tiks, memory: {}}}\n")

    result = CliRunner().invoke(penstock, ["check", str(file), "--json"])

    found = json.loads(result.output)
    assert ("error", 2, 15) in [(each["severity"], each["line"], each["column"]) for each in found]


GOOD = "name: {name}\nsources: {{ticks: {{rate: {{}}}}}}\nsinks: {{out: {{from: ticks, memory: {{}}}}}}\n"


def test_folders_are_checked_with_their_sub_folders_and_files_beside_them(tmp_path: Path):
    for name in ("one", "deep/er/two", ".hidden/three"):
        file = tmp_path / "all" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(GOOD.format(name=file.stem))
    (tmp_path / "all" / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "four.yaml").write_text(GOOD.format(name="four"))

    result = CliRunner().invoke(penstock, ["check", str(tmp_path / "all"), str(tmp_path / "four.yaml")])

    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["two", "one", "four"]


def test_one_wrong_file_does_not_hide_the_others(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("sources: {}\n")
    (tmp_path / "b.yaml").write_text(GOOD.format(name="b"))

    result = CliRunner().invoke(penstock, ["check", str(tmp_path), str(tmp_path / "missing.yaml")])

    assert result.exit_code == 1
    assert result.stdout == "b: 1 source, 0 steps, 1 sink: no errors found\n"
    assert {line.split(":")[0] for line in result.stderr.splitlines()[:-1]} == {
        str(tmp_path / "a.yaml"),
        str(tmp_path / "missing.yaml"),
    }


def test_standard_input_is_checked(tmp_path: Path):
    good = CliRunner().invoke(penstock, ["check", "-"], input=GOOD.format(name="piped"))
    bad = CliRunner().invoke(
        penstock, ["check", "-"], input="sources: {a: {rat: {}}}\nsinks: {b: {from: a, memory: {}}}\n"
    )

    assert (good.exit_code, good.stdout) == (0, "piped: 1 source, 0 steps, 1 sink: no errors found\n")
    assert bad.exit_code == 1
    assert "stdin:1:15: source 'a': unknown key 'rat'; did you mean 'rate'? [unknown-key]" in bad.stderr


def test_a_hundred_findings_are_printed_and_the_rest_counted(tmp_path: Path):
    sinks = "".join(f"  s{number}: {{from: nothing, memory: {{}}}}\n" for number in range(1, 250))
    file = tmp_path / "many.yaml"
    file.write_text(f"sources: {{ticks: {{rate: {{}}}}}}\nsinks:\n  s0: {{from: ticks, memory: {{}}}}\n{sinks}")

    printed = CliRunner().invoke(penstock, ["check", str(file)])
    listed = CliRunner().invoke(penstock, ["check", str(file), "--json"])

    assert len(json.loads(listed.stdout)) == 249
    assert len(printed.stderr.splitlines()) == 102
    assert printed.stderr.splitlines()[-2:] == [
        "and 149 more; penstock check --max 0 shows all of them",
        "why: penstock explain names-exist",
    ]


def test_as_many_findings_are_printed_as_asked_for(tmp_path: Path):
    sinks = "".join(f"  s{number}: {{from: nothing, memory: {{}}}}\n" for number in range(1, 121))
    file = tmp_path / "many.yaml"
    file.write_text(f"sources: {{ticks: {{rate: {{}}}}}}\nsinks:\n  s0: {{from: ticks, memory: {{}}}}\n{sinks}")

    two = CliRunner().invoke(penstock, ["check", str(file), "--max", "2"])
    every = CliRunner().invoke(penstock, ["check", str(file), "--max", "0"])

    assert two.stderr.splitlines()[2:] == [
        "and 118 more; penstock check --max 0 shows all of them",
        "why: penstock explain names-exist",
    ]
    assert len(every.stderr.splitlines()) == 121


def test_three_dots_are_the_folder_and_its_sub_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("one", "deep/two"):
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(GOOD.format(name=file.stem))
    monkeypatch.chdir(tmp_path)

    below = CliRunner().invoke(penstock, ["check", "deep/..."])
    here = CliRunner().invoke(penstock, ["check", "./..."])
    missing = CliRunner().invoke(penstock, ["check", "dep/..."])

    assert [line.split(":")[0] for line in below.stdout.splitlines()] == ["two"]
    assert [line.split(":")[0] for line in here.stdout.splitlines()] == ["two", "one"]
    assert missing.exit_code == 1
    assert "no such file; did you mean 'deep'? [file]" in missing.stderr


def test_a_file_that_is_named_twice_is_checked_once(tmp_path: Path):
    file = tmp_path / "one.yaml"
    file.write_text(GOOD.format(name="one"))

    result = CliRunner().invoke(penstock, ["check", str(tmp_path), str(file), f"{tmp_path}/./one.yaml"])

    assert result.stdout == "one: 1 source, 0 steps, 1 sink: no errors found\n"


def test_standard_input_is_checked_beside_files(tmp_path: Path):
    file = tmp_path / "one.yaml"
    file.write_text(GOOD.format(name="one"))

    result = CliRunner().invoke(penstock, ["check", str(file), "-"], input=GOOD.format(name="piped"))

    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["one", "piped"]


SOCKET = "sources:\n  lines: {{socket: {{port: 9999}}}}{}\nsinks:\n  out: {{from: lines, memory: {{}}}}\n"


def test_a_warning_fails_a_strict_check_only(tmp_path: Path):
    file = tmp_path / "socket.yaml"
    file.write_text(SOCKET.format(""))

    usual = CliRunner().invoke(penstock, ["check", str(file)])
    strict = CliRunner().invoke(penstock, ["check", str(file), "--strict"])
    as_json = CliRunner().invoke(penstock, ["check", str(file), "--strict", "--json"])

    assert (usual.exit_code, usual.stdout) == (0, "socket: 1 source, 0 steps, 1 sink: no errors found\n")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert strict.stderr.splitlines()[-1] == "why: penstock explain sources-can-be-read-again"
    assert as_json.exit_code == 1
    assert [each["severity"] for each in json.loads(as_json.stdout)] == ["warning"]


def test_silenced_findings_are_counted_and_do_not_fail_a_strict_check(tmp_path: Path):
    file = tmp_path / "socket.yaml"
    file.write_text(SOCKET.format(" # penstock: allow sources-can-be-read-again because it is a demo"))

    result = CliRunner().invoke(penstock, ["check", str(file), "--strict"])

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "socket: 1 source, 0 steps, 1 sink: no errors found, 1 finding silenced\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--json", "--max", "5"], "--max limits text only, and --format json prints every finding"),
        (["--format", "sarif", "--max", "0"], "--max limits text only, and --format sarif prints every finding"),
        (["--json", "--format", "github"], "--json and --format github are two formats"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: list[str], says: str):
    result = CliRunner().invoke(penstock, ["check", *options])

    assert isinstance(result.exception, CallError)
    assert str(result.exception).startswith(says)


def test_others_are_skipped_and_files_of_tests_lead_to_their_pipeline(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "one.yaml").write_text(GOOD.format(name="one"))
    tests = tmp_path / "one_test.yaml"
    tests.write_text("tests:\n  - {name: a, given: {ticks: [[]]}, expect: {outt: []}}\n")
    others = [str(tmp_path / "compose.yaml"), str(tests), str(tmp_path / "missing.yaml")]

    result = CliRunner().invoke(penstock, ["check", "--skip-others", *others])

    assert result.exit_code == 1
    assert {line.split("[")[-1] for line in result.stderr.splitlines()[:-1]} == {"test-expect]", "file]"}


def test_check_imports_no_spark():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli import penstock; "
        f"r = CliRunner().invoke(penstock, ['check', {str(EXAMPLES / 'trades')!r}]); "
        "assert r.exit_code == 0, r.output; assert 'pyspark' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
