"""The event stream of a browser tab."""

import logging
from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from pallas_contracts.errors import Unavailable
from workspaces.http.parts import Parts
from workspaces.http.senders import Sender

log = logging.getLogger(__name__)

_BYE = ServerSentEvent(event="bye", raw_data="{}")

type Revision = Annotated[int, Query(ge=0, le=2**63 - 1)]
type LastEventId = Annotated[str | None, Header(max_length=100)]


def events_router(parts: Parts) -> APIRouter:
    """The routes."""
    chat = parts.chat
    router = APIRouter(tags=["events"])

    async def one(conversation_id: UUID) -> None:
        await chat.conversations.must_exist(str(conversation_id))

    async def any_one(conversation: UUID | None = None) -> None:
        if conversation is not None:
            await one(conversation)

    async def events(
        who: Sender, conversation: UUID | None, after: int | None, last: str | None
    ) -> AsyncIterator[ServerSentEvent]:
        since = max((number for number in (after, _number(last)) if number is not None), default=None)
        name = str(conversation) if conversation is not None else None
        try:
            with parts.metrics.streams.track_inprogress():
                async with chat.following.follow(who.account, name, since) as told:
                    async for event in told:
                        number = str(event.revision) if event.revision is not None else None
                        yield ServerSentEvent(event=event.kind, raw_data=event.data, id=number)
        except Unavailable as error:
            log.info("an event stream ends, to be opened again", extra={"reason": error.code})
        yield _BYE

    @router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(any_one)])
    async def follow(
        who: Sender,
        conversation: UUID | None = None,
        after: Revision | None = None,
        last_event_id: LastEventId = None,
    ) -> AsyncIterator[ServerSentEvent]:
        """What happens, and in a conversation all that its messages go through, from a revision on."""
        async for event in events(who, conversation, after, last_event_id):
            yield event

    @router.get(
        "/conversations/{conversation_id}/events", response_class=EventSourceResponse, dependencies=[Depends(one)]
    )
    async def follow_one(
        who: Sender, conversation_id: UUID, after: Revision | None = None, last_event_id: LastEventId = None
    ) -> AsyncIterator[ServerSentEvent]:
        """The same as `/events` with this conversation."""
        async for event in events(who, conversation_id, after, last_event_id):
            yield event

    return router


def _number(last: str | None) -> int | None:
    """The revision in a Last-Event-ID; None for anything else."""
    return int(last) if last is not None and last.isascii() and last.isdigit() and len(last) < 19 else None
