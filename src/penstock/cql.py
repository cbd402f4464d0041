"""Sessions with Cassandra through its Python driver, for the driver process and for executors.

It imports nothing of Penstock outside of functions: it is pickled by value, so executors need only the driver.
"""

from __future__ import annotations

from typing import Any

DEFAULT_PORT = 9042
_RECONNECT_SECONDS = 1.0


def require_driver() -> None:
    """Raise an error that says what to install, if the driver is missing."""
    from importlib.util import find_spec

    from penstock.errors import PenstockError

    if find_spec("cassandra") is None:
        says = "Cassandra needs the Python package 'cassandra-driver', which is not installed"
        raise PenstockError(f"{says}; run `pip install 'penstock[cassandra]'`")


def connect(hosts: str, user: str = "", password: str = "", consistency: str = "LOCAL_QUORUM") -> Any:
    """A session with the cluster behind `host:port,host:port`; raises what the driver raises."""
    import logging

    from cassandra import ConsistencyLevel
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, TokenAwarePolicy

    # The driver logs a warning for every attempt; failures are raised anyway.
    logging.getLogger("cassandra").addHandler(logging.NullHandler())
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=ConsistencyLevel.name_to_value[consistency],
        # Creating a table takes long on a busy cluster.
        request_timeout=30.0,
    )
    points = contact_points(hosts)
    cluster = Cluster(
        points,
        port=points[0][1],
        auth_provider=PlainTextAuthProvider(user, password) if user else None,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # Supported by every server since 2.2; avoids negotiation.
        protocol_version=4,
        reconnection_policy=ConstantReconnectionPolicy(_RECONNECT_SECONDS, None),
        connect_timeout=5,
        control_connection_timeout=5,
    )
    try:
        return cluster.connect()
    except BaseException:
        cluster.shutdown()
        raise


def contact_points(hosts: str) -> list[tuple[str, int]]:
    """`a:9043, b` as pairs of host and port."""
    found = []
    for each in hosts.split(","):
        host, colon, port = each.strip().rpartition(":")
        found.append((host, int(port)) if colon and port.isdecimal() else (each.strip(), DEFAULT_PORT))
    return found


def quote(name: str) -> str:
    """A quoted CQL identifier."""
    return '"' + name.replace('"', '""') + '"'
