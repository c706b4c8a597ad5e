"""Coder's chats, which it has in place of tasks since 2.37: its own agent works in a workspace, without a terminal.

A chat is used as the terminal of its workspace. The first prompt makes it, with a label by which it is found again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, override

from pydantic import BaseModel, Field, TypeAdapter

from fleet.coder.model import Listed, Moment, Text, Workspace
from fleet.coder.rest import Rest, segment
from fleet.reaching.peer import NotSent
from fleet.terminal.agent_api import Said, Status, Terminal, Trouble
from pallas_contracts.errors import Conflict, Unavailable

PLACES = "api/v2/chats", "api/experimental/chats"
"""Where chats are, and where they were before 2.37."""

LABEL = "pallas-workspace"
_WORKS = frozenset({"pending", "running", "interrupting"})
_ROLES: dict[str, Literal["user", "agent"]] = {"user": "user", "assistant": "agent"}
_LATEST = 200
_POLL_SECONDS = 1.0
_UNANSWERED_SECONDS = 30.0
"""Seconds in which Coder takes up a prompt, while it says that the chat waits."""

_ASK_AGAIN = 60.0


class _Part(BaseModel):
    type: Text = ""
    text: Text = ""


class _Message(BaseModel):
    id: int
    role: Text = ""
    content: Listed[_Part] = ()
    at: Moment = Field(validation_alias="created_at")


class _Messages(BaseModel):
    messages: Listed[_Message] = ()


class _Error(BaseModel):
    message: Text = ""


class _Chat(BaseModel):
    id: str
    status: Text = ""
    archived: bool = False
    last_error: _Error | None = None


_ONE, _MESSAGES, _ANYTHING = TypeAdapter(_Chat), TypeAdapter(_Messages), TypeAdapter[Any](Any)
_ALL: TypeAdapter[tuple[_Chat, ...]] = TypeAdapter(Listed[_Chat])


class Chats:
    """Where a Coder has its chats."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._asked = float("-inf")
        self.place: str | None = None

    async def learn(self) -> None:
        """Find out whether there are chats, unless that is known. A Coder that is updated is asked again.

        Raises:
            Unavailable: Coder does not answer.
        """
        if self.place is not None or time.monotonic() < self._asked + _ASK_AGAIN:
            return
        for place in PLACES:
            if (await self._rest.send("GET", place, params={"limit": 1})).status == 200:
                self.place = place
                break
        self._asked = time.monotonic()


@dataclass(frozen=True, slots=True)
class ChatTerminal(Terminal):
    """The chat of a workspace, at `place`."""

    rest: Rest
    place: str
    workspace: Workspace

    @override
    async def status(self) -> Literal["running", "stable"]:
        chat = await self._chat()
        return "running" if chat is not None and chat.status in _WORKS else "stable"

    @override
    async def messages(self) -> list[Said]:
        chat = await self._chat()
        return await self._said(chat) if chat is not None else []

    @override
    async def say(self, text: str) -> None:
        chat, content = await self._chat(), [{"type": "text", "text": text}]
        if chat is not None and chat.status in _WORKS:  # it would be queued, and could not be stopped
            raise Conflict(f"The chat of {self.whose} is working and takes no prompt.", code="terminal_busy")
        path, body = (
            self.place,
            {
                "organization_id": self.workspace.organization_id,
                "workspace_id": self.workspace.id,
                "labels": {LABEL: self.workspace.id},
                "content": content,
            },
        )
        if chat is not None:
            path, body = f"{self.place}/{segment(chat.id)}/messages", {"content": content}
        try:
            await self.rest.post(path, body, _ANYTHING, taken="terminal_busy")
        except NotSent:
            raise
        except Unavailable as error:
            if (error.facts.get("status") or 500) in range(300, 500):
                raise
            raise Unavailable(error.message, code="uncertain", **error.facts) from error

    @override
    async def press(self, keys: str) -> None:
        """Interrupt the agent: a chat has no other keys."""
        if (chat := await self._chat()) is not None:
            answer = await self.rest.send("POST", f"{self.place}/{segment(chat.id)}/interrupt")
            if answer.status >= 300 and answer.status != 409:  # it waits already
                raise self.rest.refused(answer)

    @override
    async def events(self, *, gather: float = _POLL_SECONDS) -> AsyncGenerator[Said | Status | Trouble]:
        shown, before = dict[int, str](), ""
        while True:
            chat = await self._chat()
            said = await self._said(chat) if chat is not None else []
            for each in said:
                if shown.get(each.id) != each.text:
                    shown[each.id] = each.text
                    yield each
            works = chat is not None and (chat.status in _WORKS or (chat.status == "waiting" and _unanswered(said)))
            if chat is not None and chat.status == "error" and before == "running":
                yield Trouble(message=chat.last_error.message if chat.last_error else "the chat has failed")
            now: Literal["running", "stable"] = "running" if works else "stable"
            if now != before:
                before = now
                yield Status(status=now)
            await asyncio.sleep(max(gather, _POLL_SECONDS))

    async def archive(self) -> None:
        """Put the chat away: its workspace is gone."""
        if (chat := await self._chat()) is not None:
            await self.rest.send("PATCH", f"{self.place}/{segment(chat.id)}", body={"archived": True})

    async def _chat(self) -> _Chat | None:
        found = await self.rest.have(self.place, _ALL, {"label": f"{LABEL}:{self.workspace.id}"})
        return next((chat for chat in found if not chat.archived), None)

    async def _said(self, chat: _Chat) -> list[Said]:
        path = f"{self.place}/{segment(chat.id)}/messages"
        found = await self.rest.have(path, _MESSAGES, {"limit": _LATEST})
        known = [
            Said(id=it.id, role=role, text="".join(part.text for part in it.content if part.type == "text"), at=it.at)
            for it in found.messages
            if (role := _ROLES.get(it.role)) is not None
        ]
        return sorted((it for it in known if it.text), key=lambda it: it.id)


def _unanswered(said: list[Said]) -> bool:
    """Whether Coder may still take up the last prompt."""
    if not said or said[-1].role != "user":
        return False
    return (datetime.now(UTC) - said[-1].at).total_seconds() < _UNANSWERED_SECONDS
