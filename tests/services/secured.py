"""A real broker with every kind of secured listener, two of them with certificates that must not be trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.services.command import until

from penstock import jars
from penstock.services import KafkaBroker
from penstock.services.certificates import LOOPBACK, Authority
from penstock.services.kafka import free_port
from penstock.services.kafka_listeners import LISTENERS, USER, Listener

#: What breaks out of a text that is quoted by hand.
AWKWARD = "quo\"te; back\\slash, 'apostrophe', #{${env:HOME}} \u00fcml\u00e4ut\nsecond line"
DEMO = "databricks-demo"
#: A password that is easy to find wherever it leaked to.
MARKED = "m4rk3d-9f2e-p4ssw0rd"


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, and what a client needs for each of its listeners."""

    broker: KafkaBroker
    address: str
    stranger: Authority
    """A CA that the broker has never heard of."""
    hub: str
    """The connection string of the hub `databricks-demo`: what the user $ConnectionString has on the listener `hub`."""

    def at(self, listener: str) -> str:
        """Where a listener is."""
        return self.address if listener == "plaintext" else self.broker.secured.addresses[listener]

    def options(self, listener: str, **more: Any) -> dict[str, Any]:
        """The options of a source or sink that fit a listener."""
        authority = self.broker.secured.authority
        tls: dict[str, str] = {"ca": str(authority.ca)}
        if listener == "mutual-tls":
            tls |= {"cert": str(authority.certificate("client")), "key": str(authority.key("client"))}
        made: dict[str, Any] = {"servers": self.at(listener)}
        if listener not in ("plaintext", "scram-open"):
            made["tls"] = tls
        if listener in ("sasl-plain", "hub"):
            made["sasl"] = self.user("plain")
        if listener in ("sasl-scram", "scram-open"):
            made["sasl"] = {**self.user("scram-sha-512"), **({"plaintext": True} if listener == "scram-open" else {})}
        return {**made, **more}

    def yaml(self, listener: str, **more: Any) -> str:
        """The same as a file says it: YAML knows JSON."""
        return json.dumps(self.options(listener, **more))

    def user(self, mechanism: str, **more: str) -> dict[str, str]:
        """A user who is let in."""
        return {"mechanism": mechanism, "user": USER, "password": self.broker.secured.password, **more}

    def restrict(self, topic: str, **rights: str) -> None:
        """Let nobody but some users do some things with a topic: restrict("t", READ="User:alice")."""
        admin = AdminClient({"bootstrap.servers": self.address})
        bindings = [_acl(topic, who, AclOperation[right]) for right, who in rights.items()]
        for made in admin.create_acls(bindings).values():
            made.result(timeout=30)
        # The broker takes them over from its controller a moment later.
        until(lambda: len(admin.describe_acls(_any_acl(topic)).result(timeout=30)) == len(bindings), "the ACLs")


def _any_acl(topic: str) -> AclBindingFilter:
    kind, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
    return AclBindingFilter(kind, topic, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY)


def _acl(topic: str, who: str, right: AclOperation) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, who, "*", right, AclPermissionType.ALLOW)


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """The broker with its nine listeners, stopped at the end."""
    stranger = Authority(folder / "stranger", "stranger CA")
    stranger.create()
    stranger.issue("client", LOOPBACK)
    # A connection string names its own address, so that must be known before the broker starts.
    place = f"127.0.0.1:{free_port()}"
    (folder / "kafka").mkdir()
    (folder / "kafka" / "listeners.json").write_text(json.dumps({"hub": place}))
    hub = f"Endpoint=sb://{place}/;SharedAccessKeyName=demo;SharedAccessKey=abc+/def=;EntityPath={DEMO}"
    listeners = (
        *LISTENERS,
        Listener("expired", certificate="expired"),
        Listener("elsewhere", certificate="elsewhere"),
        Listener("hub", sasl=("PLAIN",), users={"$ConnectionString": hub, "awkward": AWKWARD, "marked": MARKED}),
        Listener("scram-open", sasl=("SCRAM-SHA-512",), encrypted=False),
    )
    broker = KafkaBroker(folder / "kafka", jars.fetch([KafkaBroker.jars]), free_port(), listeners)
    authority = broker.secured.authority
    authority.ensure(["broker", "client"])
    authority.issue("expired", LOOPBACK, days=-3)
    authority.issue("elsewhere", ["kafka.example"])
    address = broker.start(lambda _: None)
    try:
        yield SecuredBroker(broker, address, stranger, hub)
    finally:
        broker.stop()
