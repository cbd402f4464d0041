"""The process behind Explore: what to look at comes as the first line of standard input, and its end ends this.

It is a process of its own so that what is typed into a page can neither slow nor break a pipeline, and so that it can
be ended from outside whatever Spark does.
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
from penstock.redaction import redacted

# Behind the pipeline when both want the processor, but not starved by other work on the machine.
_NICE = 5


def main() -> None:
    """Look until it ends, or until whoever asked is gone."""
    os.umask(0o077)
    os.nice(_NICE)
    asked = json.loads(sys.stdin.readline())
    gone = threading.Event()
    threading.Thread(target=_listen, args=(gone,), name="lifeline", daemon=True).start()
    # Spark and its JVM must not write between our lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    try:
        with open_preview(
            _wanted(asked), lambda says: _say(out, {"what": "says", "says": says}), gone.is_set
        ) as looked:
            for message in messages(looked):
                _say(out, message)
    except PenstockError as error:
        _say(out, {"what": "error", "says": str(error)})
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)


def _wanted(asked: dict[str, Any]) -> PreviewRequest:
    limits = Limits(**asked.get("limits", {}))
    start: Literal["latest", "earliest"] = "earliest" if asked.get("start") == "earliest" else "latest"
    return PreviewRequest(
        asked["file"], asked.get("step") or None, asked.get("sql", ""), start, bool(asked.get("bad")), limits
    )


def _say(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(redacted(message)) + "\n")


def _listen(gone: threading.Event) -> None:
    sys.stdin.read()
    gone.set()


if __name__ == "__main__":
    main()
