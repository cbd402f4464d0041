"""The routes of the page. Reading is GET and changes nothing; what changes something is POST and needs a proof."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.page.explore import BusyError, Explore
from penstock.page.guard import Guard, log_loop_error
from penstock.page.live import Live, message
from penstock.page.tokens import Gate
from penstock.permissions import others_can_write
from penstock.watch.board import NAME, Board
from penstock.watch.metrics import CONTENT_TYPE, prometheus

_KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
}
_BEAT_SECONDS = 15.0
_MOST_SQL = 20_000
_OPEN = "open the link that penstock printed to its terminal, or add #token= and the text of the file that it named"
_COOKIE_SECONDS = 30 * 86_400


def app(
    storage: str,
    token: str,
    *,
    only: str = "",
    names: tuple[str, ...] = (),
    secure: bool = False,
    most_viewers: int = 64,
) -> Guard:
    """The page of a storage, or of one pipeline of it, for whoever has the token."""
    page = Page(Live(Board(storage, only), most_viewers), Explore(), Gate(token), secure)
    return Guard(page.starlette(), names, secure)


@dataclass
class Page:
    """What the routes share."""

    live: Live
    explore: Explore
    gate: Gate
    secure: bool = False

    def starlette(self) -> Starlette:
        """The app without its guard."""
        routes = [
            Route("/", self._static("index.html")),
            *(Route(f"/static/{name}", self._static(name)) for name in _files() if name != "index.html"),
            Route("/login", self.login, methods=["POST"]),
            Route("/metrics", self._inside(self.metrics)),
            Route("/api/session", self._inside(self.session)),
            Route("/api/stream", self._inside(self.stream)),
            Route("/api/explore", self._inside(self.begin), methods=["POST"]),
            Route("/api/explore/{number}", self._inside(self.rows)),
            Route("/api/explore/{number}/stop", self._inside(self.stop), methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        reading = asyncio.create_task(self.live.run())
        try:
            yield
        finally:
            reading.cancel()
            await self.explore.close()

    async def login(self, request: Request) -> Response:
        """The token for a cookie that scripts cannot read."""
        asked = await _json(request)
        if asked is None or not self.gate.opens(str(asked.get("token", ""))):
            return _refused(401, f"that is not the token; {_OPEN}")
        answer = JSONResponse({"proof": self.gate.proof})
        answer.set_cookie(
            _cookie(request), self.gate.token, _COOKIE_SECONDS, httponly=True, samesite="strict", secure=self.secure
        )
        return answer

    async def session(self, _: Request) -> Response:
        """What changes need besides the cookie."""
        return JSONResponse({"proof": self.gate.proof})

    async def metrics(self, _: Request) -> Response:
        """For Prometheus."""
        return Response(prometheus(await self.live.views()), headers={"content-type": CONTENT_TYPE})

    async def stream(self, request: Request) -> Response:
        """Everything that a viewer sees, as it changes."""
        name = request.query_params.get("pipeline", "")
        if name and not NAME.fullmatch(name):
            return _refused(404, "there is no such pipeline")
        if self.live.is_full:
            return _refused(503, "there are too many viewers; close one of the pages")

        async def messages() -> AsyncIterator[bytes]:
            # Entered here: whoever leaves before the first byte never was a viewer.
            async with self.live.viewing(name) as viewer:
                while True:
                    try:
                        each = await asyncio.wait_for(viewer.waiting.get(), _BEAT_SECONDS)
                    except asyncio.TimeoutError:
                        each = b": still here\n\n"
                    if each is None:
                        return
                    yield each

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def begin(self, request: Request) -> Response:
        """Start a look at a source, a step or a SELECT."""
        asked = await _json(request)
        if asked is None:
            return _refused(400, "send JSON")
        view = self.live.board.view(str(asked.get("pipeline", "")))
        if view is None:
            return _refused(404, "there is no such pipeline")
        too_long = "the SELECT is too long" if len(str(asked.get("sql", ""))) > _MOST_SQL else ""
        problem = too_long or _unfit(view.file, self.live.board.storage)
        if problem:
            return _refused(400, problem)
        wanted = {
            "file": view.file,
            "step": str(asked.get("step", "")),
            "sql": str(asked.get("sql", "")),
            "start": "earliest" if asked.get("start") == "earliest" else "latest",
            "bad": asked.get("bad") is True,
        }
        try:
            return JSONResponse({"id": await self.explore.begin(wanted)})
        except BusyError:
            return _refused(429, f"{self.explore.most} looks are under way; stop one of them")

    async def rows(self, request: Request) -> Response:
        """The rows of a look; it ends when nobody reads them."""

        async def messages() -> AsyncIterator[bytes]:
            async for said in self.explore.rows(request.path_params["number"]):
                yield message(said.pop("what"), said)

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def stop(self, request: Request) -> Response:
        """End a look."""
        await self.explore.stop(request.path_params["number"])
        return JSONResponse({})

    def _inside(self, route: Any) -> Any:
        """Only with the token; and with the proof where something changes."""

        async def checked(request: Request) -> Response:
            if not any(self.gate.opens(given) for given in _given(request)):
                return _refused(401, f"this needs the token; {_OPEN}")
            if request.method == "POST" and not self.gate.proves(request.headers.get("x-penstock-proof", "")):
                return _refused(403, "a change needs the proof that /api/session gives to the page")
            answer: Response = await route(request)
            return answer

        return checked

    def _static(self, name: str) -> Any:
        content = resources.files("penstock.page").joinpath("static").joinpath(name).read_bytes()
        kind = f"{_KINDS[Path(name).suffix]}; charset=utf-8"

        async def file(_: Request) -> Response:
            return Response(content, headers={"content-type": kind})

        return file


def _files() -> list[str]:
    return sorted(each.name for each in resources.files("penstock.page").joinpath("static").iterdir())


def _given(request: Request) -> list[str]:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    cookie = request.cookies.get(_cookie(request), "")
    return [given for given in (cookie, bearer if kind.lower() == "bearer" else "") if given]


def _cookie(request: Request) -> str:
    # Cookies do not tell ports apart, and two pages may run on one machine.
    return f"penstock-{request.url.port or 0}"


async def _json(request: Request) -> dict[str, Any] | None:
    # A form of another site can send text, but not this type.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        found = json.loads(await request.body())
        # A lone surrogate is not text: nothing that encodes it later would work.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _unfit(file: str, storage: str) -> str:
    """Why a pipeline's file cannot be run for a look: it is code, so nobody else may have written it."""
    if not file:
        return "it is not known which file this pipeline came from; run it once more"
    if not Path(file).is_file():
        return f"the pipeline's file {file} is not on this machine; run penstock page where it is"
    for path in _trusted(Path(file), storage):
        if who := others_can_write(path):
            return f"{path} can be changed by other users: {who}, and a pipeline is code; run chmod go-w {path}"
    return ""


def _trusted(file: Path, storage: str) -> Iterator[Path]:
    """What decides which code runs: the storage names the file, which imports Python files of its folder."""
    if "://" not in storage:
        yield Path(storage)
    folder = file.parent
    # The file may be a link into another folder.
    yield from (file, file.resolve().parent, folder, *sorted(folder.glob("*.py")))
    for package in sorted({each.parent for each in folder.glob("*/*.py")}):
        yield from (package, *sorted(package.glob("*.py")))


def _refused(status: int, says: str) -> Response:
    return PlainTextResponse(says, status)
