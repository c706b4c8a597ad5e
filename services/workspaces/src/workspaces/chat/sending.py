"""Stores a message and the reply to it.

First the conversation is read, without a lock, and what the agent will be sent of it is decided. Then one statement
stores both messages if the conversation has not changed since; else all begins anew. It also reads what the agent is
sent. What was decided is kept, too: a replica that takes the reply over must make the same call.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Conflict
from pallas_postgres.prepared import Rows
from workspaces.answers import Sent, SettingsView
from workspaces.chat.choosing import Chosen, Wellness, must_see, the_agent
from workspaces.chat.history import Entry, Limits, plan_history
from workspaces.chat.model import Claim, NewMessage
from workspaces.chat.stored import arguments_with, entries_of, limits_of
from workspaces.chat.storing import begun, find_conversation, store_message
from workspaces.chat.views import RUNNING, conversation_topic
from workspaces.live.hub import Hub
from workspaces.stored_settings import settings_of

LONGEST_TEXT = 200_000
"""Characters of a message."""


class Sending:
    """Stores messages. `start` begins with a reply that was stored."""

    def __init__(
        self,
        engine: AsyncEngine,
        owner: str,
        wellness: Wellness,
        defaults: SettingsView,
        start: Callable[[Claim], None],
        hub: Hub,
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._wellness = wellness
        self._defaults = defaults
        self._start = start
        self._hub = hub

    async def send(self, conversation_id: str, message: NewMessage) -> Sent:
        """Store a message and begin with the reply. The same message again changes nothing.

        Raises:
            NotFound: there is no such conversation.
            Denied: the agent is not attached (`agent_not_attached`).
            Rejected: it is not clear which agent is meant, or it cannot see images.
            Unavailable: the agent is not well (`agent_unhealthy`), or Postgres is not there.
            Conflict: an agent is answering (`answering`), or another conversation has the id (`id_taken`).
        """
        while found := await find_conversation(self._engine, conversation_id, message):
            chosen, entries = self._choose(found, message), entries_of(found[0].entries)
            if any(entry.status in RUNNING for entry in entries):
                raise answering()
            limits = limits_of(settings_of(found[0].settings, self._defaults))
            claim = _claim(conversation_id, message, chosen, entries, limits)
            values = begun(self._owner, chosen, claim.key, claim.attempt, claim.plan)
            reply = {"id": claim.reply_id, "seq": claim.seq, **values}
            with self._hub.telling_first(conversation_topic(conversation_id)):
                if (stored := await store_message(self._engine, found[0], message, reply)) is not None:
                    self._start(replace(claim, arguments=arguments_with(stored.lines, message, claim)))
                    self._hub.tell_here(stored.changed.told())
                    break
        return sent_as(conversation_id, message.id, message.reply_id)

    def _choose(self, found: Rows, message: NewMessage) -> Chosen:
        """The agent that can be called now."""
        chosen = the_agent([row for row in found if row.server_id is not None])
        must_see(chosen, len(message.pictures))
        self._wellness.check(chosen)
        return chosen


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
    return Sent(message_id=message_id, reply_id=reply_id, events=f"/api/v1/conversations/{conversation_id}/events")


def answering() -> Conflict:
    """An agent is answering; only one message at a time is answered in a conversation."""
    return Conflict("an agent is still answering in this conversation", code="answering")
