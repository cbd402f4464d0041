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
    assert [line.split(":")[1] for line in lines] == ["2", "4", "5"]
    says = "source 'ticks' does not know 'rows_per_secnd'; did you mean 'rows_per_second'?"
    assert f"{file}:2: {says} [unknown-key]" in lines
    assert why == "why: penstock explain unknown-key"


def test_findings_as_json(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: tiks, memory: {}}}\n")

    result = CliRunner().invoke(penstock, ["check", str(file), "--json"])

    found = json.loads(result.output)
    assert ("error", 2) in [(each["severity"], each["line"]) for each in found]


def test_check_imports_no_spark():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli import penstock; "
        f"r = CliRunner().invoke(penstock, ['check', {str(EXAMPLES / 'trades')!r}]); "
        "assert r.exit_code == 0, r.output; assert 'pyspark' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
