"""Rows as the API shows them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from workspaces.answers import ConversationView, ImageView, MessageView, QuestionView
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
    asked = _question(row.question) if asking and row.question is not None else None
    shown |= {"progress": row.progress if running else None, "question": asked}
    return MessageView.model_validate({**shown, "images": tuple(images)})


def fields_of(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a form, by name. An agent's schema may be malformed."""
    found: Any = (schema or {}).get("properties")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _question(stored: Mapping[str, Any]) -> QuestionView:
    """What an agent asks, with the fields of the form in the agent's order."""
    question = QuestionView.model_validate(stored)
    fields = fields_of(question.requested_schema)
    if not fields:
        return question
    ordered = {name: fields[name] for name in stored.get("fields", ()) if name in fields} | fields
    return question.model_copy(
        update={"requested_schema": {**(question.requested_schema or {}), "properties": ordered}}
    )
