"""Rows as the API shows them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from sqlalchemy import CTE, ColumnElement, Row, false, func, true

from workspaces.answers import ConversationView, ImageView, MessageView, QuestionView
from workspaces.live.hub import json_object, quoted
from workspaces.tables import ChatMessage, Conversation

RUNNING = ("sending", "asking")
"""The states of a reply that an agent is called for."""
IS_RUNNING = ChatMessage.status.in_([quoted(one) for one in RUNNING])
"""The same in a statement, without parameters."""
_MOMENT = quoted('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
_UTC = quoted("UTC")


def conversation_topic(conversation_id: str) -> str:
    """The topic of what happens in a conversation."""
    return f"conversation:{conversation_id}"


def conversation_view(row: Conversation, *, answering: bool) -> ConversationView:
    """A conversation."""
    view = ConversationView.model_validate(row, from_attributes=True)
    return view.model_copy(update={"answering": answering})


def conversation_json(row: CTE, *, answering: bool) -> ColumnElement[Any]:
    """The JSON of `conversation_view`, as Postgres makes it."""
    shown: dict[str, Any] = {name: row.c[name] for name in ("id", "workspace_id", "title", "root_id")}
    shown |= {name: func.to_char(func.timezone(_UTC, row.c[name]), _MOMENT) for name in ("created_at", "updated_at")}
    return json_object(**shown, answering=true() if answering else false())


def message_view(row: ChatMessage | Row[Any], images: Sequence[ImageView] = ()) -> MessageView:
    """A message, with the question of a reply that is not over."""
    shown = {name: getattr(row, name) for name in MessageView.model_fields if name != "images"}
    shown["question"] = _question(row.question) if row.status == "asking" and row.question is not None else None
    return MessageView.model_validate({**shown, "images": tuple(images)})


def fields_of(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a form, by name. An agent's schema may be malformed."""
    found = (schema or {}).get("properties")
    return found if _is_object(found) else {}


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


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
