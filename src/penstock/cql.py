"""Sessions with Cassandra by its Python driver: for looking before a start, and for keys from the executors.

It imports nothing of Penstock outside of functions: it is sent to executors by value, which need only the driver.
"""

from __future__ import annotations

from typing import Any

USUAL_PORT = 9042
_RECONNECT_SECONDS = 1.0


def require_driver() -> None:
    """An error that says what to install, if the driver is not here."""
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

    # It warns about every try to connect; what comes of the tries is an exception.
    logging.getLogger("cassandra").addHandler(logging.NullHandler())
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=ConsistencyLevel.name_to_value[consistency],
        # Making a table takes long on a busy cluster.
        request_timeout=30.0,
    )
    points = contact_points(hosts)
    cluster = Cluster(
        points,
        port=points[0][1],
        auth_provider=PlainTextAuthProvider(user, password) if user else None,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # What every server since 2.2 speaks: no tries at newer ones.
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
        found.append((host, int(port)) if colon and port.isdecimal() else (each.strip(), USUAL_PORT))
    return found


def quoted(name: str) -> str:
    """A name of CQL, exactly as it is."""
    return '"' + name.replace('"', '""') + '"'
