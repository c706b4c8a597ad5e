"""Routes of messages, and of what a person decides about replies."""

import asyncio
from typing import Annotated, Literal, Self
from uuid import UUID, uuid4

from fastapi import APIRouter
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from starlette.responses import Response

from workspaces.answers import MessageView, Sent
from workspaces.chat.choosing import Wanted
from workspaces.chat.images import MOST_IMAGES, pictures_of, read_image
from workspaces.chat.model import NewMessage
from workspaces.chat.sending import LONGEST_TEXT
from workspaces.http.fields import Body, PlainId
from workspaces.http.parts import Parts

FOR_EVER = "private, max-age=31536000, immutable"


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain NUL")
    return value


type Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_storable)]
type Number = Annotated[float, Field(allow_inf_nan=False)]
type Value = Text | bool | int | Number | list[Text] | None
"""What MCP allows as the value of a field."""
type Id = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]


class NewImage(Body):
    """An image. Its type is read from its data, whatever `mime_type` says."""

    data: Annotated[str, Field(description="base64")]
    mime_type: Annotated[str, Field(max_length=100)] | None = None


class SendMessage(Body):
    """A message to an agent. Choose `id` to be able to send it again without sending it twice.

    With `workspace_id` it may be the first one of a conversation that is made with it, in that workspace. Choose the
    conversation's id, too.
    """

    images: Annotated[tuple[NewImage, ...], Field(max_length=MOST_IMAGES)] = ()
    text: Text
    agent_server_id: Id
    agent_instance_id: Id | None = None
    id: UUID | None = None
    workspace_id: PlainId | None = None

    @field_validator("text")
    @classmethod
    def says_something(cls, text: str, others: ValidationInfo) -> str:
        """There is a text, or an image."""
        if not text.strip() and others.data.get("images") == ():
            raise ValueError("must not be empty without images")
        return text


class Retry(Body):
    """Another agent to call, or the same one. `confirmed`: although something may be done twice."""

    agent_server_id: Id | None = None
    agent_instance_id: Id | None = None
    confirmed: bool = False

    @model_validator(mode="after")
    def names_an_agent(self) -> Self:
        """An instance alone names no agent."""
        if self.agent_server_id is None and self.agent_instance_id is not None:
            raise ValueError("agent_server_id: must be given with agent_instance_id")
        return self

    def wanted(self) -> Wanted | None:
        """The agent that is named."""
        return Wanted(self.agent_server_id, self.agent_instance_id) if self.agent_server_id is not None else None


class Branch(Body):
    """What to ask in a branch; without `text` the same again. Choose `id` to be able to send it again.

    `confirmed`: although something may be done twice.
    """

    agent_server_id: Id
    agent_instance_id: Id | None = None
    text: Text | None = None
    id: UUID | None = None
    confirmed: bool = False

    @field_validator("text")
    @classmethod
    def says_something(cls, text: str | None) -> str | None:
        """A text is not blank."""
        if text is not None and not text.strip():
            raise ValueError("must not be empty")
        return text


class Answer(Body):
    """The answer to an agent's question. With `question_id` it is refused if another question is asked by now."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[Text, Value] | None = None
    question_id: Annotated[str, Field(max_length=200)] | None = None


def messages_router(parts: Parts) -> APIRouter:
    """The routes."""
    chat = parts.chat
    router = APIRouter(tags=["messages"])

    @router.post("/conversations/{conversation_id}/messages", status_code=202)
    async def send(conversation_id: UUID, body: SendMessage) -> Sent:
        """Send a message to an agent. `events` will bring the reply."""
        encoded = [image.data for image in body.images]
        pictures = await asyncio.to_thread(pictures_of, encoded) if encoded else ()
        wanted = Wanted(body.agent_server_id, body.agent_instance_id)
        message = NewMessage(str(body.id or uuid4()), body.text, pictures, wanted)
        return await chat.sending.send(str(conversation_id), message, body.workspace_id)

    @router.post("/messages/{reply_id}/cancel")
    async def cancel(reply_id: UUID) -> MessageView:
        """End a reply, whichever replica calls its agent."""
        return await chat.deciding.cancel(str(reply_id))

    @router.post("/messages/{reply_id}/retry", status_code=202)
    async def retry(reply_id: UUID, body: Retry | None = None) -> Sent:
        """Call the agent again, or another one, for a reply that failed or was cancelled.

        If it may have done something already, this has to be `confirmed`: else 409, `needs_confirmation`.
        """
        given = body or Retry()
        return await chat.deciding.retry(str(reply_id), given.wanted(), confirmed=given.confirmed)

    @router.post("/messages/{message_id}/branch", status_code=202)
    async def branch(message_id: UUID, body: Branch) -> Sent:
        """Ask something else from a message on, or for another reply, in a branch: a conversation that begins the same.

        To ask the same again has to be `confirmed` if that may do something twice: else 409, `needs_confirmation`; or
        `answering`, while it is being answered.
        """
        if body.text is None and not body.confirmed:
            await chat.deciding.check_repetition(str(message_id))
        wanted = Wanted(body.agent_server_id, body.agent_instance_id)
        return await chat.sending.branch(str(message_id), str(body.id or uuid4()), body.text, wanted)

    @router.post("/messages/{reply_id}/answer")
    async def answer(reply_id: UUID, body: Answer) -> MessageView:
        """Answer what the agent asks. The first answer counts."""
        return await chat.deciding.answer(str(reply_id), body.question_id, body.action, body.content)

    @router.get("/images/{image_id}", response_class=Response)
    async def show_image(image_id: UUID) -> Response:
        """An image of a message. It never changes."""
        picture = await read_image(parts.engine, str(image_id))
        headers = {"cache-control": FOR_EVER, "x-content-type-options": "nosniff"}
        return Response(picture.data, media_type=picture.mime_type, headers=headers)

    return router
