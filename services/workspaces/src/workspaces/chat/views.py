"""Rows as the API shows them."""

from collections.abc import Sequence

from workspaces.answers import ConversationView, ImageView, MessageView, ProgressView, QuestionView
from workspaces.tables import ChatMessage, Conversation

RUNNING = ("sending", "asking")
"""The states of a reply that an agent is called for."""


def conversation_topic(conversation_id: str) -> str:
    """The topic of what happens in a conversation."""
    return f"conversation:{conversation_id}"


def conversation_view(row: Conversation, *, answering: bool) -> ConversationView:
    """A conversation."""
    return ConversationView(
        id=row.id,
        workspace_id=row.workspace_id,
        title=row.title,
        created_at=row.created_at,
        updated_at=row.updated_at,
        answering=answering,
    )


def message_view(row: ChatMessage, images: Sequence[ImageView] = ()) -> MessageView:
    """A message. Progress and question are those of a reply that is not over."""
    running = row.status in RUNNING
    return MessageView(
        id=row.id,
        conversation_id=row.conversation_id,
        seq=row.seq,
        revision=row.revision,
        role="user" if row.role == "user" else "assistant",
        content=row.content,
        status=row.status,  # pyright: ignore[reportArgumentType] - a constraint of the table
        created_at=row.created_at,
        ended_at=row.ended_at,
        images=tuple(images),
        agent_instance_id=row.agent_instance_id,
        agent_server_id=row.agent_server_id,
        agent_title=row.agent_title,
        error_code=row.error_code,
        error=row.error,
        turn_id=row.turn_id,
        usage=row.usage,
        progress=ProgressView.model_validate(row.progress) if running and row.progress else None,
        question=QuestionView.model_validate(row.question) if row.status == "asking" and row.question else None,
        remembers_from=row.remembers_from,
        attempt=row.attempt,
    )
