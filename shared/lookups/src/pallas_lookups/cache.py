"""The cache of look-ups, for those who read and those who change the truth; no entry is ever older than the truth.

Whoever changes something *condemns* the entries it touches before it commits, and *renews* them before it tells anybody
that it has. Whoever reads takes what is there; what is missing it asks of the truth and *fills* in, which is refused
when the entry was condemned or renewed since the reader looked, or when Redis is not the one that it looked into.

Redis keeps nothing on disk (a tombstone of the last second would be lost) and is never replaced by a replica that lags.
Changes to one entry at a time: whoever changes the truth serialises that.
"""

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter
from redis.asyncio import BlockingConnectionPool, Connection, Redis
from redis.exceptions import RedisError

from pallas_contracts.auth import LookupKey, Record
from pallas_contracts.errors import Unavailable
from pallas_lookups import scripts
from pallas_lookups.together import Together

log = logging.getLogger(__name__)

PREFIX = "pallas:lookup"
TIMEOUT = 0.25
"""Seconds for which Redis is waited for."""

CONNECTIONS, CONNECTION_WITHIN = 16, 1.0
"""How many commands are under way at a time, and the seconds for which others wait for that."""

FILL_WITHIN = 5.0
"""Seconds after which an answer of the truth is too old to be kept."""

TOMBSTONE = 30.0
"""Seconds for which a condemned entry sends readers to the truth; a change commits well within."""

KEPT = 300.0
ABSENT_KEPT = 30.0
_GENERATION_KEPT, _ASKED_KEPT = 3600.0, 60.0
"""Seconds for which the generation of a change, and that of a reader, is kept: longer than any fill takes."""
_PARSED = 10_000

_record: TypeAdapter[Record] = TypeAdapter(Record)


@dataclass(frozen=True, slots=True)
class _Missing:
    epoch: str
    generation: str


@dataclass(slots=True)
class Snapshot:
    """What Redis had of some rows, at one moment after `taken_at` (monotonic seconds)."""

    keys: Sequence[LookupKey]
    taken_at: float
    _entries: dict[str, str | _Missing]

    def has(self, key: LookupKey) -> bool:
        """Whether it is known what the row is, or that there is none; else it is to be asked of the truth."""
        return isinstance(self._entries[key.text], str)

    def record(self, key: LookupKey) -> Record | None:
        """A row that it has; None where there is no such row."""
        entry = self._entries[key.text]
        assert isinstance(entry, str)
        return _parsed(entry)

    @property
    def records(self) -> dict[LookupKey, Record | None]:
        """All that it has."""
        return {key: self.record(key) for key in self.keys if self.has(key)}

    @property
    def missing(self) -> tuple[LookupKey, ...]:
        """All that it has not."""
        return tuple(key for key in self.keys if not self.has(key))

    def mark(self, key: LookupKey) -> _Missing:
        """What has to be so still when a row that it has not is filled in."""
        entry = self._entries[key.text]
        assert isinstance(entry, _Missing)
        return entry


@dataclass(frozen=True, slots=True)
class Condemned:
    """Entries that send readers to the truth, `until` then (monotonic seconds) if Redis lives as long."""

    keys: tuple[LookupKey, ...]
    generation: str
    until: float


