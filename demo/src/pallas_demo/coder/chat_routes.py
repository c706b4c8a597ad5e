"""Coder's chats (`/api/v2/chats`), which it has since 2.37 in place of tasks and AgentAPI.

Coder's own agent works in a workspace. Here that is the program of the workspace, whose terminal nobody else reaches.
"""

from functools import partial
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pallas_demo.coder.answers import NOT_FOUND, Body, Refusal, number_of, read, uuid_of
from pallas_demo.coder.terminal import Refused, Terminal
from pallas_demo.coder.views import Json
from pallas_demo.coder.workspace_routes import Uuid
from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import ORGANISATION, USER, USER_NAME, Chat


class Part(Body):
    """A part of a prompt."""

    type: str = "text"
    text: str = ""


class CreateChat(Body):
    """The body that makes a chat with its first prompt."""

    organization_id: Uuid = ""
    workspace_id: Uuid = ""
    content: Annotated[list[Part], Field(default_factory=list)]
    labels: Annotated[dict[str, str], Field(default_factory=dict)]


class CreateMessage(Body):
    """The body that sends a prompt."""

    content: Annotated[list[Part], Field(default_factory=list)]


class UpdateChat(Body):
    """The body that archives a chat."""

    archived: bool = False


class Chats:
    """The handlers."""

    def __init__(self, workspaces: Workspaces) -> None:
        self.all = workspaces

    def routes(self) -> list[BaseRoute]:
        """What is below `/chats`."""
        get, post, patch = (partial(Route, methods=[method]) for method in ("GET", "POST", "PATCH"))
        return [
            get("/chats", self.chats),
            post("/chats", self.create),
            get("/chats/{chat}", self.chat),
            patch("/chats/{chat}", self.update),
            get("/chats/{chat}/messages", self.messages),
            post("/chats/{chat}/messages", self.say),
            post("/chats/{chat}/interrupt", self.interrupt),
        ]

    def terminal(self, chat: Chat) -> Terminal | None:
        """The program of its workspace, if that is on."""
        running = self.all.running.get(chat.workspace)
        return running.terminal if running is not None and running.terminal.exit_code is None else None

    def show(self, chat: Chat) -> Json:
        """A chat as it is now."""
        terminal = self.terminal(chat)
        return {
            "id": chat.id, "organization_id": ORGANISATION, "owner_id": USER, "owner_username": USER_NAME,
            "workspace_id": chat.workspace, "title": chat.title, "labels": chat.labels, "archived": chat.archived,
            "status": "running" if terminal is not None and terminal.status == "running" else "waiting",
            "last_error": None, "created_at": chat.created_at, "updated_at": chat.created_at, "children": [],
            "mcp_server_ids": [], "has_unread": False, "client_type": "api", "pin_order": 0, "shared": False,
        }  # fmt: skip

    def found(self, request: Request) -> Chat:
        """The chat in the path. Raises Refusal."""
        chat = self.all.world.chats.get(uuid_of(request.path_params["chat"]))
        if chat is None:
            raise Refusal(404, NOT_FOUND)
        return chat

    async def chats(self, request: Request) -> Response:
        wanted = [label.partition(":") for label in request.query_params.getlist("label")]
        alive = [one for one in self.all.world.chats.values() if not one.archived]
        found = [one for one in alive if all(one.labels.get(key) == value for key, _, value in wanted)]
        return JSONResponse([self.show(one) for one in found])

    async def create(self, request: Request) -> Response:
        wanted = await read(request, CreateChat)
        if wanted.organization_id != ORGANISATION:
            raise Refusal(400, "Invalid organization ID.")
        workspace = self.all.world.workspaces.get(wanted.workspace_id)
        if workspace is None or workspace.deleted:
            raise Refusal(400, "Workspace not found or you do not have access to this resource")
        text = _text(wanted.content)
        chat = Chat(workspace=workspace.id, labels=wanted.labels, title=text[:80])
        await self._type(chat, text)
        self.all.world.chats[chat.id] = chat
        self.all.touch()
        return JSONResponse(self.show(chat), 201)

    async def chat(self, request: Request) -> Response:
        return JSONResponse(self.show(self.found(request)))

    async def update(self, request: Request) -> Response:
        self.found(request).archived = (await read(request, UpdateChat)).archived
        self.all.touch()
        return Response(status_code=204)

    async def messages(self, request: Request) -> Response:
        chat = self.found(request)
        terminal, limit = self.terminal(chat), number_of(request, "limit") or 50
        shown = [_message(chat, one) for one in (terminal.messages if terminal else ()) if one["content"]]
        return JSONResponse({"messages": shown[::-1][:limit], "queued_messages": [], "has_more": len(shown) > limit})

    async def say(self, request: Request) -> Response:
        chat = self.found(request)
        await self._type(chat, _text((await read(request, CreateMessage)).content))
        terminal = self.terminal(chat)
        messages = terminal.messages if terminal else []
        last = next(one for one in reversed(messages) if one["role"] == "user")
        return JSONResponse({"queued": False, "message": _message(chat, last)})

    async def interrupt(self, request: Request) -> Response:
        chat = self.found(request)
        if (terminal := self.terminal(chat)) is not None:
            await terminal.press("\x1b")
        return JSONResponse(self.show(chat))

    async def _type(self, chat: Chat, text: str) -> None:
        terminal = self.terminal(chat)
        if terminal is None:
            raise Refusal(409, "The workspace of the chat is not running.")
        try:
            await terminal.send(text)
        except Refused as refused:
            raise Refusal(409, "The chat takes no message now.", str(refused)) from None


def _text(content: list[Part]) -> str:
    text = "".join(part.text for part in content if part.type == "text")
    if not text.strip():
        raise Refusal(400, "Content is required.")
    return text


def _message(chat: Chat, one: dict[str, Any]) -> Json:
    role = {"user": "user", "agent": "assistant"}[one["role"]]
    content = [{"type": "text", "text": one["content"]}]
    return {"id": one["id"] + 1, "chat_id": chat.id, "created_at": one["time"], "role": role, "content": content}
