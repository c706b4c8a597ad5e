"""Rows as the API shows them."""

from collections.abc import Sequence

from workspaces.answers import ConversationView, ImageView, MessageView
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
    running, asking = row.status in RUNNING, row.status == "asking"
    shown = {name: getattr(row, name) for name in MessageView.model_fields if name != "images"}
    shown |= {"progress": row.progress if running else None, "question": row.question if asking else None}
    return MessageView.model_validate({**shown, "images": tuple(images)})
