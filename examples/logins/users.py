"""Creates the table of users with four rows: python users.py [host:port]"""

from __future__ import annotations

import sys

from penstock import cql

USERS = {"100001": "Prashant", "100009": "Alisha", "100087": "Abdul", "100109": "Ketan"}


def main() -> None:
    """Create the keyspace, table and users; running it again changes nothing."""
    session = cql.connect(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9042")
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"CREATE KEYSPACE IF NOT EXISTS site WITH replication = {replication}")
    session.execute(
        "CREATE TABLE IF NOT EXISTS site.users (login_id text PRIMARY KEY, user_name text, last_login timestamp)"
    )
    for login_id, user_name in USERS.items():
        session.execute("INSERT INTO site.users (login_id, user_name) VALUES (%s, %s)", (login_id, user_name))
    session.cluster.shutdown()


if __name__ == "__main__":
    main()
