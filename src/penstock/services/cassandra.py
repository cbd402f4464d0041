"""A local Cassandra: one node, loopback only."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from penstock import cql
from penstock.errors import ServiceError
from penstock.java import find_java, read_java_version
from penstock.services.process import Progress
from penstock.services.service import HOST, Service, free_port, is_listening

_JAVA_VERSIONS = (11, 17)

_EXPORTED_PACKAGES = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.unsupported/sun.misc",
)
_OPENED_PACKAGES = (
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
    # A single node need not wait for others: it answers 30 seconds earlier.
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # The native epoll library is not among our jars.
    "-Dcassandra.native.epoll.enabled=false",
    "-Djdk.attach.allowAttachSelf=true",
    *(f"--add-exports={each}=ALL-UNNAMED" for each in _EXPORTED_PACKAGES),
    *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED_PACKAGES),
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
    """A node with its data in `folder`; without `port` it uses 9042, or a free port that it then keeps."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """Additions to and overrides of cassandra.yaml."""

    name: ClassVar[str] = "cassandra"
    jars: ClassVar[str] = "cassandra-server"
    default_port: ClassVar[int] = cql.DEFAULT_PORT
    start_timeout_seconds: ClassVar[float] = 120.0

    def _command(self, port: int, progress: Progress) -> list[str]:  # noqa: ARG002
        cql.require_driver()
        version = read_java_version(find_java())
        if version not in _JAVA_VERSIONS:
            says = f"Cassandra 5 needs Java 11 or 17, and {find_java()} is {version}"
            raise ServiceError(f"{says}; install openjdk-17-jre-headless and set JAVA_HOME to it")
        self._write_settings(port)
        return self._java("org.apache.cassandra.service.CassandraDaemon", flags=_FLAGS)

    def _is_ready(self, address: str) -> bool:
        return is_listening(address) and is_ready(address, self._cluster())

    def _cluster(self) -> str:
        """The name given to this cluster at its creation; Cassandra refuses data of another one."""
        file = self.folder / "cluster"
        if not file.exists():
            file.write_text(f"penstock-{uuid.uuid4().hex[:12]}\n", encoding="utf-8")
        return file.read_text(encoding="utf-8").strip()

    def _write_settings(self, port: int) -> None:
        # Single node: any free port will do for the inter-node listener.
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
            # Acknowledge only what is on disk: this is the only copy, and a killed node must not lose it.
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
            # Generous timeouts, for slow machines.
            "read_request_timeout": "20s",
            "range_request_timeout": "60s",
            "write_request_timeout": "20s",
            "request_timeout": "60s",
            **self.settings,
        }
        # JSON is YAML.
        (self.folder / "cassandra.yaml").write_text(json.dumps(settings, indent=2), encoding="utf-8")
        (self.folder / "logback.xml").write_text(_LOGBACK, encoding="utf-8")


def is_ready(address: str, cluster: str) -> bool:
    """Whether the node accepts requests and belongs to this cluster; one that asks for a password counts as ours."""
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
