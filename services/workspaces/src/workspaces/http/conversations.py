"""Routes of conversations."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from workspaces.answers import ConversationPage, ConversationView, FoundConversations, MessagePage
from workspaces.chat.conversations import LONGEST_TITLE
from workspaces.http.fields import Body, Name, PlainId, Words, WorkspaceId
from workspaces.http.parts import Parts

MOST_LISTED = 200

type Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]
type Cursor = Annotated[str, Query(max_length=100)]
type SomeWorkspace = Annotated[PlainId, Query()]
type Seq = Annotated[int, Query(ge=1, le=2**31 - 1)]


class NewConversation(Body):
    """A conversation to create. Without a title it gets one from its first message."""

    title: Annotated[Name | None, Field(description=f"at most {LONGEST_TITLE} characters")] = None
    id: UUID | None = None


class ConversationChange(Body):
    """The new title of a conversation."""

    title: Name


def conversations_router(parts: Parts) -> APIRouter:
    """The routes."""
    chat = parts.chat
    router = APIRouter(tags=["conversations"])

    @router.get("/workspaces/{workspace_id}/conversations")
    async def list_conversations(
        workspace_id: WorkspaceId, before: Cursor | None = None, limit: Limit = 50
    ) -> ConversationPage:
        """Conversations of a workspace, the latest first."""
        return await chat.conversations.page(workspace_id, before, limit)

    @router.post("/workspaces/{workspace_id}/conversations", status_code=201)
    async def create(workspace_id: WorkspaceId, body: NewConversation) -> ConversationView:
        """Create a conversation. The same `id` again is the same conversation."""
        conversation_id = str(body.id) if body.id is not None else None
        return await chat.conversations.create(workspace_id, body.title or "", conversation_id)

    @router.get("/search")
    async def search(words: Words, workspace_id: SomeWorkspace | None = None, limit: Limit = 20) -> FoundConversations:
        """Conversations of all workspaces, or of one, whose title or messages have a text."""
        return await chat.conversations.search(words.strip(), workspace_id, limit)

    @router.get("/conversations/{conversation_id}")
    async def show(conversation_id: UUID, before: Seq | None = None, limit: Limit = 50) -> MessagePage:
        """A conversation with its latest messages, or with those before a `seq`."""
        return await chat.reading.page(str(conversation_id), before, limit)

    @router.patch("/conversations/{conversation_id}")
    async def rename(conversation_id: UUID, body: ConversationChange) -> ConversationView:
        """Give a conversation another title."""
        return await chat.conversations.rename(str(conversation_id), body.title)

    @router.delete("/conversations/{conversation_id}", status_code=204)
    async def delete(conversation_id: UUID) -> None:
        """Delete a conversation. If an agent is answering in it, the call is cancelled."""
        await chat.conversations.delete(str(conversation_id))

    return router
