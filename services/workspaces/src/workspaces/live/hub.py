"""What happens is told to all replicas, and by them to browsers: LISTEN and NOTIFY of Postgres.

It is best effort: whoever must not miss anything reads the tables, and reads them again after `resync`. That is told
when something may have been missed: the connection to Postgres was lost, or a reader was too slow.

The connection also shows that the replica lives: its session has a lock on the number of the replica. Postgres frees
the lock when the process is gone, and ends a session that has not pinged for a while.
"""

import asyncio
import json
import logging
import secrets
import socket
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import asyncpg
from sqlalchemy import ColumnElement, Text, func, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from pallas_postgres.engine import DRIVER_ERRORS

log = logging.getLogger(__name__)

ALL, WORK = "all", "work"
"""Topics: what every browser is told, and what wakes the work of replicas. Others are `conversation:{id}`."""
RESYNC = "resync"
CHANNEL = "workspaces"
LONGEST = 7_900
"""Bytes of one notification: Postgres takes less than 8,000. Instead of a longer one the others get a `resync`."""
_NOTIFY = text("select pg_notify(:channel, payload) from unnest((:payloads)::text[]) payload")
CONNECT_SECONDS, ANSWER_SECONDS, PING_SECONDS, RETRY_SECONDS = 3.0, 5.0, 3.0, 0.2
SILENT_SECONDS = 10
"""After so long without a ping Postgres takes a replica for gone."""
REPLICAS = (
    select(literal_column("((classid::bigint << 32) | objid::bigint)::text", Text()).label("replica"))
    .select_from(text("pg_locks"))
    .where(text("locktype = 'advisory' and objsubid = 1"))
)
"""The numbers of the replicas that live, and of whoever else has such a lock."""
MOST_WAITING = 1_000
"""How many items may wait for one reader."""


