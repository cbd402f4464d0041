"""What a run opens to the network, and where it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

TEXT = """\
{spark}
sources:
  a: {{rate: {{}}}}
sinks:
  b: {{from: a, {target}}}
"""


def text(spark="", target="console: {}"):
    return TEXT.format(spark=spark, target=target)


@pytest.mark.parametrize(
    "spark",
    [
        "",
        "spark: {spark.driver.bindAddress: 127.0.0.1}",
        "spark: {spark.driver.bindAddress: 127.1.2.3}",
        "spark: {spark.driver.bindAddress: '::1'}",
        "spark: {spark.driver.bindAddress: localhost}",
        "spark: {spark.ui.enabled: false}",
        "spark: {spark.driver.bindAddress: 0.0.0.0, master: yarn}\nstorage: /shared",
    ],
)
def test_loopback_and_a_cluster_that_needs_other_addresses_are_no_finding(findings, spark: str):
    assert findings(text(spark)) == []


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "192.168.1.7", "::", "myhost"],
)
def test_a_driver_that_listens_elsewhere_is_warned_of(findings, address: str):
    assert findings(text(f"spark: {{spark.driver.bindAddress: '{address}'}}")) == [
        f"a.yaml:1:9: warning: spark.driver.bindAddress is '{address}', so the ports of the driver can be reached from "
        "other machines; remove it: a local master needs 127.0.0.1 only"
    ]


def test_an_enabled_spark_ui_is_warned_of(findings):
    assert findings(text("spark: {spark.ui.enabled: 'true'}")) == [
        "a.yaml:1:9: warning: spark.ui.enabled is 'true', and Spark's UI shows plans and settings "
        "without a login; remove it; 'penstock page' shows the pipeline behind a token"
    ]


@pytest.mark.parametrize("path", ["{root}/lake/out", "{root}/lake", "file://{root}/lake/out", "s3a://lake/clean/out"])
def test_an_output_inside_of_the_configured_folders_is_no_finding(
    findings, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PENSTOCK_OUTPUT_FOLDERS", f"{tmp_path}/lake, s3a://lake/clean/")

    assert findings(text(target=f"files: {{path: '{path.format(root=tmp_path)}'}}")) == []


@pytest.mark.parametrize(
    "path",
    [
        "{root}/lake2/out",
        "{root}/lake/../out",
        "{root}/lake/link/out",
        "file:///etc/cron.d",
        "out",
        "s3a://lake/clean-not",
        "s3a://lake/clean/../other",
    ],
)
def test_an_output_outside_of_the_configured_folders_is_warned_of(
    findings, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/link").symlink_to(tmp_path)
    path = path.format(root=tmp_path)
    assert findings(text(target=f"files: {{path: '{path}'}}")) == []

    monkeypatch.setenv("PENSTOCK_OUTPUT_FOLDERS", f"{tmp_path}/lake,s3a://lake/clean")

    assert findings(text(target=f"files: {{path: '{path}'}}")) == [
        f"a.yaml:5:24: warning: sink 'b' writes to '{path}', which is outside the folders in PENSTOCK_OUTPUT_FOLDERS; "
        f"write to one of {tmp_path}/lake, s3a://lake/clean, or add the folder to the variable"
    ]
