"""The event stream of a browser tab."""

import logging
from collections.abc import AsyncGenerator
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query

from pallas_contracts.errors import Unavailable
from workspaces.http.event_stream import EventStream, event_of
from workspaces.http.parts import Parts, Sender

log = logging.getLogger(__name__)

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
    ) -> AsyncGenerator[bytes]:
        since = max((number for number in (after, _number(last)) if number is not None), default=None)
        name = str(conversation) if conversation is not None else None
        try:
            with parts.metrics.streams.track_inprogress():
                async with chat.following.follow(who.account, name, since) as told:
                    async for event in told:
                        yield event_of(event.kind, event.data, event.revision)
        except Unavailable as error:
            log.info("an event stream ends, to be opened again", extra={"reason": error.code})
        yield event_of("bye")

    @router.get("/events", response_class=EventStream, dependencies=[Depends(any_one)])
    async def follow(
        who: Sender,
        conversation: UUID | None = None,
        after: Revision | None = None,
        last_event_id: LastEventId = None,
    ) -> EventStream:
        """What happens, and in a conversation all that its messages go through, from a revision on."""
        return EventStream(events(who, conversation, after, last_event_id))

    @router.get("/conversations/{conversation_id}/events", response_class=EventStream, dependencies=[Depends(one)])
    async def follow_one(
        who: Sender, conversation_id: UUID, after: Revision | None = None, last_event_id: LastEventId = None
    ) -> EventStream:
        """The same as `/events` with this conversation."""
        return EventStream(events(who, conversation_id, after, last_event_id))

    return router


def _number(last: str | None) -> int | None:
    """The revision in a Last-Event-ID; None for anything else."""
    return int(last) if last is not None and last.isascii() and last.isdigit() and len(last) < 19 else None
