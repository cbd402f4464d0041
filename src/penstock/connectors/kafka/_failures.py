"""What Kafka's Java client throws while a query runs, in our words."""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.text import join_words

_TOPICS = re.compile(r"Not authorized to access topics: \[([^\]]*)\]")
_LOOK = "penstock doctor FILE shows which"
_CAUSES = (
    ("SaslAuthenticationException", "no longer takes our user and password; correct 'sasl'"),
    ("SslAuthenticationException", "and we no longer trust each other's certificates; look at 'tls'"),
    ("GroupAuthorizationException", "does not let us use our consumer group; have an ACL added for it"),
)


def explained(failure: str, servers: str, topics: Collection[str]) -> str | None:
    """A refusal of the broker that a source reads, in one sentence; None if the failure is none."""
    if "TopicAuthorizationException" in failure:
        named = _TOPICS.search(failure)
        # A producer names its topics; the reader of offsets does not, and then they are ours.
        refused = named[1].split(", ") if named else list(topics)
        if not set(refused) & set(topics):
            return None
        names = join_words(map(repr, refused), "and")
        return f"Kafka at {servers} does not let us read topic {names}; have an ACL added that allows READ on it"
    # The client does not say which of the query's brokers it was.
    return next((f"a broker of this query {says}; {_LOOK}" for name, says in _CAUSES if name in failure), None)
