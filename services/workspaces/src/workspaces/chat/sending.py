"""Stores a message and the reply to it.

Everything is checked in the transaction that stores the message. What the agent will be sent of the conversation is
decided there, too, and kept: a replica that takes the reply over must make the same call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Conflict
from pallas_postgres.engine import writing
from workspaces.answers import Sent, SettingsView
from workspaces.chat.choosing import Chosen, Wanted, Wellness, choose_agent, must_see
from workspaces.chat.conversations import title_of
from workspaces.chat.history import Entry, Plan, plan_history
from workspaces.chat.images import Picture
from workspaces.chat.locking import lock_conversation, tell_both, unknown_conversation, with_touched
from workspaces.chat.model import LEASE, Claim
from workspaces.chat.stored import read_entries, read_limits
from workspaces.chat.views import RUNNING
from workspaces.tables import ChatMessage, Conversation, Image, Workspace

LONGEST_TEXT = 200_000
"""Characters of a message."""
_WORKSPACE = (
    select(
        Workspace.id,
        select(ChatMessage.conversation_id)
        .where(ChatMessage.id == bindparam("message"))
        .scalar_subquery()
        .label("stored"),
    )
    .join(Conversation, Conversation.workspace_id == Workspace.id)
    .where(Conversation.id == bindparam("conversation"))
    .with_for_update(of=Workspace, key_share=True, read=True)
)
_OF_REPLY = (
    "id", "conversation_id", "seq", "status", "agent_instance_id", "agent_server_id", "agent_title", "key", "attempt",
    "remembers_from", "images_from", "owner",
)  # fmt: skip
_NEW_MESSAGE = insert(ChatMessage)
_NEW_REPLY = with_touched(
    insert(ChatMessage)
    .values({name: bindparam(f"new_{name}") for name in _OF_REPLY})
    .values(role="assistant", leased_until=func.now() + LEASE)
    .returning(ChatMessage),
    title=bindparam("title"),
)
"""Built once, since each message needs them."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message of a person. Its id is chosen by the sender, so it can be sent again."""

    id: str
    text: str
    pictures: tuple[Picture, ...]
    wanted: Wanted

    @property
    def reply_id(self) -> str:
        """The id of the reply."""
        return str(uuid5(UUID(self.id), "reply"))


class Sending:
    """Stores messages. `start` begins with a reply that was stored."""

    def __init__(
        self,
        engine: AsyncEngine,
        owner: str,
        wellness: Wellness,
        defaults: SettingsView,
        start: Callable[[Claim], None],
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._wellness = wellness
        self._defaults = defaults
        self._start = start

    async def send(self, conversation_id: str, message: NewMessage) -> Sent:
        """Store a message and begin with the reply. The same message again changes nothing.

        Raises:
            NotFound: there is no such conversation.
            Denied: the agent is not attached (`agent_not_attached`).
            Rejected: it is not clear which agent is meant, or it cannot see images.
            Unavailable: the agent is not well (`agent_unhealthy`), or Postgres is not there.
            Conflict: an agent is answering (`answering`), or another conversation has the id (`id_taken`).
        """
        sent = sent_as(conversation_id, message.id, message.reply_id)
        try:
            async with writing(self._engine) as session:
                if (workspace_id := await self._workspace_of(session, conversation_id, message)) is None:
                    return sent
                claim = await self._store(session, workspace_id, conversation_id, message)
        except (IntegrityError, Conflict):
            # The same message may have been stored between the first look and the lock.
            async with writing(self._engine) as session:
                if await self._workspace_of(session, conversation_id, message) is None:
                    return sent
            raise
        self._start(claim)
        return sent

    async def _workspace_of(self, session: AsyncSession, conversation_id: str, message: NewMessage) -> str | None:
        """The workspace of the conversation, which is locked; None: the message is stored already."""
        named = {"message": message.id, "conversation": conversation_id}
        found = (await session.execute(_WORKSPACE, named)).one_or_none()
        if found is None:
            raise unknown_conversation()
        if found.stored is None:
            return found.id
        if found.stored != conversation_id:
            raise Conflict("id: a message of another conversation has this id", code="id_taken", field="id")
        return None

    async def _store(
        self, session: AsyncSession, workspace_id: str, conversation_id: str, message: NewMessage
    ) -> Claim:
        chosen = await choose_agent(session, workspace_id, message.wanted)
        must_see(chosen, len(message.pictures))
        self._wellness.check(chosen)
        await lock_conversation(session, conversation_id)
        entries = await read_entries(session, conversation_id, images=chosen.model.vision)
        if any(entry.status in RUNNING for entry in entries):
            raise answering()
        seq = entries[-1].seq + 1 if entries else 1
        sizes = tuple(len(picture.data) for picture in message.pictures)
        asked = Entry(seq, "user", "answered", len(message.text.encode()), sizes)
        plan = plan_history(entries, asked, chosen.model, await read_limits(session, self._defaults))
        new = {"conversation_id": conversation_id, "id": message.id, "seq": seq, "content": message.text}
        await session.execute(_NEW_MESSAGE, {**new, "role": "user", "status": "answered"})
        begins = begun(self._owner, chosen, message.id, 1, plan)
        reply = {"id": message.reply_id, "conversation_id": conversation_id, "seq": seq + 1, **begins}
        given = {f"new_{name}": value for name, value in reply.items() if name in _OF_REPLY}
        stored = (await session.execute(_NEW_REPLY, {**given, "title": title_of(message.text)})).one()
        await self._store_pictures(session, message)
        return Claim.of(await tell_both(session, *stored, answering=True), taken_over=False)

    async def _store_pictures(self, session: AsyncSession, message: NewMessage) -> None:
        if message.pictures:
            rows = [
                {
                    "id": str(uuid5(UUID(message.id), f"image {position}")),
                    "message_id": message.id,
                    "position": position,
                    "mime_type": picture.mime_type,
                    "data": picture.data,
                }
                for position, picture in enumerate(message.pictures)
            ]
            await session.execute(insert(Image), rows)


def begun(owner: str, chosen: Chosen, key: str, attempt: int, plan: Plan) -> dict[str, Any]:
    """The values of a reply that an agent is called for from now on."""
    return {
        "status": "sending",
        "agent_instance_id": chosen.instance_id,
        "agent_server_id": chosen.server_id,
        "agent_title": chosen.title,
        "key": key,
        "attempt": attempt,
        "remembers_from": plan.first,
        "images_from": plan.images,
        "owner": owner,
        "leased_until": func.now() + LEASE,
    }


def sent_as(conversation_id: str, message_id: str, reply_id: str) -> Sent:
    """The answer to a message that was accepted."""
    return Sent(message_id=message_id, reply_id=reply_id, events=f"/api/v1/conversations/{conversation_id}/events")


def answering() -> Conflict:
    """An agent is answering; only one message at a time is answered in a conversation."""
    return Conflict("an agent is still answering in this conversation", code="answering")
