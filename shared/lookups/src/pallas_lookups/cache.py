"""The cache of look-ups in Redis. No entry is ever older than Postgres, the source of truth.

A writer invalidates the entries that its change touches before it commits, and refreshes them before it confirms the
change. A reader takes the entries that are there, reads the others from Postgres and fills them in. A fill is refused
if the entry was invalidated or refreshed since the reader read it, or if Redis was restarted or replaced since then.

Redis must not persist: after a crash a snapshot could bring entries back without their tombstones. It must not be
replaced by a replica, which may lag. Writers must change an entry one after the other: the caller serialises them.
"""

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import TypeAdapter
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.exceptions import RedisError

from pallas_contracts.auth import LookupKey, Record
from pallas_contracts.errors import Unavailable
from pallas_lookups import scripts
from pallas_lookups.single_flight import SingleFlight

log = logging.getLogger(__name__)

PREFIX = "pallas:lookup"
TIMEOUT = 0.25
"""Timeout of a Redis command, in seconds."""

CONNECTIONS, CONNECTION_WITHIN = 16, 1.0
"""Connections to Redis, and the seconds for which a command waits for a free one."""

FILL_WITHIN = 5.0
"""Seconds after the read of Redis within which an answer of Postgres may be filled in."""

TOMBSTONE = 30.0
"""Lifetime of a tombstone in seconds. A change must commit well within it."""

KEPT = 300.0
ABSENT_KEPT = 30.0
_GENERATION_KEPT, _ASKED_KEPT = 3600.0, 60.0
"""Lifetime of a generation that a writer or a reader has made, in seconds: longer than any fill takes."""
_PARSED = 10_000
_SCANNED = "1000"

_record: TypeAdapter[Record] = TypeAdapter(Record)


@dataclass(frozen=True, slots=True)
class _Missing:
    epoch: str
    generation: str