@dataclass
class LookupCache:
    """Made by `open_cache`. Without `protect` it is a usual cache, which can be stale: to show what that is for."""

    redis: Redis
    protect: bool = True
    _connected: int = 0
    _checked: int = -1
    _checking: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        register = self.redis.register_script
        self._live = register(scripts.LIVE)
        self._begin, self._fill = register(scripts.BEGIN), register(scripts.FILL)
        self._condemn, self._renew = register(scripts.CONDEMN), register(scripts.RENEW)
        self._use_up = register(scripts.USE_UP)
        self._entries = Together(self._read_all)

    async def read(self, keys: Sequence[LookupKey]) -> Snapshot:
        """Read what is there; each key is given once.

        Raises:
            Unavailable: Redis does not answer, or is not one that this can rest on.
        """
        return Snapshot(keys, time.monotonic(), await self._entries.read([key.text for key in keys]))

    async def fill(self, snapshot: Snapshot, version: int, records: Mapping[LookupKey, Record | None]) -> int:
        """Keep what the truth had when it stood at `version`; returns how many entries were taken.

        Raises:
            Unavailable: Redis does not answer.
        """
        missing = [key for key in snapshot.missing if key in records and _is_kept(key, records[key])]
        if not self.protect:
            return await self._fill_blindly(missing, version, records)
        if not missing or time.monotonic() - snapshot.taken_at > FILL_WITHIN:
            return 0
        names, values = [_EPOCH], [snapshot.mark(missing[0]).epoch]  # all are of one command
        for key in missing:
            names += _pair(key)
            values += [snapshot.mark(key).generation, *_value(version, records[key])]
        return int(await self._ask(self._fill(names, values)))

    async def condemn(self, keys: Collection[LookupKey]) -> Condemned:
        """Send all readers of these entries to the truth, from now on. Do this before the truth changes.

        Raises:
            Unavailable: it cannot be done; nothing may be changed then.
        """
        generation, began = secrets.token_hex(8), time.monotonic()
        if keys and self.protect:
            times = [_ms(TOMBSTONE), _ms(_GENERATION_KEPT)]
            await self._ask(self._condemn(_pairs(keys), [generation, *times]))
        return Condemned(tuple(keys), generation, began + TOMBSTONE)

    async def renew(self, condemned: Condemned, version: int, records: Mapping[LookupKey, Record | None]) -> None:
        """Put in the new rows, as of `version`. Do this after the truth has changed, before anybody is told.

        When this returns, no reader that begins from now on gets what was there before.

        Raises:
            Unavailable: that is not certain; nobody may be told that the change is in force.
        """
        if not condemned.keys:
            return
        if not self.protect:
            await self._ask(self.redis.delete(*map(_entry, condemned.keys)))
            return
        kept = [key for key in condemned.keys if _is_kept(key, records.get(key))]
        await self.condemn(set(condemned.keys).difference(kept))
        values = [condemned.generation, secrets.token_hex(8), _ms(TOMBSTONE), _ms(_GENERATION_KEPT)]
        for key in kept:
            values += _value(version, records.get(key))
        if not await self._ask(self._renew(_pairs(kept), values)):
            log.info("entries were condemned again", extra={"version": version})

    async def use_up(self, jti: str, issued_at: float, seconds: float) -> bool:
        """Count a token as used; False when it was before, or was issued before this Redis began to count.

        Raises:
            Unavailable: Redis does not answer, so nobody knows.
        """
        names = [_EPOCH, f"{PREFIX}:jti:{jti}"]
        values = [secrets.token_hex(8), str(int(issued_at)), str(max(1, int(seconds) + 1))]
        return bool(await self._ask(self._use_up(names, values)))

    async def check(self) -> None:
        """Ask whether this is a Redis to rest on.

        Raises:
            Unavailable: it does not answer, it writes to a disk, has read what was on one, is a replica, or throws away
                what it likes.
        """
        connected = self._connected
        info: dict[str, Any] = await self._command("INFO")
        faults = {
            "writes an append-only file": info["aof_enabled"] != 0,
            "is a replica": info["role"] != "master",
            "evicts keys": info["maxmemory"] and info["maxmemory_policy"] != "noeviction",
        }
        saves: dict[str, str] = await self._command("CONFIG GET", "save")
        faults["saves snapshots"] = bool(saves.get("save"))
        if not any(faults.values()):
            life = await _answer(self._live([_LIFE], [info["run_id"]]))
            faults["has come back with what it held before"] = life != info["run_id"]
        if wrong := [fault for fault, there in faults.items() if there]:
            self._checked = -1
            log.error("Redis cannot be used: it %s", " and ".join(wrong))
            raise Unavailable(f"Redis cannot be used: it {' and '.join(wrong)}", code="unsafe_redis")
        self._checked = connected

    async def connected(self, connection: Connection) -> None:
        """Greet a server that a connection was made to. It may be another one than before: it is checked again."""
        await connection.on_connect()
        self._connected += 1

    async def _command(self, *words: str) -> Any:
        sent = self.redis.execute_command(*words)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return await _answer(cast("Awaitable[object]", sent))

    async def _read_all(self, texts: list[str]) -> list["str | _Missing"]:
        """The entries; for those that are to be asked of the truth, what has to be so still when they are filled in."""
        names = [f"{PREFIX}:{text}" for text in texts]
        values: list[str | None] = await self._ask(self.redis.mget(names))
        missing = [name for name, value in zip(names, values, strict=True) if value in (None, _CONDEMNED)]
        marks: dict[str, _Missing] = {}
        if missing:
            keys = [_EPOCH, *map(_generation, missing)]
            epoch, *generations = await self._ask(self._begin(keys, [secrets.token_hex(8), _ms(_ASKED_KEPT)]))
            marks = {name: _Missing(epoch, word) for name, word in zip(missing, generations, strict=True)}
        return [marks.get(name, value or "") for name, value in zip(names, values, strict=True)]

    async def _fill_blindly(
        self, keys: Collection[LookupKey], version: int, records: Mapping[LookupKey, Record | None]
    ) -> int:
        for key in keys:
            number, ttl, value = _value(version, records[key])
            await self._ask(self.redis.set(_entry(key), f"{number}:{value}", px=int(ttl)))
        return len(keys)

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
        """Wait until every server that was connected to has been checked, by one check for all who wait."""
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
_CONDEMNED = "T"


def _is_kept(key: LookupKey, record: Record | None) -> bool:
    """That there is no such library is not kept, so one can be made while Redis is away."""
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
    """Version, time to live and text of an entry."""
    if record is None:
        return [str(version), _ms(ABSENT_KEPT), "null"]
    return [str(version), _ms(KEPT), record.model_dump_json()]


@functools.lru_cache(_PARSED)
def _parsed(value: str) -> Record | None:
    """The record that a text stands for: the same text, the same record, whatever Redis holds by now."""
    text = value.partition(":")[2]
    return None if text == "null" else _record.validate_json(text)


@asynccontextmanager
async def open_cache(url: str, *, protect: bool = True) -> AsyncGenerator[LookupCache]:
    """Use the Redis at `url`. It need not be there yet, nor stay: every call says whether it was."""
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
    cache = LookupCache(redis, protect)
    pool.connection_kwargs["redis_connect_func"] = cache.connected
    try:
        yield cache
    finally:
        await redis.aclose()
