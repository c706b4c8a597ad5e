"""AgentAPI (version 0.12) over one terminal: status, messages, keystrokes, events, uploads; errors as it words them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pallas_demo.coder.terminal import Refused, Terminal

UPLOAD_LIMIT = 10 << 20
_TITLES = {
    400: "Bad Request",
    413: "Request Entity Too Large",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
}


class Problem(Exception):
    """An answer in AgentAPI's form of errors."""

    def __init__(self, status: int, detail: str, *errors: dict[str, Any]) -> None:
        self.status, self.detail, self.errors = status, detail, list(errors)


def agent_api(terminal: Terminal) -> ASGIApp:
    """The application that serves a terminal."""
    app = Starlette(
        routes=[
            Route("/status", _status),
            Route("/messages", _messages),
            Route("/message", _message, methods=["POST"]),
            Route("/events", _events),
            Route("/internal/screen", _screen),
            Route("/upload", _upload, methods=["POST"]),
        ],
        exception_handlers={Problem: _problem, 404: _no_page, 405: _no_method},
    )
    app.router.redirect_slashes = False
    app.state.terminal = terminal

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        allowed = terminal.settings.allowed_hosts
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if "*" not in allowed and name.lower() not in allowed:
            answer = PlainTextResponse(f"Invalid host header. Allowed hosts: {', '.join(allowed)}\n", 400)
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


def _body(request: Request, schema: str, fields: dict[str, Any], status: int = 200) -> Response:
    kind = "application/json" if status == 200 else "application/problem+json"
    address = f"http://{request.headers.get('host', 'localhost')}/schemas/{schema}.json"
    return JSONResponse({"$schema": address} | fields, status, media_type=kind)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    fields = {"title": _TITLES[error.status], "status": error.status, "detail": error.detail, "errors": error.errors}
    return _body(request, "ErrorModel", fields, error.status)


async def _no_page(request: Request, error: Exception) -> Response:
    return PlainTextResponse("404 page not found\n", 404)


async def _no_method(request: Request, error: Exception) -> Response:
    return Response(status_code=405, headers=error.headers if isinstance(error, HTTPException) else None)


async def _status(request: Request) -> Response:
    terminal: Terminal = request.app.state.terminal
    fields = {"status": terminal.status, "agent_type": terminal.settings.agent_type, "transport": "pty"}
    return _body(request, "StatusResponseBody", fields)


async def _messages(request: Request) -> Response:
    return _body(request, "MessagesResponseBody", {"messages": request.app.state.terminal.messages})


async def _message(request: Request) -> Response:
    terminal: Terminal = request.app.state.terminal
    fields = await _wanted(request)
    try:
        if fields["type"] == "raw":
            await terminal.press(fields["content"])
        else:
            await terminal.send(fields["content"])
    except Refused as refused:
        raise Problem(500, "unexpected error occurred", {"message": f"failed to send message: {refused}"}) from None
    return _body(request, "MessageResponseBody", {"ok": True})


async def _wanted(request: Request) -> dict[str, Any]:
    """The body of a message, or a Problem that lists what is wrong."""
    raw = await request.body()
    if not raw:
        raise Problem(400, "request body is required")
    try:
        given: Any = json.loads(raw)
        raw.decode()
    except ValueError as error:
        raise Problem(400, "validation failed", {"message": str(error), "location": "body"}) from None
    wrong: list[dict[str, Any]] = []
    if not issubclass(type(given), dict):
        raise Problem(422, "validation failed", {"message": "expected object", "location": "body", "value": given})
    fields: dict[str, Any] = given
    for name in ("content", "type"):
        if name not in fields:
            text = f"expected required property {name} to be present"
            wrong.append({"message": text, "location": "body", "value": fields})
        elif not isinstance(fields[name], str):
            wrong.append({"message": "expected string", "location": f"body.{name}", "value": fields[name]})
    if isinstance(fields.get("type"), str) and fields["type"] not in ("user", "raw"):
        wrong.append({"location": "body.type", "value": fields["type"]})
    for name in fields.keys() - {"content", "type", "$schema"}:
        wrong.append({"message": "unexpected property", "location": f"body.{name}", "value": fields})
    if "$schema" in fields and not isinstance(fields["$schema"], str):
        wrong.append({"message": "expected string", "location": "body.$schema", "value": fields["$schema"]})
    if wrong:
        raise Problem(422, "validation failed", *wrong)
    return fields | {"content": fields["content"].encode(errors="replace").decode()}  # half a surrogate pair


async def _events(request: Request) -> Response:
    return _stream(request.app.state.terminal, "message_update", "status_change", "agent_error")


async def _screen(request: Request) -> Response:
    return _stream(request.app.state.terminal, "screen_update")


def _stream(terminal: Terminal, *wanted: str) -> Response:
    async def lines() -> AsyncGenerator[str]:
        async for name, data in terminal.events(*wanted):
            yield f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'), ensure_ascii=False)}\n\n"
            await asyncio.sleep(0)  # a client that is gone is noticed before the next of many events

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _upload(request: Request) -> Response:
    terminal: Terminal = request.app.state.terminal
    if int(request.headers.get("content-length") or 0) > UPLOAD_LIMIT + 4096:
        raise Problem(413, "file size exceeds 10MB limit")
    content, name = await _file(request)
    folder = terminal.folder / ".uploads" / uuid4().hex
    folder.mkdir(parents=True)
    path = folder / (name.replace("\x00", "").rpartition("/")[2].strip(".")[-100:] or "upload")
    path.write_bytes(content)
    return _body(request, "UploadResponseBody", {"ok": True, "filePath": str(path)})


async def _file(request: Request) -> tuple[bytes, str]:
    """The file of a form, and its name. Raises Problem."""
    try:
        async with request.form() as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Problem(422, "validation failed", {"message": "File required", "location": "file"})
            content = await file.read()
    except HTTPException as error:
        raise Problem(422, "validation failed", {"message": error.detail, "location": "body"}) from None
    if len(content) > UPLOAD_LIMIT:
        raise Problem(413, "file size exceeds 10MB limit")
    return content, file.filename or ""
