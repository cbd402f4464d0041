"""What Kafka's Java client throws while a query runs, in our words."""

from __future__ import annotations

import re

_TOPIC = re.compile(r"TopicAuthorizationException: Not authorized to access topics: \[([^\]]*)\]")
_CAUSES = (
    ("SaslAuthenticationException", "no longer takes our user and password", "correct 'sasl'"),
    ("SslAuthenticationException", "and we no longer trust each other's certificates", "look at 'tls'"),
    ("GroupAuthorizationException", "does not let us use our consumer group", "have an ACL added for it"),
    ("ClusterAuthorizationException", "does not let us write", "have an ACL added that allows IDEMPOTENT_WRITE"),
)


def explained(failure: str, servers: str) -> str | None:
    """A refusal of the broker in one sentence; None if the failure is none."""
    topic = _TOPIC.search(failure)
    if topic:
        return f"Kafka at {servers} does not let us use topic {topic[1]!r}; have an ACL added that allows it"
    for name, says, fix in _CAUSES:
        if name in failure:
            return f"Kafka at {servers} {says}; {fix}, and run again. penstock doctor FILE shows what is refused"
    return None
