"""Looks that viewers have asked for: each a process of its own, ended when nobody looks any more."""

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
_MOST = 3
_ATTACH_SECONDS = 15.0
_LEAVE_SECONDS = 3.0
_STARTING_SECONDS = 120.0
_LONGEST_LINE = 64 * 2**20


class BusyError(Exception):
    """There are as many looks under way as we allow."""


@dataclass(eq=False)
class _Look:
    process: asyncio.subprocess.Process
    task: asyncio.Task[None] | None = None
    attached: bool = False

    async def end(self) -> None:
        """Ask it to end, then make it; its JVM is in its group."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), _LEAVE_SECONDS)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()


@dataclass
class Explore:
    """Every look that is under way."""

    most: int = _MOST
    _looks: dict[str, _Look] = field(default_factory=dict)

    async def begin(self, asked: dict[str, Any]) -> str:
        """Start a look; its id. It ends soon unless someone attaches."""
        if len(self._looks) >= self.most:
            raise BusyError
        process = await asyncio.create_subprocess_exec(
            *EXPLORER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({**asked, "limits": LIMITS}).encode() + b"\n")
        look = _Look(process)
        number = secrets.token_hex(8)
        self._looks[number] = look
        look.task = asyncio.create_task(self._watch(number, look))
        return number

    async def rows(self, number: str) -> AsyncIterator[dict[str, Any]]:
        """What a look says, line by line; leaving this ends the look."""
        look = self._looks.get(number)
        if look is None or look.attached:
            yield {"what": "error", "says": "this look has ended; run it again"}
            return
        look.attached = True
        assert look.process.stdout is not None
        last = ""
        try:
            async for line in look.process.stdout:
                said = json.loads(line)
                last = said["what"]
                yield said
            if last not in ("end", "error"):
                code = await look.process.wait()
                says = f"the look ended with code {code}; ask for less, or try it with penstock preview"
                yield {"what": "error", "says": says}
        finally:
            await self.stop(number)

    async def stop(self, number: str) -> None:
        """End a look, if it is still under way."""
        look = self._looks.pop(number, None)
        if look is not None:
            if look.task is not None:
                look.task.cancel()
            await asyncio.shield(look.end())

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(self.stop(number) for number in list(self._looks)))

    async def _watch(self, number: str, look: _Look) -> None:
        await asyncio.sleep(_ATTACH_SECONDS)
        if look.attached:
            await asyncio.sleep(LIMITS["seconds"] + _STARTING_SECONDS)
        look.task = None
        await self.stop(number)
