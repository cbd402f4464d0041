"""The routes of the page. GET changes nothing; POST also needs a CSRF token."""

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

from penstock.page.explore import BusyError, Previews
from penstock.page.guard import Guard, PageToken, log_loop_error
from penstock.page.live import Live, message
from penstock.storage.files import find_other_writers
from penstock.watch.board import NAME, Board
from penstock.watch.metrics import CONTENT_TYPE, prometheus

_CONTENT_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
}
_KEEP_ALIVE_SECONDS = 15.0
_MAX_SQL_CHARS = 20_000
_HOW_TO_LOG_IN = "open the link that penstock printed, or add #token= and the content of the file that it named"
_COOKIE_SECONDS = 30 * 86_400


def app(
    storage: str,
    token: str,
    *,
    only: str = "",
    names: tuple[str, ...] = (),
    secure: bool = False,
    max_viewers: int = 64,
) -> Guard:
    """The page of a storage, or of one of its pipelines; every request needs the token."""
    page = Page(Live(Board(storage, only), max_viewers), Previews(), PageToken(token), secure)
    return Guard(page.starlette(), names, secure)


@dataclass
class Page:
    """The routes and what they share."""

    live: Live
    previews: Previews
    token: PageToken
    secure: bool = False

    def starlette(self) -> Starlette:
        """The app without the guard."""
        routes = [
            Route("/", self._static("index.html")),
            *(Route(f"/static/{name}", self._static(name)) for name in _files() if name != "index.html"),
            Route("/login", self.login, methods=["POST"]),
            Route("/metrics", self._require_token(self.metrics)),
            Route("/api/session", self._require_token(self.session)),
            Route("/api/stream", self._require_token(self.stream)),
            Route("/api/explore", self._require_token(self.start_preview), methods=["POST"]),
            Route("/api/explore/{number}", self._require_token(self.stream_rows)),
            Route("/api/explore/{number}/stop", self._require_token(self.stop_preview), methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        refresh = asyncio.create_task(self.live.run())
        try:
            yield
        finally:
            refresh.cancel()
            await self.previews.close()

    async def login(self, request: Request) -> Response:
        """Exchange the token for a cookie that scripts cannot read."""
        content = await _read_json(request)
        if content is None or not self.token.matches(str(content.get("token", ""))):
            return _reject(401, f"wrong token; {_HOW_TO_LOG_IN}")
        response = JSONResponse({"csrf": self.token.csrf})
        response.set_cookie(
            _cookie_name(request),
            self.token.value,
            _COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self.secure,
        )
        return response

    async def session(self, _: Request) -> Response:
        """The CSRF token, which POST needs in addition to the cookie."""
        return JSONResponse({"csrf": self.token.csrf})

    async def metrics(self, _: Request) -> Response:
        """The metrics, for Prometheus."""
        return Response(prometheus(await self.live.views()), headers={"content-type": CONTENT_TYPE})

    async def stream(self, request: Request) -> Response:
        """The overview and one pipeline, as server-sent events."""
        name = request.query_params.get("pipeline", "")
        if name and not NAME.fullmatch(name):
            return _reject(404, "unknown pipeline")
        if self.live.is_full:
            return _reject(503, "too many viewers; close one of the pages")

        async def messages() -> AsyncIterator[bytes]:
            # Inside the generator: a client that disconnects before the first byte does not count as a viewer.
            async with self.live.subscribe(name) as viewer:
                while True:
                    try:
                        data = await asyncio.wait_for(viewer.queue.get(), _KEEP_ALIVE_SECONDS)
                    except asyncio.TimeoutError:
                        data = b": keep-alive\n\n"
                    if data is None:
                        return
                    yield data

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def start_preview(self, request: Request) -> Response:
        """Start a preview of a source, a step or a SELECT."""
        asked = await _read_json(request)
        if asked is None:
            return _reject(400, "send a JSON object")
        view = self.live.board.view(str(asked.get("pipeline", "")))
        if view is None:
            return _reject(404, "unknown pipeline")
        too_long = "the SELECT is too long" if len(str(asked.get("sql", ""))) > _MAX_SQL_CHARS else ""
        problem = too_long or _find_trust_problem(view.file, self.live.board.storage)
        if problem:
            return _reject(400, problem)
        preview = {
            "file": view.file,
            "step": str(asked.get("step", "")),
            "sql": str(asked.get("sql", "")),
            "start": "earliest" if asked.get("start") == "earliest" else "latest",
            "bad": asked.get("bad") is True,
        }
        try:
            return JSONResponse({"id": await self.previews.start(preview)})
        except BusyError:
            return _reject(429, f"{self.previews.limit} previews are running; stop one of them")

    async def stream_rows(self, request: Request) -> Response:
        """The rows of a preview; it ends when the client disconnects."""

        async def messages() -> AsyncIterator[bytes]:
            async for content in self.previews.messages(request.path_params["number"]):
                yield message(content.pop("what"), content)

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def stop_preview(self, request: Request) -> Response:
        """Stop a preview."""
        await self.previews.stop(request.path_params["number"])
        return JSONResponse({})

    def _require_token(self, route: Any) -> Any:
        """The route, only for requests with the token, and for POST only with the CSRF token."""

        async def check(request: Request) -> Response:
            if not any(self.token.matches(value) for value in _sent_tokens(request)):
                return _reject(401, f"this needs the token; {_HOW_TO_LOG_IN}")
            if request.method == "POST" and not self.token.matches_csrf(request.headers.get("x-penstock-csrf", "")):
                return _reject(403, "POST needs the CSRF token of /api/session in the header x-penstock-csrf")
            response: Response = await route(request)
            return response

        return check

    def _static(self, name: str) -> Any:
        content = resources.files("penstock.page").joinpath("static").joinpath(name).read_bytes()
        kind = f"{_CONTENT_TYPES[Path(name).suffix]}; charset=utf-8"

        async def file(_: Request) -> Response:
            return Response(content, headers={"content-type": kind})

        return file


def _files() -> list[str]:
    return sorted(file.name for file in resources.files("penstock.page").joinpath("static").iterdir())


def _sent_tokens(request: Request) -> list[str]:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    cookie = request.cookies.get(_cookie_name(request), "")
    return [value for value in (cookie, bearer if kind.lower() == "bearer" else "") if value]


def _cookie_name(request: Request) -> str:
    # Cookies ignore the port, and several pages may run on one machine.
    return f"penstock-{request.url.port or 0}"


async def _read_json(request: Request) -> dict[str, Any] | None:
    # A form on another site can be posted here, but not with this content type.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        content = json.loads(await request.body())
        # A lone surrogate could not be encoded later.
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _find_trust_problem(file: str, storage: str) -> str:
    """Why a pipeline's file must not be run: it is code, so other users must not be able to write it."""
    if not file:
        return "the file of this pipeline is unknown; run it again"
    if not Path(file).is_file():
        return f"the pipeline's file {file} is not on this machine; run penstock page where it is"
    for path in _paths_to_check(Path(file), storage):
        if who := find_other_writers(path):
            return f"{path} can be changed by other users: {who}, and a pipeline is code; run chmod go-w {path}"
    return ""


def _paths_to_check(file: Path, storage: str) -> Iterator[Path]:
    """What decides which code runs: the storage names the file, and the file imports from its folder."""
    if "://" not in storage:
        yield Path(storage)
    folder = file.parent
    # The file may be a symbolic link into another folder.
    yield from (file, file.resolve().parent, folder, *sorted(folder.glob("*.py")))
    for package in sorted({module.parent for module in folder.glob("*/*.py")}):
        yield from (package, *sorted(package.glob("*.py")))


def _reject(status: int, message: str) -> Response:
    return PlainTextResponse(message, status)
