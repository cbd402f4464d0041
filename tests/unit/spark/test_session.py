from __future__ import annotations

from pathlib import Path

import pytest

from penstock.load import load
from penstock.spark.session import cores, is_local, settings
from penstock.storage.layout import Storage


def test_one_machine_stays_on_loopback_without_a_web_page():
    made = settings("local[3]", {}, [], [])

    assert made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"
    assert made["spark.sql.shuffle.partitions"] == "3"
    assert made["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")


def test_the_file_overrides_every_setting_but_adds_to_the_java_options():
    asked = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dmine=1", "master": "local[9]"}

    made = settings("local[2]", asked, [], ["-Dours=1"])

    assert made["spark.ui.enabled"] == "true"
    assert made["spark.driver.extraJavaOptions"].startswith("-Dours=1 -Dmine=1 ")
    assert made["spark.master"] == "local[2]"


def test_kafkas_client_calls_no_url_and_loads_no_class_whatever_the_file_says():
    wanted = "-Dorg.apache.kafka.automatic.config.providers=env"

    made = settings("local[2]", {"spark.driver.extraJavaOptions": wanted}, [], [])

    for process in ("driver", "executor"):
        options = made[f"spark.{process}.extraJavaOptions"].split()
        assert options[-3] == "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
        assert options[-2].endswith("JndiLoginModule,com.sun.security.auth.module.LdapLoginModule")
        assert options[-1] == "-Dorg.apache.kafka.automatic.config.providers=none"


def test_the_file_adds_to_what_spark_hides():
    made = settings("local[2]", {"spark.redaction.regex": "mine"}, [], [])

    assert made["spark.redaction.regex"].startswith("(?i)secret|password|")
    assert made["spark.redaction.regex"].endswith("|mine")


def test_a_cluster_gets_the_jars_and_keeps_its_own_addresses():
    made = settings("spark://far:7077", {}, [Path("/a.jar"), Path("/b.jar")], [])

    assert made["spark.jars"] == "/a.jar,/b.jar"
    assert "spark.driver.bindAddress" not in made


@pytest.mark.parametrize(("master", "count"), [("local", 1), ("local[4]", 4), ("local[2,3]", 2)])
def test_cores_of_a_local_master(master: str, count: int):
    assert cores(master) == count
    assert is_local(master)
    assert not is_local("local-cluster[2,1,1024]")


def pipeline_with(tmp_path: Path, storage: str):
    text = f"name: p\n{storage}sources: {{ticks: {{rate: {{}}}}}}\nsinks: {{out: {{from: ticks, memory: {{}}}}}}\n"
    (tmp_path / "p.yaml").write_text(text)
    return load(tmp_path / "p.yaml")


def test_storage_is_beside_the_file_wherever_the_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pipeline = pipeline_with(tmp_path, "")
    monkeypatch.chdir("/")

    assert Storage.of(pipeline).checkpoint("out") == f"{tmp_path}/.penstock/p/checkpoints/out"


def test_storage_may_be_a_url(tmp_path: Path):
    pipeline = pipeline_with(tmp_path, "storage: s3://bucket/penstock/\n")

    assert Storage.of(pipeline).checkpoint("out") == "s3://bucket/penstock/p/checkpoints/out"


def test_sparks_own_metrics_are_off_unless_the_file_turns_them_on():
    off = settings("local[2]", {}, [], [])
    on = settings("local[2]", {"spark.sql.streaming.metricsEnabled": "true"}, [], [])

    assert (off["spark.sql.streaming.metricsEnabled"], on["spark.sql.streaming.metricsEnabled"]) == ("false", "true")