@dataclass(slots=True)
class Snapshot:
    """The entries of some keys, read at one moment after `taken_at` (monotonic seconds)."""

    keys: Sequence[LookupKey]
    taken_at: float
    _entries: dict[str, str | _Missing]

    def has(self, key: LookupKey) -> bool:
        """Whether Redis knew the row, or that it does not exist. If not, read it from Postgres."""
        return isinstance(self._entries[key.text], str)

    def record(self, key: LookupKey) -> Record | None:
        """The row of a key that `has` is true for; None if the row does not exist."""
        entry = self._entries[key.text]
        assert isinstance(entry, str)
        return _parsed(entry)

    @property
    def records(self) -> dict[LookupKey, Record | None]:
        """The rows that Redis knew."""
        return {key: self.record(key) for key in self.keys if self.has(key)}

    @property
    def missing(self) -> tuple[LookupKey, ...]:
        """The keys to read from Postgres."""
        return tuple(key for key in self.keys if not self.has(key))

    def mark(self, key: LookupKey) -> _Missing:
        """The state that must be unchanged when a missing row is filled in."""
        entry = self._entries[key.text]
        assert isinstance(entry, _Missing)
        return entry


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Entries that were replaced by tombstones, which last `until` then (monotonic seconds) unless Redis is lost."""

    keys: tuple[LookupKey, ...]
    generation: str
    until: float


@dataclass
class LookupCache:
    """The cache. `open_cache` makes it. `info` is what Redis said about itself at the last check."""

    redis: Redis
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _connected: int = 0
    _checked: int = -1
    _checking: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        register = self.redis.register_script
        self._live = register(scripts.LIVE)
        self._begin, self._fill = register(scripts.BEGIN), register(scripts.FILL)
        self._invalidate, self._refresh = register(scripts.INVALIDATE), register(scripts.REFRESH)
        self._use_up = register(scripts.USE_UP)
        self._entries = SingleFlight(self._read_all)

    async def read(self, keys: Sequence[LookupKey]) -> Snapshot:
        """Read the entries of different keys.

        Raises:
            Unavailable: Redis does not answer, or `check` refuses it.
        """
        return Snapshot(keys, time.monotonic(), await self._entries.read([key.text for key in keys]))

    async def fill(self, snapshot: Snapshot, version: int, records: Mapping[LookupKey, Record | None]) -> int:
        """Fill in rows of Postgres as of change number `version`. Returns how many entries were stored.

        Raises:
            Unavailable: Redis does not answer.
        """
        missing = [key for key in snapshot.missing if key in records and _is_kept(key, records[key])]
        if not missing or time.monotonic() - snapshot.taken_at > FILL_WITHIN:
            return 0
        names, values = [_EPOCH], [snapshot.mark(missing[0]).epoch]  # one command read all of them
        for key in missing:
            names += _pair(key)
            values += [snapshot.mark(key).generation, *_value(version, records[key])]
        return int(await self._ask(self._fill(names, values)))

    async def invalidate(self, keys: Collection[LookupKey]) -> Invalidation:
        """Replace entries by tombstones, which send readers to Postgres. Call this before the change is committed.

        Raises:
            Unavailable: the entries may still be there. Do not commit the change.
        """
        generation, began = secrets.token_hex(8), time.monotonic()
        if keys:
            times = [_ms(TOMBSTONE), _ms(_GENERATION_KEPT)]
            await self._ask(self._invalidate(_pairs(keys), [generation, *times]))
        return Invalidation(tuple(keys), generation, began + TOMBSTONE)

    async def refresh(
        self, invalidation: Invalidation, version: int, records: Mapping[LookupKey, Record | None]
    ) -> None:
        """Replace tombstones by the rows as of change number `version`. Call this after the commit.

        After that, no reader that begins gets an older row, and the change may be confirmed.

        Raises:
            Unavailable: readers may still get an older row. Do not confirm the change.
        """
        if not invalidation.keys:
            return
        kept = [key for key in invalidation.keys if _is_kept(key, records.get(key))]
        await self.invalidate(set(invalidation.keys).difference(kept))
        values = [invalidation.generation, secrets.token_hex(8), _ms(TOMBSTONE), _ms(_GENERATION_KEPT)]
        for key in kept:
            values += _value(version, records.get(key))
        if not await self._ask(self._refresh(_pairs(kept), values)):
            log.info("entries had lost their tombstones and were invalidated again", extra={"version": version})

    async def clear(self) -> None:
        """Forget all rows, with the epoch, so that what was read before cannot be filled in afterwards.

        For a database that was restored to an older state. Used tokens stay used.

        Raises:
            Unavailable: Redis does not answer, or `check` refuses it.
        """
        await self._be_checked()
        # From here on no reader can fill in what it read before.
        await self._command("UNLINK", _EPOCH)
        cursor, kept = "0", (_LIFE, f"{PREFIX}:jti:")
        while True:
            cursor, names = await self._command("SCAN", cursor, "MATCH", f"{PREFIX}:*", "COUNT", _SCANNED)
            if gone := [name for name in names if not name.startswith(kept)]:
                await self._command("UNLINK", *gone)
            if str(cursor) == "0":
                return

    async def use_up(self, jti: str, issued_at: float, seconds: float) -> bool:
        """Mark a token as used, for so many seconds. False if it was used before, or was issued before Redis started.

        Raises:
            Unavailable: Redis does not answer, so it is unknown whether the token was used.
        """
        names = [_EPOCH, f"{PREFIX}:jti:{jti}"]
        values = [secrets.token_hex(8), str(int(issued_at)), str(max(1, int(seconds) + 1))]
        return bool(await self._ask(self._use_up(names, values)))

    async def check(self) -> None:
        """Check that this Redis can be used.

        Raises:
            Unavailable: it does not answer; or it persists data, has loaded persisted data, is a replica or evicts
                keys (`unsafe_redis`).
        """
        connected = self._connected
        info: dict[str, Any] = await self._command("INFO")
        self.info = info
        faults = {
            "writes an append-only file": info["aof_enabled"] != 0,
            "is a replica": info["role"] != "master",
            "evicts keys": info["maxmemory"] and info["maxmemory_policy"] != "noeviction",
        }
        saves: dict[str, str] = await self._command("CONFIG GET", "save")
        faults["saves snapshots"] = bool(saves.get("save"))
        if not any(faults.values()):
            life = await _answer(self._live([_LIFE], [info["run_id"]]))
            faults["was restarted and still has its old data"] = life != info["run_id"]
        if wrong := [fault for fault, there in faults.items() if there]:
            self._checked = -1
            log.error("Redis cannot be used: it %s", " and ".join(wrong))
            raise Unavailable(f"Redis cannot be used: it {' and '.join(wrong)}", code="unsafe_redis")
        self._checked = connected

    async def connected(self, connection: Connection) -> None:
        """Set up a new connection. It may lead to another server than before, so the server is checked again."""
        await connection.on_connect()
        self._connected += 1

    async def _command(self, *words: str | int) -> Any:
        sent = self.redis.execute_command(*words)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return await _answer(cast("Awaitable[object]", sent))

    async def _read_all(self, texts: list[str]) -> list["str | _Missing"]:
        """The entries by name. A missing one is given as the state that must be unchanged when it is filled in."""
        names = [f"{PREFIX}:{text}" for text in texts]
        values: list[str | None] = await self._ask(self.redis.mget(names))
        missing = [name for name, value in zip(names, values, strict=True) if value in (None, _INVALIDATED)]
        marks: dict[str, _Missing] = {}
        if missing:
            keys = [_EPOCH, *map(_generation, missing)]
            epoch, *generations = await self._ask(self._begin(keys, [secrets.token_hex(8), _ms(_ASKED_KEPT)]))
            marks = {name: _Missing(epoch, word) for name, word in zip(missing, generations, strict=True)}
        return [marks.get(name, value or "") for name, value in zip(names, values, strict=True)]

    async def _ask(self, command: Awaitable[Any]) -> Any:
        try:
            await self._be_checked()
        except BaseException:
            if asyncio.iscoroutine(command):
                command.close()
            raise
        answer = await _answer(command)
        await self._be_checked()
        return answer

    async def _be_checked(self) -> None:
        """Wait until the server of the newest connection was checked. All who wait share one check."""
        while self._checked != self._connected:
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self.check())
            await asyncio.shield(self._checking)


async def _answer[T](command: Awaitable[T]) -> T:
    try:
        return await command
    except (RedisError, OSError, TimeoutError) as error:
        raise Unavailable(f"Redis does not answer: {type(error).__name__}", code="no_redis") from error


_EPOCH = f"{PREFIX}:epoch"
_LIFE = f"{PREFIX}:life"
_INVALIDATED = "T"


def _is_kept(key: LookupKey, record: Record | None) -> bool:
    """An absent library is not cached: then a library can be created while Redis is away."""
    return record is not None or key.kind != "library"


def _entry(key: LookupKey) -> str:
    return f"{PREFIX}:{key.text}"


def _generation(entry: str) -> str:
    return f"{PREFIX}:generation{entry.removeprefix(PREFIX)}"


def _pairs(keys: Collection[LookupKey]) -> list[str]:
    return [name for key in keys for name in _pair(key)]


def _pair(key: LookupKey) -> tuple[str, str]:
    return (entry := _entry(key)), _generation(entry)


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))


def _value(version: int, record: Record | None) -> list[str]:
    """Version, lifetime in ms and JSON of an entry."""
    if record is None:
        return [str(version), _ms(ABSENT_KEPT), "null"]
    return [str(version), _ms(KEPT), record.model_dump_json()]


@functools.lru_cache(_PARSED)
def _parsed(value: str) -> Record | None:
    """Parse an entry. The result depends on the text alone, so it can be cached."""
    text = value.partition(":")[2]
    return None if text == "null" else _record.validate_json(text)


@asynccontextmanager
async def open_cache(url: str) -> AsyncGenerator[LookupCache]:
    """Open a cache in the Redis at `url`. It connects when it is used: Redis may start later, and may go away."""
    pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - untyped options in redis-py
        url,
        max_connections=CONNECTIONS,
        timeout=CONNECTION_WITHIN,
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=None,
        decode_responses=True,
    )
    redis = Redis.from_pool(pool)
    cache = LookupCache(redis)
    pool.connection_kwargs["redis_connect_func"] = cache.connected
    try:
        yield cache
    finally:
        await redis.aclose()
