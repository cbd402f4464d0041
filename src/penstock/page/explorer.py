"""The process of a preview: the request is the first line of standard input, and closing standard input ends it.

It is a separate process so that what is typed into a page can neither slow nor break a pipeline, and so that it can
be killed whatever Spark does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Literal

from penstock.errors import PenstockError
from penstock.preview.query import Limits
from penstock.preview.request import PreviewRequest, messages, open_preview
from penstock.redaction import redact_values

# Yields the CPU to the pipeline, but is not starved by other work on the machine.
_NICE = 5


def main() -> None:
    """Run the preview until it ends or the page closes standard input."""
    os.umask(0o077)
    os.nice(_NICE)
    request = json.loads(sys.stdin.readline())
    closed = threading.Event()
    threading.Thread(target=_wait_for_close, args=(closed,), name="lifeline", daemon=True).start()
    # Spark and its JVM must not write to this pipe.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    try:
        with open_preview(
            _parse(request), lambda says: _send(out, {"what": "says", "says": says}), closed.is_set
        ) as preview:
            for message in messages(preview):
                _send(out, message)
    except PenstockError as error:
        _send(out, {"what": "error", "says": str(error)})
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)


def _parse(request: dict[str, Any]) -> PreviewRequest:
    limits = Limits(**request.get("limits", {}))
    start: Literal["latest", "earliest"] = "earliest" if request.get("start") == "earliest" else "latest"
    return PreviewRequest(
        request["file"], request.get("step") or None, request.get("sql", ""), start, bool(request.get("bad")), limits
    )


def _send(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(redact_values(message)) + "\n")


def _wait_for_close(closed: threading.Event) -> None:
    sys.stdin.read()
    closed.set()


if __name__ == "__main__":
    main()
