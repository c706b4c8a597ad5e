"""What a browser is told about a conversation: each change of a message, without gaps, and what is said meanwhile.

The stream listens before it reads, and reads what has changed since the last revision it sent whenever it hears of a
change. So whatever it hears twice, too late or not at all, the browser gets every message in its last state.

Who changes a reply here tells it whole, with the revision behind which nothing else has changed. A stream that has sent
that revision has missed nothing, so it need not read.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from workspaces.answers import MessageView
from workspaces.chat.reading import Changed, Reading
from workspaces.chat.replies import Replies
from workspaces.chat.views import RUNNING, conversation_topic
from workspaces.live.hub import ALL, RESYNC, WORK, Hub, Live


@dataclass(frozen=True, slots=True)
class Told:
    """An event for a browser. `data` is JSON."""

    kind: str
    data: str
    revision: int | None = None


@dataclass(frozen=True)
class Following:
    """Makes streams."""

    reading: Reading
    replies: Replies
    hub: Hub

    @asynccontextmanager
    async def follow(
        self, account: str, conversation_id: str | None, after: int | None
    ) -> AsyncGenerator[AsyncIterator[Told]]:
        """Iterate over what happens, beginning with `ready`. Without `after` earlier messages are not sent.

        It ends when the process drains, or Postgres cannot be read.
        """
        topics = (ALL,) if conversation_id is None else (ALL, conversation_topic(conversation_id))
        async with self.hub.subscribe(*topics) as items:
            if conversation_id is None:
                yield _all_of(items, account)
            else:
                yield self._stream(items, account, conversation_id, after)

    async def _stream(
        self, items: AsyncIterator[Live], account: str, conversation_id: str, after: int | None
    ) -> AsyncGenerator[Told]:
        newest = await self.reading.newest(conversation_id)
        sent = Sent(newest if after is None else after)
        yield _told("ready", {"revision": newest, "account": account}, sent.revision)
        async for told in self._changes(conversation_id, sent):
            yield told
        partial = self.replies.partial_of(conversation_id)
        for kind, data in partial.published() if partial is not None else ():
            yield _told(kind, data)
        if partial is None:  # another replica that calls the agent may say it again
            await self.hub.tell(WORK, "partial", {"conversation_id": conversation_id})
        topic = conversation_topic(conversation_id)
        async for item in items:
            if item.topic == ALL:
                yield _told(item.kind, item.data)
            elif item.kind == "message" or item.kind == RESYNC:
                if item.kind == RESYNC or item.data["revision"] > sent.revision:
                    async for told in self._changes(conversation_id, sent, item.data.get("changed")):
                        yield told
            elif item.topic == topic and not sent.is_over(item.data):
                yield _told(item.kind, item.data)

    async def _changes(
        self, conversation_id: str, sent: "Sent", changed: Changed | None = None
    ) -> AsyncGenerator[Told]:
        """The messages that have changed since the last revision that was sent. They are read unless that is given."""
        if changed is None or changed.behind is None or changed.behind > sent.revision:
            changed = await self.reading.changed(conversation_id, sent.revision)
        if changed.too_many:
            yield _told(RESYNC, {})
        for message in changed.messages:
            sent.note(message)
            yield Told("message", message.model_dump_json(), message.revision)
        sent.revision = changed.revision


class Sent:
    """What a stream has sent: the last revision, and the last replies that have ended.

    What is said can arrive behind the end of the reply, since it takes another way.
    """

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self._over = dict[str, int]()

    def note(self, message: MessageView) -> None:
        """Note a message that was sent."""
        if message.role == "assistant" and message.status not in RUNNING:
            self._over[message.id] = message.attempt
            if len(self._over) > 100:
                del self._over[next(iter(self._over))]

    def is_over(self, said: dict[str, Any]) -> bool:
        """Whether something is said for a reply that has ended."""
        return said.get("attempt", 0) <= self._over.get(said.get("message_id", ""), -1)


async def _all_of(items: AsyncIterator[Live], account: str) -> AsyncGenerator[Told]:
    yield _told("ready", {"revision": 0, "account": account})
    async for item in items:
        yield _told(item.kind, item.data)


def _told(kind: str, data: dict[str, Any], revision: int | None = None) -> Told:
    return Told(kind, json.dumps(data, ensure_ascii=False, separators=(",", ":")), revision)
