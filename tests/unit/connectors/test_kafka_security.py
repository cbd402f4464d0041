"""TLS and passwords: one declaration, two clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from pydantic import ValidationError

from penstock.connectors.kafka import KafkaSource
from penstock.connectors.kafka.security import Sasl, Security, Tls
from penstock.errors import CertificateError
from penstock.services.certificates import LOOPBACK, Authority
from penstock.text import quote_jaas


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    """A CA with a client's certificate, and one that has run out."""
    made = Authority(tmp_path_factory.mktemp("tls"))
    made.ensure(["client"])
    made.issue("old", LOOPBACK, days=-2)
    return made


def user(**more: object) -> Sasl:
    return Sasl.model_validate({"mechanism": "scram-sha-512", "user": "me", "password": "it", **more})


def pair(authority: Authority, **more: str) -> Tls:
    files = {"cert": str(authority.certificate("client")), "key": str(authority.key("client"))}
    return Tls.model_validate({"ca": str(authority.ca), **files, **more})


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (Security(), "PLAINTEXT"),
        (Security(Tls()), "SSL"),
        (Security(None, user()), "SASL_SSL"),
        (Security(Tls(), user()), "SASL_SSL"),
        (Security(None, user(plaintext=True)), "SASL_PLAINTEXT"),
    ],
)
def test_the_protocol_follows_from_what_is_given(security, protocol):
    assert security.protocol == protocol
    assert security.spark().get("kafka.security.protocol", "PLAINTEXT") == protocol
    assert security.client().get("security.protocol", "PLAINTEXT") == protocol


def test_both_clients_get_the_same_files_as_text(authority):
    security = Security(pair(authority), user())
    ca, chain = authority.ca.read_text(), authority.certificate("client").read_text()
    key = authority.key("client").read_text()

    assert security.spark() == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": ca,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": chain,
        "kafka.ssl.keystore.key": key,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="it";'
        ),
    }
    assert security.client() == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": ca,
        "ssl.certificate.pem": chain,
        "ssl.key.pem": key,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "it",
    }


def test_a_jaas_text_cannot_be_broken_out_of():
    assert quote_jaas('a"; evil required x="') == '"a\\"; evil required x=\\""'
    assert quote_jaas("back\\slash") == '"back\\\\slash"'
    assert quote_jaas("two\r\nlines") == '"two\\r\\nlines"'
    assert user(password='p" x="y').jaas.endswith('username="me" password="p\\" x=\\"y";')


def test_passwords_do_not_show(authority):
    connector = KafkaSource.model_validate(
        {"servers": "b:1", "topics": ["t"], "sasl": {"mechanism": "plain", "user": "me", "password": "hunter2"}}
    )

    assert "hunter2" not in repr(connector)
    assert "PRIVATE" not in repr(pair(authority).material)


@pytest.mark.parametrize("form", ["pkcs8", "pkcs1", "encrypted", "one file", "pkcs12", "inline"])
def test_a_key_is_taken_in_every_usual_form(authority, tmp_path, form):
    cert, key = authority.certificate("client").read_bytes(), authority.key("client").read_bytes()
    private = load_pem_private_key(key, None)
    locked = BestAvailableEncryption(b"pw")
    file = tmp_path / "key"
    given = {"cert": str(authority.certificate("client")), "key": str(file)}
    if form == "pkcs8":
        file.write_bytes(key)
    elif form == "pkcs1":
        file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    elif form == "encrypted":
        file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
        given["password"] = "pw"
    elif form == "one file":
        file.write_bytes(cert + key)
        given = {"cert": str(file)}
    elif form == "pkcs12":
        store = pkcs12.serialize_key_and_certificates(b"me", private, load_pem_x509_certificate(cert), None, locked)
        file.write_bytes(store)
        given = {"cert": str(file), "password": "pw"}
    else:
        file.write_bytes(b"")
        given = {"cert": cert.decode(), "key": key.decode()}
    file.chmod(0o600)

    found = Tls.model_validate(given).material

    assert (found.chain, found.key) == (cert.decode(), key.decode())


def complaint(**given: object) -> str:
    with pytest.raises(CertificateError) as caught:
        assert Tls.model_validate(given).material
    return str(caught.value)


def test_what_is_wrong_with_a_file_is_said_by_name(authority, tmp_path):
    junk, cert, key = tmp_path / "junk", str(authority.certificate("client")), str(authority.key("client"))
    junk.write_text("junk")
    open_key = tmp_path / "open.key"
    open_key.write_bytes(Path(key).read_bytes())
    open_key.chmod(0o640)

    assert complaint(ca="nope.pem") == (
        "'tls.ca' 'nope.pem' cannot be read: no such file or directory; "
        "a relative path starts at the folder of the pipeline file"
    )
    assert complaint(ca=str(junk)) == (
        f"'tls.ca' '{junk}' cannot be read: it is not PEM, PKCS12 or JKS; give one of them"
    )
    assert complaint(ca=key) == f"'tls.ca' '{key}' holds no certificate; give the broker's CA as PEM, PKCS12 or JKS"
    assert complaint(cert=cert) == f"'tls.cert' '{cert}' holds no private key; give 'tls.key', the private key"
    assert complaint(cert=cert, key=str(authority.key("ca"))).endswith("; give the pair that was issued together")
    assert complaint(cert=cert, key=str(open_key)) == (
        f"'tls.key' '{open_key}' holds a private key that others can read (mode 640); run chmod 600 on it"
    )
    old = {"cert": str(authority.certificate("old")), "key": str(authority.key("old"))}
    assert ": our certificate expired on 20" in complaint(**old)


def test_a_wrong_password_and_a_missing_one_are_told_apart(authority, tmp_path):
    private = load_pem_private_key(authority.key("client").read_bytes(), None)
    file = tmp_path / "key"
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw")))
    given = {"cert": str(authority.certificate("client")), "key": str(file)}

    assert complaint(**given).endswith("cannot be read: it is encrypted; give 'tls.password'")
    assert complaint(**given, password="no").endswith("cannot be read: wrong password; correct 'tls.password'")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls": {"key": "k"}}, "'tls.key' needs 'tls.cert'"),
        ({"tls": {"password": "p"}}, "'tls.password' opens a key or a key store"),
        (
            {"sasl": {"mechanism": "plain", "user": "u", "password": "p", "plaintext": True}},
            "'sasl.mechanism: plain' without TLS sends the password unencrypted",
        ),
        ({"servers": "embedded", "tls": {}}, "'servers: embedded' is a plaintext listener, without TLS and users"),
    ],
)
def test_what_contradicts_itself_is_refused(options, says):
    with pytest.raises(ValidationError, match=says.replace("(", r"\(")):
        KafkaSource.model_validate({"servers": "b:1", "topics": ["t"], **options})
