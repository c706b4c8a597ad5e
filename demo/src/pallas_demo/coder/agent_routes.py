"""Coder's REST API: the metadata of workspace agents, and what coding agents say of themselves."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pallas_demo.coder.answers import NOT_FOUND, Body, Refusal, read, uuid_of
from pallas_demo.coder.terminal import now
from pallas_demo.coder.views import Json
from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import APP, AppStatus, State, Workspace


class Report(Body):
    """What a coding agent says of itself."""

    app_slug: str = ""
    state: Literal["working", "idle", "complete", "failure"] = "working"
    message: str = ""
    uri: str = ""
    icon: str = ""
    needs_user_attention: bool = False


class Agents:
    """The handlers."""

    def __init__(self, workspaces: Workspaces) -> None:
        self.all = workspaces

    def routes(self) -> list[BaseRoute]:
        """What is below `/api/v2/workspaceagents`."""
        return [
            Route("/{agent}/watch-metadata", self.metadata),
            WebSocketRoute("/{agent}/watch-metadata-ws", self.metadata_socket),
            Route("/me/app-status", self.app_status, methods=["PATCH"]),
        ]

    def _of_agent(self, id_: str) -> Workspace:
        id_ = uuid_of(id_)
        alive = (one for one in self.all.world.workspaces.values() if not one.deleted)
        found = next((one for one in alive if one.agent == id_ and self.all.agent(one)), None)
        if found is None:
            raise Refusal(404, NOT_FOUND)
        return found

    def _metadata(self, workspace: Workspace) -> list[Json]:
        """The values that a script of the template reads in the workspace, as `n/a` when there are none."""
        notes = self.all.folder(workspace) / ".demo-agent" / "pull_request"
        lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
        url, status, checks = (*(lines[-1] if lines else "").split(" ", 2), "", "", "")[:3]
        values = {
            "8_pull_request_url": url, "9_pull_request_status": status or (url and "open"),
            "10_pull_request_check_status": checks or (url and "pending"), "11_agent_spec": workspace.spec[:2048],
        }  # fmt: skip
        return [
            {
                "result": {"collected_at": now(), "age": 0, "value": value or "n/a", "error": ""},
                "description": {
                    "display_name": key.partition("_")[2].replace("_", " ").title(), "key": key, "script": "true",
                    "interval": 10, "timeout": 1,
                },
            }
            for key, value in values.items()
        ]  # fmt: skip

    async def _changes(self, workspace: Workspace) -> AsyncGenerator[tuple[str, object]]:
        """The metadata at once and when it changed, with a ping where nothing happens for long."""
        before: list[str] = []
        while self.all.agent(workspace):
            found = self._metadata(workspace)
            if (values := [one["result"]["value"] for one in found]) != before:
                before = values
                yield "data", found
            else:
                yield "ping", None
            try:
                async with asyncio.timeout(15), self.all.changed:
                    await self.all.changed.wait()
            except TimeoutError:
                continue

    async def metadata(self, request: Request) -> Response:
        workspace = self._of_agent(request.path_params["agent"])

        async def lines() -> AsyncGenerator[str]:
            async for kind, data in self._changes(workspace):
                yield f"event: {kind}\n" + (f"data: {json.dumps(data)}\n\n" if data is not None else "\n")

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    async def metadata_socket(self, socket: WebSocket) -> None:
        try:
            workspace = self._of_agent(socket.path_params["agent"])
        except Refusal as refusal:
            return await socket.send_denial_response(JSONResponse(refusal.body, refusal.status))
        await socket.accept()
        try:
            async for kind, data in self._changes(workspace):
                await socket.send_json({"type": kind, "data": data})
        except WebSocketDisconnect:
            return None

    async def app_status(self, request: Request) -> Response:
        token = request.headers.get("coder-session-token", "")
        workspace = next((one for one in self.all.world.workspaces.values() if one.token == token), None)
        if workspace is None:
            raise Refusal(401, "Agent token is invalid.", "The workspace agent token is not valid.")
        wanted = await read(request, Report)
        if wanted.app_slug != APP:
            raise Refusal(400, "Failed to get workspace app.", f'No app found with slug "{wanted.app_slug}"')
        if len(wanted.message) > 160:
            text = "Message must be less than 160 characters."
            raise Refusal(400, "Message is too long.", text, message=text)
        state: State = wanted.state
        status = AppStatus(state=state, **wanted.model_dump(exclude={"app_slug", "state"}))
        self.all.report(workspace, status)
        return JSONResponse({"message": "App status updated."})
