"""A real Cassandra on this machine: one node, loopback only."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from penstock import cql
from penstock.errors import ServiceError
from penstock.java import java, java_version
from penstock.services.process import Progress
from penstock.services.service import HOST, Service, free_port, listens

_JAVA = (11, 17)

_EXPORTED = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.unsupported/sun.misc",
)
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
_FLAGS = (
    "-Xms256m",
    "-Xmx768m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dcassandra.config=file:cassandra.yaml",
    "-Dlogback.configurationFile=logback.xml",
    "-Dcassandra.storagedir=data",
    # One node need not wait for others: 30 seconds less until it answers.
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # Its library is not among our jars.
    "-Dcassandra.native.epoll.enabled=false",
    "-Djdk.attach.allowAttachSelf=true",
    *(f"--add-exports={each}=ALL-UNNAMED" for each in _EXPORTED),
    *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED),
)

_LOGBACK = """\
<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %msg%n%ex{short}</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True)
class Cassandra(Service):
    """A node with its data in `folder`; without `port` it takes 9042, or a free one that it keeps from then on."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """More of cassandra.yaml, or other values for what we write there."""

    name: ClassVar[str] = "cassandra"
    jars: ClassVar[str] = "cassandra-server"
    usual_port: ClassVar[int] = cql.USUAL_PORT
    most_seconds: ClassVar[float] = 120.0

    def _command(self, port: int, progress: Progress) -> list[str]:  # noqa: ARG002
        cql.require_driver()
        version = java_version(java())
        if version not in _JAVA:
            says = f"Cassandra 5 runs on Java 11 or 17, and {java()} is {version}"
            raise ServiceError(f"{says}; install openjdk-17-jre-headless and set JAVA_HOME to it")
        self._write_settings(port)
        return self._java("org.apache.cassandra.service.CassandraDaemon", flags=_FLAGS)

    def _answers(self, address: str) -> bool:
        return listens(address) and answers(address, self._cluster())

    def _cluster(self) -> str:
        """The name that this cluster was made with; Cassandra refuses data of another one."""
        file = self.folder / "cluster"
        if not file.exists():
            file.write_text(f"penstock-{uuid.uuid4().hex[:12]}\n", encoding="utf-8")
        return file.read_text(encoding="utf-8").strip()

    def _write_settings(self, port: int) -> None:
        # Other nodes there are none: a free port each time for what they would talk over.
        storage_port = free_port()
        seeds = [{"seeds": f"{HOST}:{storage_port}"}]
        settings = {
            "cluster_name": self._cluster(),
            "num_tokens": 1,
            "auto_bootstrap": False,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "endpoint_snitch": "SimpleSnitch",
            "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}],
            "listen_address": HOST,
            "rpc_address": HOST,
            "native_transport_port": port,
            "storage_port": storage_port,
            # What is acknowledged is on the disk: this is the only copy, and a killed node must not lose it.
            "commitlog_sync": "group",
            "commitlog_sync_group_window": "5ms",
            "concurrent_writes": 128,
            "commitlog_total_space": "256MiB",
            "data_file_directories": ["data/data"],
            "commitlog_directory": "data/commitlog",
            "saved_caches_directory": "data/saved_caches",
            "hints_directory": "data/hints",
            "cdc_raw_directory": "data/cdc_raw",
            "file_cache_size": "64MiB",
            # A slow machine is not a broken node.
            "read_request_timeout": "20s",
            "range_request_timeout": "60s",
            "write_request_timeout": "20s",
            "request_timeout": "60s",
            **self.settings,
        }
        # JSON is YAML.
        (self.folder / "cassandra.yaml").write_text(json.dumps(settings, indent=2), encoding="utf-8")
        (self.folder / "logback.xml").write_text(_LOGBACK, encoding="utf-8")


def answers(address: str, cluster: str) -> bool:
    """Whether the node there takes requests and belongs to this very cluster; one that asks for a password does."""
    from cassandra import AuthenticationFailed, DriverException
    from cassandra.cluster import NoHostAvailable

    try:
        session = cql.connect(address)
    except NoHostAvailable as error:
        return any(isinstance(each, AuthenticationFailed) for each in error.errors.values())
    except DriverException:
        return False
    try:
        return bool(session.cluster.metadata.cluster_name == cluster)
    finally:
        session.cluster.shutdown()
