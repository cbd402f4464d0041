from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from penstock.cli import penstock

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
        "and 149 more; penstock check --json shows all of them",
        "why: penstock explain names-exist",
    ]


def test_check_imports_no_spark():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli import penstock; "
        f"r = CliRunner().invoke(penstock, ['check', {str(EXAMPLES / 'trades')!r}]); "
        "assert r.exit_code == 0, r.output; assert 'pyspark' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
