"""What `penstock deploy` writes is what systemd, Docker and Kubernetes read."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import penstock as penstock_package
from penstock.cli import penstock

FILE = """
name: my_trades
spark: {spark.driver.memory: 3g}
sources: {ticks: {rate: {}}}
sinks: {screen: {from: ticks, console: {}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trades.yaml"
    path.write_text(FILE)
    return path


def written(kind: str, file: Path, *more: str) -> str:
    ran = CliRunner().invoke(penstock, ["deploy", kind, str(file), *more])
    assert ran.exit_code == 0, ran.output
    return Path(ran.stdout.strip()).read_text()


def test_the_manifests_beside_a_pipeline_do_not_hide_it(file: Path, monkeypatch: pytest.MonkeyPatch):
    written("kubernetes", file)
    monkeypatch.chdir(file.parent)

    checked = CliRunner().invoke(penstock, ["check"])

    assert (checked.exit_code, checked.stdout) == (0, "my_trades: 1 source, 0 steps, 1 sink: no errors found\n")


def test_the_unit_drains_before_it_kills_and_limits_memory(file: Path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(written("systemd", file, "--drain-seconds", "90"))

    service = unit["Service"]
    assert re.fullmatch(
        rf"\S+ -m penstock run {re.escape(str(file))} --drain-seconds 90 --health-port 8085", service["ExecStart"]
    )
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGTERM")
    assert service["TimeoutStopSec"] == "120s"
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "1 2")
    assert service["MemoryMax"] == "4096M"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_image_checks_the_file_and_stops_gracefully(file: Path):
    lines = [line for line in written("docker", file).splitlines() if line and not line.startswith("#")]
    first = {line.split()[0] for line in lines if not line.startswith(" ")}

    assert lines[0].startswith("FROM python:")
    assert {"USER", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "VOLUME"} <= first
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD [")]
    assert command[:3] == ["penstock", "run", "trades.yaml"]
    assert any("penstock check trades.yaml" in line for line in lines)


def test_the_image_installs_the_wheel_beside_the_dockerfile_and_no_name_from_a_registry(file: Path, tmp_path: Path):
    (install,) = [line for line in written("docker", file).splitlines() if "pip install" in line]
    (wheel,) = tmp_path.glob("*.whl")

    assert f"COPY {wheel.name} /tmp/" in (tmp_path / "Dockerfile").read_text()
    assert install == f"RUN pip install --no-cache-dir /tmp/{wheel.name} && rm /tmp/{wheel.name}"


def test_the_wheel_is_this_penstock_and_pip_installs_it(file: Path, tmp_path: Path):
    written("docker", file)
    (wheel,) = tmp_path.glob("*.whl")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        tmp_path / "there",
        wheel,
    ]

    subprocess.run(pip, check=True, capture_output=True)

    there, here = tmp_path / "there" / "penstock", Path(penstock_package.__file__).parent
    names = [path.relative_to(here) for path in here.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {name: (there / name).read_bytes() for name in names} == {name: (here / name).read_bytes() for name in names}
    assert (tmp_path / "there" / "bin" / "penstock").exists()
    (about,) = metadata.distributions(name="penstock", path=[str(tmp_path / "there")])
    assert "pyspark==4.2.0" in (about.requires or [])


def test_the_manifests_have_probes_limits_and_time_to_drain(file: Path):
    claim, stateful = yaml.safe_load_all(written("kubernetes", file))

    assert claim["kind"] == "PersistentVolumeClaim"
    spec = stateful["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (stateful["kind"], stateful["spec"]["replicas"]) == ("StatefulSet", 1)
    assert stateful["metadata"]["name"] == "penstock-my-trades"
    assert spec["terminationGracePeriodSeconds"] == 90
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["resources"]["limits"]["memory"] == "4096Mi"
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_a_file_that_is_there_is_kept_unless_told_otherwise(file: Path):
    written("systemd", file)

    again = CliRunner().invoke(penstock, ["deploy", "systemd", str(file)])

    assert "already exists" in str(again.exception)
    written("systemd", file, "--force")
