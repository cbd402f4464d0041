"""Before Spark starts: is the broker there, does its certificate fit, are we let in, may we use the topics?

reach ─► TLS ─► which login? ─► user and password ─► topics ─► rights       each with its own sentence when it fails
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.connector import Fact, PrintStatus
from penstock.connectors.kafka import _tls_errors as distrust
from penstock.connectors.kafka._probe import Handshake, Server, context, encrypted, handshake, speaks
from penstock.connectors.kafka.security import Security
from penstock.connectors.kafka.topics import QUIET, MissingTopicError
from penstock.errors import PenstockError, RefusedError, UnreachableError
from penstock.text import Waiting, join_words

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_SOON_DAYS = 30


@dataclass(frozen=True)
class Examination:
    """What is asked of the brokers, and for whom."""

    servers: str
    security: Security
    topics: tuple[str, ...] = ()
    use: Literal["read", "write"] = "read"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def facts(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """What is well, in the order in which a connection needs it; an error names the first thing that is not."""
        deadline = time.monotonic() + wait_seconds
        server = self._reached(deadline, wait_seconds, print_status)
        yield Fact("broker", f"answers at {server}")
        yield from self._connected(server, print_status)
        admin, known = self._let_in(deadline, wait_seconds, print_status)
        if self.security.sasl:
            yield Fact("login", f"{self.who} is let in ({self.security.sasl.name})")
        yield from self._allowed(admin, known)

    @property
    def who(self) -> str:
        """Whom the broker takes us for, as its ACLs spell it where we know."""
        if self.security.sasl:
            return f"user {self.security.sasl.user!r}"
        return distrust.subject_of(self.security) or "a client without a name"

    def _reached(self, deadline: float, wait_seconds: float, print_status: PrintStatus) -> Server:
        try:
            servers = [Server.of(each) for each in self.servers.split(",") if each.strip()]
        except ValueError as error:
            raise PenstockError(f"'servers': {error}; write 'host:9092', several with commas between") from error
        while True:
            whys = []
            for server in servers:
                try:
                    server.connect(_CONNECT_SECONDS).close()
                    return server
                except OSError as error:
                    whys.append(_why(server, error) if len(servers) == 1 else f"{server}: {_why(server, error)}")
            left, why = deadline - time.monotonic(), join_words(dict.fromkeys(whys), "and")
            if left <= 0:
                raise self._unreachable(wait_seconds, why)
            print_status(Waiting(f"waiting for a Kafka broker at {self.servers} ({left:.0f} s left): {why}"))
            time.sleep(min(_LOOK_SECONDS, left))

    def _unreachable(self, wait_seconds: float, why: str) -> UnreachableError:
        says = f"no Kafka broker answers at {self.servers} after {wait_seconds:.0f} s: {why}"
        return UnreachableError(f"{says}; start it (penstock dev up kafka runs one here) or correct 'servers'")

    def _connected(self, server: Server, print_status: PrintStatus) -> Iterator[Fact]:
        answer: Handshake | None
        if self.security.encrypted:
            answer, certificate = self._encrypted(server)
            yield Fact("certificate", certificate.says)
            if certificate.days < _SOON_DAYS:
                print_status(f"the certificate of {server} expires in {certificate.days} days; have it renewed")
        else:
            answer = self._plain(server)
        if answer is not None:
            self._compare(server, answer)

    def _encrypted(self, server: Server) -> tuple[Handshake, distrust.Shown]:
        made = context(self.security.material)
        wanted = self.security.sasl.name if self.security.sasl else "PLAIN"
        try:
            with encrypted(server, made, _CONNECT_SECONDS) as connection:
                shown = distrust.shown(connection.getpeercert() or {})
                try:
                    return handshake(connection, wanted), shown
                except OSError as error:
                    # With TLS 1.3 the broker judges our certificate only after we think that we are done.
                    raise distrust.closed(server, self.security, error) from error
        except ssl.SSLCertVerificationError as error:
            raise distrust.untrusted(server, self.security, error, _CONNECT_SECONDS) from error
        except OSError as error:
            if speaks(server, _CONNECT_SECONDS) == "plaintext":
                fix = "use the port of its TLS listener, or take 'tls' and 'sasl' out"
                raise RefusedError(f"{server} does not speak TLS, its connections are plaintext; {fix}") from error
            raise distrust.closed(server, self.security, error) from error
        except ValueError as error:
            raise RefusedError(f"{server}: {error}; correct 'servers'") from error

    def _plain(self, server: Server) -> Handshake | None:
        wanted = self.security.sasl.name if self.security.sasl else "PLAIN"
        try:
            with server.connect(_CONNECT_SECONDS) as connection:
                return handshake(connection, wanted)
        except (OSError, ValueError) as error:
            if speaks(server, _CONNECT_SECONDS) == "tls":
                fix = "add 'tls: {ca: ...}', or 'tls: {}' to trust what this system trusts"
                raise RefusedError(f"{server} speaks TLS, and we came without; {fix}") from error
            # A broker that is just starting, or one that knows no login: its own client will tell.
            return None

    def _compare(self, server: Server, answer: Handshake) -> None:
        sasl = self.security.sasl
        offered = join_words((name.lower() for name in answer.mechanisms), "and")
        if sasl is None and answer.asks:
            fix = "add 'sasl: {mechanism: ..., user: ..., password: ...}'"
            raise RefusedError(f"{server} asks for a user and a password ({offered}); {fix}")
        if sasl is not None and not answer.asks:
            raise RefusedError(f"{server} knows no users and passwords; take 'sasl' out, or use the port that does")
        if sasl is not None and sasl.name not in answer.mechanisms:
            raise RefusedError(f"{server} offers {offered}, not {sasl.mechanism}; set 'sasl.mechanism' to one of them")

    def _let_in(
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
                    raise self._refused(refused[-1].str()) from error
                if time.monotonic() >= deadline:
                    last = (errors[-1] if errors else error.args[0]).str()
                    raise self._unreachable(wait_seconds, last) from error
                print_status(Waiting(f"waiting for a Kafka broker at {self.servers} ({max(0, left):.0f} s left)"))

    def _refused(self, says: str) -> RefusedError:
        sasl = self.security.sasl
        if sasl is None:
            return RefusedError(f"Kafka at {self.servers} refuses {self.who}: {says}; look at 'tls' and 'sasl'")
        fix = "correct 'sasl.user' and 'sasl.password'"
        return RefusedError(f"Kafka at {self.servers} refuses {self.who}: wrong user or password ({sasl.name}); {fix}")

    def _allowed(self, admin: AdminClient, known: Mapping[str, Any]) -> Iterator[Fact]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        if not self.topics:
            return
        asked = admin.describe_topics(
            TopicCollection(list(self.topics)), include_authorized_operations=True, request_timeout=_ANSWER_SECONDS
        )
        missing = []
        for topic, future in asked.items():
            try:
                found = future.result(timeout=_ANSWER_SECONDS)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._forbidden(topic, "see") from error
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise UnreachableError(
                        f"Kafka at {self.servers}, topic {topic!r}: {error.args[0].str()}"
                    ) from error
                missing.append(topic)
                continue
            self._require_right(topic, found.authorized_operations)
            count = len(found.partitions)
            yield Fact("topic", f"{topic!r} has {count} partition{'' if count == 1 else 's'}, we may {self.use} it")
        if missing:
            others = sorted(name for name in known if not name.startswith("__"))
            raise MissingTopicError(self.servers, tuple(missing), others)

    def _require_right(self, topic: str, granted: Any) -> None:
        # A broker without ACLs, or an old one, says nothing of rights.
        names = {operation.name for operation in granted or ()}
        if names and not names.intersection({self.use.upper(), "ALL"}):
            raise self._forbidden(topic, self.use)

    def _forbidden(self, topic: str, use: str) -> RefusedError:
        right = {"see": f"{self.use.upper()} and DESCRIBE"}.get(use, use.upper())
        says = f"Kafka at {self.servers}: {self.who} may not {use} topic {topic!r}"
        return RefusedError(f"{says}; have an ACL added that allows {right} on it")


def _why(server: Server, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host {server.host!r} is not known here"
    if isinstance(error, TimeoutError):
        return f"{server} does not answer"
    return (error.strerror or str(error)).lower()
