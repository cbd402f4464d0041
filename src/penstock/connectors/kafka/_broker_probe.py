"""Checks of the brokers before Spark starts, each with its own error message.

reach ─► TLS ─► SASL mechanism ─► user and password ─► topics ─► ACLs
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.connector import Fact, PrintStatus
from penstock.connectors.kafka._common import QUIET, MissingTopicError
from penstock.connectors.kafka._handshake import (
    CertificateSummary,
    Handshake,
    Server,
    client_subject,
    closed_error,
    connect_tls,
    create_context,
    detect_protocol,
    request_handshake,
    summarize_certificate,
    untrusted_error,
)
from penstock.connectors.kafka.security import Security
from penstock.errors import PenstockError, RefusedError, UnreachableError
from penstock.text import Waiting, join_words

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_RETRY_SECONDS = 0.5
_EXPIRY_WARNING_DAYS = 30


@dataclass(frozen=True)
class BrokerProbe:
    """Checks that brokers accept a client and that it may use the topics."""

    servers: str
    security: Security
    topics: tuple[str, ...] = ()
    use: Literal["read", "write"] = "read"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """The facts that are in order, in the order of a connection; raises at the first that is not."""
        deadline = time.monotonic() + wait_seconds
        server = self._reach(deadline, wait_seconds, print_status)
        yield Fact("broker", f"answers at {server}")
        yield from self._check_connection(server, print_status)
        admin, known = self._log_in(deadline, wait_seconds, print_status)
        if self.security.sasl:
            yield Fact("login", f"{self.who} is accepted ({self.security.sasl.name})")
        yield from self._check_topics(admin, known)

    @property
    def who(self) -> str:
        """Our principal, as the broker's ACLs name it where that is known."""
        if self.security.sasl:
            return f"user {self.security.sasl.user!r}"
        return client_subject(self.security) or "an anonymous client"

    def _reach(self, deadline: float, wait_seconds: float, print_status: PrintStatus) -> Server:
        try:
            servers = [Server.parse(each) for each in self.servers.split(",") if each.strip()]
        except ValueError as error:
            raise PenstockError(f"'servers': {error}; write 'host:9092', several with commas between") from error
        while True:
            reasons = []
            for server in servers:
                try:
                    server.connect(_CONNECT_SECONDS).close()
                    return server
                except OSError as error:
                    reasons.append(
                        _explain(server, error) if len(servers) == 1 else f"{server}: {_explain(server, error)}"
                    )
            left, reason = deadline - time.monotonic(), join_words(dict.fromkeys(reasons), "and")
            if left <= 0:
                raise self._unreachable_error(wait_seconds, reason)
            print_status(Waiting(f"waiting for a Kafka broker at {self.servers} ({left:.0f} s left): {reason}"))
            time.sleep(min(_RETRY_SECONDS, left))

    def _unreachable_error(self, wait_seconds: float, reason: str) -> UnreachableError:
        says = f"no Kafka broker answers at {self.servers} after {wait_seconds:.0f} s: {reason}"
        return UnreachableError(f"{says}; start it (penstock dev up kafka runs one here) or correct 'servers'")

    def _check_connection(self, server: Server, print_status: PrintStatus) -> Iterator[Fact]:
        answer: Handshake | None
        if self.security.encrypted:
            answer, certificate = self._handshake_tls(server)
            yield Fact("certificate", certificate.text)
            if certificate.days < _EXPIRY_WARNING_DAYS:
                print_status(f"the certificate of {server} expires in {certificate.days} days; have it renewed")
        else:
            answer = self._handshake_plaintext(server)
        if answer is not None:
            self._check_login(server, answer)

    def _handshake_tls(self, server: Server) -> tuple[Handshake, CertificateSummary]:
        context = create_context(self.security.material)
        mechanism = self.security.sasl.name if self.security.sasl else "PLAIN"
        try:
            with connect_tls(server, context, _CONNECT_SECONDS) as connection:
                summary = summarize_certificate(connection.getpeercert() or {})
                try:
                    return request_handshake(connection, mechanism), summary
                except OSError as error:
                    # In TLS 1.3 the client's handshake ends before the broker has verified our certificate.
                    raise closed_error(server, self.security, error) from error
        except ssl.SSLCertVerificationError as error:
            raise untrusted_error(server, self.security, error, _CONNECT_SECONDS) from error
        except OSError as error:
            if detect_protocol(server, _CONNECT_SECONDS) == "plaintext":
                fix = "use the port of its TLS listener, or take 'tls' and 'sasl' out"
                raise RefusedError(f"{server} does not speak TLS, its connections are plaintext; {fix}") from error
            raise closed_error(server, self.security, error) from error
        except ValueError as error:
            raise RefusedError(f"{server}: {error}; correct 'servers'") from error

    def _handshake_plaintext(self, server: Server) -> Handshake | None:
        mechanism = self.security.sasl.name if self.security.sasl else "PLAIN"
        try:
            with server.connect(_CONNECT_SECONDS) as connection:
                return request_handshake(connection, mechanism)
        except (OSError, ValueError) as error:
            if detect_protocol(server, _CONNECT_SECONDS) == "tls":
                fix = "add 'tls: {ca: ...}', or 'tls: {}' to trust what this system trusts"
                raise RefusedError(f"{server} requires TLS, and this connection has none; {fix}") from error
            # A broker that is starting, or one without SASL: the admin client reports the error, if any.
            return None

    def _check_login(self, server: Server, answer: Handshake) -> None:
        sasl = self.security.sasl
        offered = join_words((name.lower() for name in answer.mechanisms), "and")
        if sasl is None and answer.requires_login:
            fix = "add 'sasl: {mechanism: ..., user: ..., password: ...}'"
            raise RefusedError(f"{server} requires a user and a password ({offered}); {fix}")
        if sasl is not None and not answer.requires_login:
            raise RefusedError(f"{server} has no SASL login; take 'sasl' out, or use the port of a SASL listener")
        if sasl is not None and sasl.name not in answer.mechanisms:
            raise RefusedError(f"{server} offers {offered}, not {sasl.mechanism}; set 'sasl.mechanism' to one of them")

    def _log_in(
        self, deadline: float, wait_seconds: float, print_status: PrintStatus
    ) -> tuple[AdminClient, Mapping[str, Any]]:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient

        errors: list[KafkaError] = []
        settings: dict[str, Any] = {**QUIET, **self.settings, **self.security.client()}
        settings |= {"bootstrap.servers": str(self.servers), "error_cb": errors.append}
        admin = AdminClient(settings)
        while True:
            left = deadline - time.monotonic()
            try:
                return admin, admin.list_topics(timeout=2.0).topics
            except KafkaException as error:
                admin.poll(0)
                refused = [each for each in errors if each.code() == KafkaError._AUTHENTICATION]
                if refused:
                    raise self._login_error(refused[-1].str()) from error
                if time.monotonic() >= deadline:
                    last = (errors[-1] if errors else error.args[0]).str()
                    raise self._unreachable_error(wait_seconds, last) from error
                print_status(Waiting(f"waiting for a Kafka broker at {self.servers} ({max(0, left):.0f} s left)"))

    def _login_error(self, says: str) -> RefusedError:
        sasl = self.security.sasl
        if sasl is None:
            return RefusedError(f"Kafka at {self.servers} refuses {self.who}: {says}; check 'tls' and 'sasl'")
        fix = "correct 'sasl.user' and 'sasl.password'"
        return RefusedError(f"Kafka at {self.servers} refuses {self.who}: wrong user or password ({sasl.name}); {fix}")

    def _check_topics(self, admin: AdminClient, known: Mapping[str, Any]) -> Iterator[Fact]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        if not self.topics:
            return
        futures = admin.describe_topics(
            TopicCollection(list(self.topics)), include_authorized_operations=True, request_timeout=_ANSWER_SECONDS
        )
        missing = []
        for topic, future in futures.items():
            try:
                found = future.result(timeout=_ANSWER_SECONDS)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._acl_error(topic, "see") from error
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise UnreachableError(
                        f"Kafka at {self.servers}, topic {topic!r}: {error.args[0].str()}"
                    ) from error
                missing.append(topic)
                continue
            self._require_operation(topic, found.authorized_operations)
            count = len(found.partitions)
            yield Fact("topic", f"{topic!r} has {count} partition{'' if count == 1 else 's'}, we may {self.use} it")
        if missing:
            others = sorted(name for name in known if not name.startswith("__"))
            raise MissingTopicError(self.servers, tuple(missing), others)

    def _require_operation(self, topic: str, granted: Any) -> None:
        # A broker without ACLs, or an old one, lists no operations.
        names = {operation.name for operation in granted or ()}
        if names and not names.intersection({self.use.upper(), "ALL"}):
            raise self._acl_error(topic, self.use)

    def _acl_error(self, topic: str, use: str) -> RefusedError:
        right = {"see": f"{self.use.upper()} and DESCRIBE"}.get(use, use.upper())
        says = f"Kafka at {self.servers}: {self.who} may not {use} topic {topic!r}"
        return RefusedError(f"{says}; have an ACL added that allows {right} on it")


def _explain(server: Server, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host {server.host!r} cannot be resolved"
    if isinstance(error, TimeoutError):
        return f"{server} does not answer"
    return (error.strerror or str(error)).lower()
