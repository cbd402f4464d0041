"""A local Kafka broker: one node, KRaft, loopback only."""

from __future__ import annotations

import base64
import re
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.errors import CallError, ServiceError
from penstock.services.certificates import write_private
from penstock.services.kafka_listeners import Listener, SecuredListeners
from penstock.services.process import Progress
from penstock.services.service import HOST, Service, free_port, is_listening, port_conflict

__all__ = ["DEFAULT_PORT", "KafkaBroker", "free_port", "is_ready", "port_conflict"]

DEFAULT_PORT = 9092
_FLAGS = ("-Xmx512m", "-Dlog4j2.configurationFile=log4j2.properties")
# C1 only: halves the run time of the one-second storage tool.
_TOOL_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# A killed broker can register again only after its old session expires: 3 seconds instead of the default 9.
# Paths are relative to the working directory, so that blanks and commas in its name do no harm.
_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners={listeners},CONTROLLER://{host}:{controller_port}
advertised.listeners={listeners}
listener.security.protocol.map={protocols}
inter.broker.listener.name=PLAINTEXT
log.dirs=data
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.partitions=2
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

_LOG4J = """\
status = warn
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = kafka.log
appender.file.filePattern = kafka.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c{1})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True)
class KafkaBroker(Service):
    """A broker with its data in `folder`; without `port` it uses 9092, or a free port that it then keeps."""

    listeners: tuple[Listener, ...] = ()
    """Secured listeners besides the plaintext one."""

    name: ClassVar[str] = "kafka"
    jars: ClassVar[str] = "broker"
    default_port: ClassVar[int] = DEFAULT_PORT

    @property
    def secured(self) -> SecuredListeners:
        """The secured listeners, and the credentials for clients."""
        return SecuredListeners(self.folder.absolute(), self.listeners)

    def _command(self, port: int, progress: Progress) -> list[str]:
        self._write_settings(port)
        if not self._meta.exists():
            progress(f"formatting kafka's storage in {self.folder}")
            self._format()
        return self._java("kafka.Kafka", "server.properties", flags=_FLAGS)

    def _is_ready(self, address: str) -> bool:
        cluster = re.search(r"^cluster\.id=(\S+)", self._meta.read_text(encoding="utf-8"), re.MULTILINE)
        return cluster is not None and is_ready(address, cluster.group(1))

    def _finish_start(self, address: str) -> None:
        if self.listeners:
            self.secured.add_users(address)

    def _refuse_other_settings(self) -> None:
        missing = [listener.name for listener in self.listeners if listener.name not in self.secured.addresses]
        if missing:
            fix = "run `penstock dev down kafka` first; its data stays"
            raise CallError(f"kafka already runs without the listeners {', '.join(missing)}; {fix}")

    @property
    def _meta(self) -> Path:
        return self.folder / "data" / "meta.properties"

    def _write_settings(self, port: int) -> None:
        addresses = self._addresses()
        plain = Listener("plaintext", encrypted=False)
        places = {plain.id: f"{HOST}:{port}", **{each.id: addresses[each.name] for each in self.listeners}}
        protocols = {each.id: each.protocol for each in (plain, *self.listeners)}
        settings = _SERVER.format(
            host=HOST,
            controller_port=free_port(),
            listeners=",".join(f"{name}://{place}" for name, place in places.items()),
            protocols=",".join(f"{name}:{word}" for name, word in {**protocols, "CONTROLLER": "PLAINTEXT"}.items()),
        )
        if self.listeners:
            self.secured.prepare(addresses)
            settings += "\n".join(self.secured.settings(addresses)) + "\n"
        else:
            self.secured.clear()
        # It contains passwords.
        write_private(self.folder / "server.properties", settings.encode())
        (self.folder / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")

    def _addresses(self) -> dict[str, str]:
        """The last address of each secured listener if it is still free, or a new one."""
        last = self.secured.addresses
        return {each.name: _still_free(last.get(each.name)) or f"{HOST}:{free_port()}" for each in self.listeners}

    def _format(self) -> None:
        # A cluster id is a UUID in 22 characters; one that starts with "-" would be parsed as an option.
        cluster = "-"
        while cluster.startswith("-"):
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        what = ["format", "--cluster-id", cluster, "--config", "server.properties"]
        command = self._java("kafka.tools.StorageTool", *what, flags=_TOOL_FLAGS)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            output = (done.stdout + done.stderr).strip()
            raise ServiceError(
                f"kafka's storage in {self.folder} cannot be formatted; the storage tool printed\n{output[-1000:]}"
            )


def is_ready(address: str, cluster: str) -> bool:
    """Whether a broker of this cluster, and not of another one on the same port, accepts requests."""
    # The client complains on stderr about a closed port, so probe the port first.
    if not is_listening(address):
        return False
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        found = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=5)
    except KafkaException:
        return False
    return found.cluster_id == cluster and bool(found.brokers)


def _still_free(address: str | None) -> str | None:
    return address if address and port_conflict(int(address.rpartition(":")[2])) is None else None