class Backlog[T](AsyncIterator[T]):
    """What one reader has not read yet, in order. A reader that is too slow gets the items `resync` instead of that."""

    def __init__(self, *resync: T) -> None:
        self._resync = resync
        self._waiting = deque[T]()
        self._some = asyncio.Event()
        self._closed = False

    def put(self, item: T) -> None:
        """Add an item."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(item)
            self._some.set()
        else:
            self.resync()

    def resync(self) -> None:
        """Tell the reader that it may have missed something."""
        self._waiting.clear()
        self._waiting.extend(self._resync)
        self._some.set()

    def close(self) -> None:
        """End, after what waits."""
        self._closed = True
        self._some.set()

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._some.clear()
            await self._some.wait()
        return self._waiting.popleft()


@dataclass(frozen=True, slots=True)
class Live:
    """Something that has happened."""

    topic: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


class Hub:
    """Tells and subscribes. `url` is the libpq address of the database. Run `run` in a task."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._origin = uuid.uuid4().hex
        self._number = secrets.randbits(63)
        self.host = socket.gethostname()
        self.replica = f"{self._number}@{self.host}"
        """The name of this replica. Its number is among `REPLICAS` while it lives."""
        self._readers = dict[str, set[Backlog[Live]]]()
        self._heard_later = dict[str, list[Live]]()
        self._sending = deque[str]()
        self._some = asyncio.Event()
        self._closed = False
        self.listening = asyncio.Event()
        """Set while this replica hears the others."""

    async def tell(self, topic: str, kind: str, data: dict[str, Any]) -> None:
        """Tell it to readers here at once, and to the other replicas soon; best effort."""
        self.tell_here(Live(topic, kind, data))
        self._sending.append(_packed(self._origin, topic, kind, data))
        if len(self._sending) > MOST_WAITING:
            self._send_less(self._sending)
        self._some.set()

    def tell_here(self, item: Live) -> None:
        """Tell it to readers here only, at once. Its data need not be JSON."""
        for reader in self._readers.get(item.topic, ()):
            reader.put(item)

    @contextmanager
    def telling_first(self, topic: str) -> Generator[None]:
        """Whoever makes a change in the block tells it here. What others tell of the topic is heard behind that."""
        first = topic not in self._heard_later
        later = self._heard_later.setdefault(topic, [])
        try:
            yield
        finally:
            if first:
                del self._heard_later[topic]
                for item in later:
                    self.tell_here(item)

    @staticmethod
    async def tell_in(session: AsyncSession | AsyncConnection, topic: str, kind: str, data: dict[str, Any]) -> None:
        """Tell it to all replicas, this one included, when the transaction of the session is committed."""
        await Hub.tell_all_in(session, (Live(topic, kind, data),))

    @staticmethod
    async def tell_all_in(session: AsyncSession | AsyncConnection, told: Iterable[Live]) -> None:
        """The same for several, in one statement."""
        payloads = [_packed("", item.topic, item.kind, item.data) for item in told]
        if payloads:
            await session.execute(_NOTIFY, {"channel": CHANNEL, "payloads": payloads})

    @staticmethod
    def telling(topic: ColumnElement[str], kind: str, data: ColumnElement[Any]) -> ColumnElement[None]:
        """What tells it to all replicas, this one included, when a statement selects it. It must be below `LONGEST`."""
        told = json_object(origin=quoted(""), topic=topic, kind=quoted(kind), data=data)
        return func.pg_notify(quoted(CHANNEL), func.concat(told))

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncGenerator[AsyncIterator[Live]]:
        """Iterate over what is told about these topics from now on."""
        reader = Backlog(*(Live(topic, RESYNC) for topic in topics))
        if self._closed and WORK not in topics:
            reader.close()
        for topic in topics:
            self._readers.setdefault(topic, set()).add(reader)
        try:
            yield reader
        finally:
            for topic in topics:
                self._readers[topic].discard(reader)
                if not self._readers[topic]:
                    del self._readers[topic]

    async def heard(self) -> None:
        """Wait until this replica hears the others."""
        await self.listening.wait()

    def close(self) -> None:
        """End all subscriptions, and those to come, but those of work."""
        self._closed = True
        for reader in self._all_readers() - self._readers.get(WORK, set()):
            reader.close()

    async def run(self) -> None:
        """Listen and notify until cancelled. A lost connection is made again."""
        warned = False
        while True:
            try:
                await self._serve()
            except (OSError, TimeoutError, *DRIVER_ERRORS) as error:
                reason = type(error).__name__
            else:
                reason = "closed"
            if self.listening.is_set() or not warned:
                log.warning("other replicas are not heard: no connection", extra={"reason": reason})
            warned = True
            self.listening.clear()
            await asyncio.sleep(RETRY_SECONDS)

    async def _serve(self) -> None:
        """Use one connection until it is lost."""
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await asyncpg.connect(
                self._url,
                timeout=CONNECT_SECONDS,
                command_timeout=ANSWER_SECONDS,
                server_settings={
                    "application_name": "pallas-workspaces-live",
                    "idle_session_timeout": f"{SILENT_SECONDS}s",
                },
            )
        lost = asyncio.Event()

        def on_lost(_: asyncpg.Connection) -> None:
            lost.set()
            self._some.set()

        connection.add_termination_listener(on_lost)
        try:
            await connection.execute("select pg_advisory_lock_shared($1)", self._number)
            await connection.add_listener(CHANNEL, self._hear)
            self.listening.set()
            for reader in self._all_readers():
                reader.resync()
            while not lost.is_set():
                await self._send_waiting(connection)
        finally:
            connection.terminate()

    async def _send_waiting(self, connection: asyncpg.Connection) -> None:
        """Wait for something to send, and send all of it in one statement; without anything, check the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_SECONDS):
                await self._some.wait()
        self._some.clear()
        payloads, self._sending = list(self._sending), deque[str]()
        try:
            await connection.execute("select pg_notify($1, one) from unnest($2::text[]) one", CHANNEL, payloads)
        except BaseException:
            self._send_less((*payloads, *self._sending))
            raise

    def _send_less(self, payloads: Iterable[str]) -> None:
        """Send the other replicas a `resync` for each topic instead of these."""
        topics = {json.loads(one)["topic"] for one in payloads}
        self._sending = deque(_packed(self._origin, topic, RESYNC, {}) for topic in sorted(topics))

    def _hear(self, _connection: asyncpg.Connection, _pid: int, _channel: str, payload: str) -> None:
        item = json.loads(payload)
        if item["origin"] != self._origin:
            live = Live(item["topic"], item["kind"], item["data"])
            later = self._heard_later.get(live.topic)
            self.tell_here(live) if later is None else later.append(live)

    def _all_readers(self) -> set[Backlog[Live]]:
        return {reader for readers in self._readers.values() for reader in readers}


def json_object(**fields: ColumnElement[Any]) -> ColumnElement[Any]:
    """A JSON object that Postgres makes."""
    named = ((quoted(name), value) for name, value in fields.items())
    return func.json_build_object(*chain.from_iterable(named))


def quoted(word: str) -> ColumnElement[str]:
    """A word of ours as a constant in a statement, which is cheaper than a parameter."""
    return literal_column(f"'{word}'")


def _packed(origin: str, topic: str, kind: str, data: dict[str, Any]) -> str:
    payload = json.dumps({"origin": origin, "topic": topic, "kind": kind, "data": data}, ensure_ascii=False)
    if len(payload.encode()) <= LONGEST:
        return payload
    return json.dumps({"origin": origin, "topic": topic, "kind": RESYNC, "data": {}})
