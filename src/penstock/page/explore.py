"""The previews that viewers run in Explore, each in a separate process that ends with its viewer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

EXPLORER = (sys.executable, "-m", "penstock.page.explorer")
LIMITS = {"rows": 100_000, "seconds": 1800.0, "per_second": 500, "batch_rows": 20_000}
_MAX_PREVIEWS = 3
_ATTACH_SECONDS = 15.0
_EXIT_SECONDS = 3.0
_START_SECONDS = 120.0
_MAX_LINE_BYTES = 64 * 2**20


class BusyError(Exception):
    """As many previews as allowed are running."""


@dataclass(eq=False)
class _PreviewProcess:
    process: asyncio.subprocess.Process
    task: asyncio.Task[None] | None = None
    attached: bool = False

    async def end(self) -> None:
        """Ask the process to exit, then kill its group, which includes the JVM."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), _EXIT_SECONDS)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()


@dataclass
class Previews:
    """The previews that are running."""

    limit: int = _MAX_PREVIEWS
    _running: dict[str, _PreviewProcess] = field(default_factory=dict)

    async def start(self, request: dict[str, Any]) -> str:
        """Start a preview and return its id; it ends soon unless a client reads its messages."""
        if len(self._running) >= self.limit:
            raise BusyError
        process = await asyncio.create_subprocess_exec(
            *EXPLORER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            limit=_MAX_LINE_BYTES,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({**request, "limits": LIMITS}).encode() + b"\n")
        preview = _PreviewProcess(process)
        number = secrets.token_hex(8)
        self._running[number] = preview
        preview.task = asyncio.create_task(self._watch(number, preview))
        return number

    async def messages(self, number: str) -> AsyncIterator[dict[str, Any]]:
        """The messages of a preview; it ends when this generator is closed."""
        preview = self._running.get(number)
        if preview is None or preview.attached:
            yield {"what": "error", "says": "this preview has ended; run it again"}
            return
        preview.attached = True
        assert preview.process.stdout is not None
        last = ""
        try:
            async for line in preview.process.stdout:
                content = json.loads(line)
                last = content["what"]
                yield content
            if last not in ("end", "error"):
                code = await preview.process.wait()
                says = f"the preview ended with exit code {code}; ask for less, or try it with penstock preview"
                yield {"what": "error", "says": says}
        finally:
            await self.stop(number)

    async def stop(self, number: str) -> None:
        """Stop a preview, if it is still running."""
        preview = self._running.pop(number, None)
        if preview is not None:
            if preview.task is not None:
                preview.task.cancel()
            await asyncio.shield(preview.end())

    async def close(self) -> None:
        """Stop all previews."""
        await asyncio.gather(*(self.stop(number) for number in list(self._running)))

    async def _watch(self, number: str, preview: _PreviewProcess) -> None:
        await asyncio.sleep(_ATTACH_SECONDS)
        if preview.attached:
            await asyncio.sleep(LIMITS["seconds"] + _START_SECONDS)
        preview.task = None
        await self.stop(number)
