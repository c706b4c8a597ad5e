"""Stores a message and the reply to it.

First the conversation is read, without a lock, and what the agent will be sent of it is decided. Then one statement
stores both messages if the conversation has not changed since; else all begins anew. It also reads what the agent is
sent. What was decided is kept, too: a replica that takes the reply over must make the same call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Conflict
from pallas_postgres.engine import Prepared, Rows, fetch, writing
from workspaces.answers import Sent, SettingsView
from workspaces.chat.branching import begin_branch
from workspaces.chat.choosing import Chosen, Wanted, Wellness, must_see, the_agent
from workspaces.chat.conversations import make_conversation
from workspaces.chat.history import Entry, Limits, plan_history
from workspaces.chat.model import Claim, NewMessage
from workspaces.chat.reading import Changed
from workspaces.chat.replies import Replies
from workspaces.chat.stored import arguments_with, entries_of, limits_of
from workspaces.chat.storing import Fetch, begun, find_conversation, store_message
from workspaces.chat.views import RUNNING, conversation_topic
from workspaces.live.hub import Hub
from workspaces.stored_settings import settings_of

LONGEST_TEXT = 200_000
"""Characters of a message."""


@dataclass(frozen=True)
class Sending:
    """Stores messages, and begins with the replies."""

    engine: AsyncEngine
    wellness: Wellness
    defaults: SettingsView
    replies: Replies
    hub: Hub

    async def send(self, conversation_id: str, message: NewMessage, workspace_id: str | None = None) -> Sent:
        """Store a message and begin with the reply. The same message again changes nothing.

        With `workspace_id` the conversation is made there if there is none, unless the message is refused.

        Raises:
            NotFound: there is no such conversation, or no such workspace.
            Denied: the agent is not attached (`agent_not_attached`).
            Rejected: it is not clear which agent is meant, or it cannot see images.
            Unavailable: the agent is not well (`agent_unhealthy`), or Postgres is not there.
            Conflict: an agent is answering (`answering`), or another conversation or workspace has the id (`id_taken`).
        """
        with self.hub.telling_first(conversation_topic(conversation_id)):
            if workspace_id is None:
                stored = await self._store(partial(fetch, self.engine), conversation_id, message)
            else:
                stored = await self._store_first(workspace_id, conversation_id, message)
            if stored is not None:
                claim, changed = stored
                self.replies.start(claim)
                self.hub.tell_here(changed.told())
        return sent_as(conversation_id, message.id, message.reply_id)

    async def _store_first(
        self, workspace_id: str, conversation_id: str, message: NewMessage
    ) -> tuple[Claim, Changed] | None:
        """The same for a conversation that may have to be made, in one transaction."""
        async with writing(self.engine) as session:
            await make_conversation(session, workspace_id, conversation_id)

            return await self._store(partial(_within, session), conversation_id, message)

    async def branch(self, message_id: str, new_id: str, text: str | None, wanted: Wanted) -> Sent:
        """Ask again from a message of a person on, or from that which a reply answers, in a branch of the conversation.

        The branch has the id of the new message, and begins with all that comes before the old one. With `text` that is
        asked, else the same as before; images are sent again.

        Raises:
            NotFound: there is no such message.
            Denied, Rejected, Unavailable, Conflict: as `send`.
        """
        with self.hub.telling_first(conversation_topic(new_id)):
            async with writing(self.engine) as session:
                asked = await begin_branch(session, message_id, new_id)
                message = NewMessage(new_id, asked.text if text is None else text, asked.pictures, wanted)
                stored = await self._store(partial(_within, session), new_id, message)
            if stored is not None:
                claim, changed = stored
                self.replies.start(claim)
                self.hub.tell_here(changed.told())
        return sent_as(new_id, new_id, message.reply_id)

    async def _store(self, run: Fetch, conversation_id: str, message: NewMessage) -> tuple[Claim, Changed] | None:
        """The claim on the reply, and what browsers are told. None: the message is stored already."""
        while found := await find_conversation(run, conversation_id, message):
            chosen, entries = self._choose(found, message), entries_of(found[0].entries)
            if any(entry.status in RUNNING for entry in entries):
                raise answering()
            limits = limits_of(settings_of(found[0].settings, self.defaults))
            claim = _claim(conversation_id, message, chosen, entries, limits)
            values = begun(self.hub.replica, chosen, claim.key, claim.attempt, claim.plan)
            reply = {"id": claim.reply_id, "seq": claim.seq, **values}
            if (stored := await store_message(run, found[0], message, reply)) is not None:
                return replace(claim, arguments=arguments_with(stored.lines, message, claim)), stored.changed
        return None

    def _choose(self, found: Rows, message: NewMessage) -> Chosen:
        """The agent that can be called now."""
        chosen = the_agent([row for row in found if row.server_id is not None])
        must_see(chosen, len(message.pictures))
        self.wellness.check(chosen)
        return chosen


async def _within(session: AsyncSession, prepared: Prepared, values: Mapping[str, Any]) -> Rows:
    return (await session.execute(prepared.statement, values)).all()


def _claim(
    conversation_id: str, message: NewMessage, chosen: Chosen, entries: Sequence[Entry], limits: Limits
) -> Claim:
    """The claim on the reply, with what the agent will be sent."""
    seq = entries[-1].seq + 1 if entries else 1
    sizes = tuple(len(picture.data) for picture in message.pictures)
    asked = Entry(seq, "user", "answered", len(message.text.encode()), sizes)
    plan = plan_history(entries, asked, chosen.model, limits)
    named = chosen.instance_id, chosen.server_id
    return Claim(message.reply_id, conversation_id, seq + 1, message.id, 1, *named, plan, address=chosen.address)


def sent_as(conversation_id: str, message_id: str, reply_id: str) -> Sent:
    """The answer to a message that was accepted."""
    return Sent(
        conversation_id=conversation_id,
        message_id=message_id,
        reply_id=reply_id,
        events=f"/api/v1/conversations/{conversation_id}/events",
    )


def answering() -> Conflict:
    """An agent is answering; only one message at a time is answered in a conversation."""
    return Conflict("an agent is still answering in this conversation", code="answering")
