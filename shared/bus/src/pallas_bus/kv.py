"""KV buckets of the broker: a copy in memory (`watch`), and reads and writes of single entries.

A copy subscribes to the bucket's republished changes. It reads a snapshot at the start and after a reconnect, and polls
for changes whose notification was lost, so it needs no consumer on the server. Entries of a bucket with a time to live
also expire in the copy, because the broker publishes nothing when they expire.

A bucket that was lost is made again empty, and its positions begin at 1 again. A copy keeps what it has, takes what is
stored later for newer, and its process writes its entries again if it owns the bucket and may write it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.errors import keep_polling, poll_now, polling
from pallas_bus.headers import EXPECTED, time_to_live
from pallas_bus.reads import Record, read, read_last
from pallas_bus.streams import bucket_subject, live_subject, stream_name, use
from pallas_contracts.contract import Bucket
from pallas_contracts.errors import Conflict, PallasError, Unavailable
from pallas_contracts.message import Message, utc_now

log = logging.getLogger(__name__)

_EXPIRY_CHECK = 0.5
POLL_SECONDS = 30.0
"""Seconds between two polls: the copy has a change whose notification was lost at most that much later."""
_REMEMBERED = 10_000
_GONE = frozenset({"DEL", "PURGE"})
_NEVER = (0, datetime.min.replace(tzinfo=UTC))


@dataclass(slots=True)
class _Entry[M: Message]:
    value: M
    seq: int
    at: datetime
    seen: float


@dataclass
class Table[M: Message]:
    """The entries of a bucket by key, or those under `keys`. Made by `watch`; readers use it as a mapping.

    `synced` is set once the bucket has been read. `_read` is the position up to which the bucket was read. Live changes
    do not move it, since one before them may be lost. `_gone` has the position and time of removals.
    """

    bus: Bus
    bucket: Bucket[M]
    keys: str | None = None
    _entries: dict[str, _Entry[M]] = field(default_factory=dict[str, "_Entry[M]"])
    _gone: dict[str, tuple[int, datetime]] = field(default_factory=dict[str, tuple[int, datetime]])
    _listeners: list[Callable[[str, M | None], None]] = field(default_factory=list["Callable[[str, M | None], None]"])
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _read: int = 0
    _lost: bool = False

    @property
    def filter(self) -> str:
        """The keys, with wildcards."""
        return self.keys or self.bucket.key.filter()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> M | None:
        """Return the value of `key`, or None."""
        entry = self._entries.get(key)
        return entry.value if entry else None

    def entry(self, key: str) -> tuple[M | None, int]:
        """The value of `key` (None: there is none) and the position to `put` after, which may be out of date."""
        known = self._entries.get(key)
        return (known.value, known.seq) if known is not None else (None, self._gone.get(key, _NEVER)[0])

    def items(self) -> Iterator[tuple[str, M]]:
        """Iterate over keys and values, by key."""
        return iter([(key, self._entries[key].value) for key in sorted(self._entries)])

    def values(self) -> Iterator[M]:
        """Iterate over the values, by key."""
        return iter([value for _, value in self.items()])

    def positions(self) -> dict[str, tuple[M | None, int]]:
        """Values with their positions in the bucket, by key; for a removed entry, None and the removal's position."""
        there: dict[str, tuple[M | None, int]] = {key: (entry.value, entry.seq) for key, entry in self._entries.items()}
        return there | {key: (None, seq) for key, (seq, _) in self._gone.items()}

    def on_change(self, listener: Callable[[str, M | None], None]) -> None:
        """Call `listener(key, value)` for every entry now and for each later change; None means it was removed."""
        self._listeners.append(listener)
        for key, value in self.items():
            self._notify(key, value, listener)

    async def refresh(self, keys: str | None = None) -> None:
        """Read a snapshot of the keys, or of these (wildcards allowed), and remove the entries that it does not have.

        It removes none if the bucket was lost: nobody has removed them. A bucket was lost if it ends before an entry
        that is known, since a removal leaves a mark. Where entries expire, one that was seen missing was lost.

        Raises:
            Unavailable: the bucket cannot be read or written.
        """
        started = time.monotonic()
        # Not `read_last`: the broker answers it for at most 1024 keys.
        stream, wanted = stream_name(self.bucket), bucket_subject(self.bucket, keys or self.filter)
        try:
            records = [record async for record in read(self.bus, stream, wanted, timeout=self.bus.timeout)]
        except Unavailable as error:
            self._lost = self._lost or (error.code == "no_stream" and self.bucket.ttl is not None)
            raise
        newest = max((entry.seq for entry in self._entries.values() if entry.seen < started), default=0)
        ends_before = not self._read or (records[-1].seq if records else 0) < newest
        if newest and ends_before and keys is None and self.bucket.ttl is None:
            await self.made_again()
            self.synced.set()
            return
        present = {self._key(record) for record in records}
        for key, entry in () if self._lost else list(self._entries.items()):
            if key not in present and entry.seen < started:
                self._remove(key, entry.seq, entry.at)
        self._lost, self._read = False, 0
        for record in records:
            self._take(record)
        self.synced.set()

    async def poll(self) -> None:
        """Read what has changed since the bucket was last read, removals included.

        If it was made again, write first what only this process has.

        Raises:
            Unavailable: the bucket cannot be read or written.
        """
        if not self._read and self.bus.service == self.bucket.owner and self.bus.service in self.bucket.writers:
            for key, entry in list(self._entries.items()):
                with suppress(Conflict):  # there is an entry already
                    payload = entry.value.model_dump_json().encode()
                    await self.bus.put(bucket_subject(self.bucket, key), payload, _over(0))
        stream, everything = stream_name(self.bucket), bucket_subject(self.bucket, self.filter)
        async for record in read(self.bus, stream, everything, after=self._read):
            self._take(record)

    async def made_again(self) -> None:
        """The bucket was lost, and is there again: read it from its beginning, and write what only this process has.

        Raises:
            Unavailable: the bucket cannot be read or written.
        """
        self._read = 0
        await self.poll()

    def _take(self, record: Record) -> None:
        self._read = record.seq
        self._apply(self._key(record), record.data, record.headers.get("KV-Operation"), record.seq, record.time)

    def _key(self, record: Record) -> str:
        return record.subject[len(bucket_subject(self.bucket, "")) :]

    async def keep(self) -> None:
        """Read the bucket, retrying until that succeeds; then drop entries that expire, for ever."""
        await poll_now(self.refresh)
        if self.bucket.ttl is not None:
            await keep_polling(self._drop_expired, _EXPIRY_CHECK)

    async def _drop_expired(self) -> None:
        assert self.bucket.ttl is not None
        oldest = time.monotonic() - self.bucket.ttl
        for key in [key for key, entry in self._entries.items() if entry.seen < oldest]:
            self._remove(key, self._entries[key].seq, self._entries[key].at)

    def changed(self, key: str, value: M | None, position: int) -> None:
        """Take a change that this process has made, before it hears of it; None: the entry was removed."""
        data, operation = (value.model_dump_json().encode(), None) if value is not None else (b"", "PURGE")
        if position > self._last(key)[0]:
            self._apply(key, data, operation, position, utc_now())

    async def on_message(self, message: Msg) -> None:
        """Apply one republished change."""
        headers = message.headers or {}
        key = message.subject[len(live_subject(f"kv.{self.bucket.name}.")) :]
        stored_at = datetime.fromisoformat(headers["Nats-Time-Stamp"])
        before = self._read
        self._apply(key, message.data, headers.get("KV-Operation"), int(headers["Nats-Sequence"]), stored_at)
        if before and not self._read:
            self.bus.spawn(poll_now(self.poll))

    def _apply(self, key: str, data: bytes, operation: str | None, seq: int, at: datetime) -> None:
        last, last_at = self._last(key)
        if seq <= last:
            if at <= last_at:
                return
            if seq < last:  # else it is the echo of an own change, whose time is that of another clock
                self._read = 0  # the bucket was made again
        if operation in _GONE:
            self._remove(key, seq, at)
            return
        try:
            value = self.bucket.read(key, data)
        except ValidationError as error:
            log.warning(
                "unreadable entry", extra={"bucket": self.bucket.name, "key": key, "faults": error.error_count()}
            )
            return
        known = self._entries.get(key)
        same = known is not None and known.value == value
        self._entries[key] = _Entry(value, seq, at, time.monotonic())
        self._gone.pop(key, None)
        if not same:
            self._notify(key, value, *self._listeners)

    def _last(self, key: str) -> tuple[int, datetime]:
        """The position and the time of the last change of an entry."""
        known = self._entries.get(key)
        return (known.seq, known.at) if known is not None else self._gone.get(key, _NEVER)

    def _remove(self, key: str, seq: int, at: datetime) -> None:
        self._gone[key] = seq, at
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if self._entries.pop(key, None) is not None:
            self._notify(key, None, *self._listeners)

    def _notify(self, key: str, value: M | None, *listeners: Callable[[str, M | None], None]) -> None:
        for listener in listeners:
            try:
                listener(key, value)
            except Exception:  # the other listeners and entries go on
                log.exception("a listener raised an error", extra={"bucket": self.bucket.name, "key": key})


@asynccontextmanager
async def watch[M: Message](
    bus: Bus, bucket: Bucket[M], *, every: float = POLL_SECONDS, **ids: str
) -> AsyncGenerator[Table[M]]:
    """Keep `bucket` in memory inside the block, and poll it every `every` seconds. The table starts empty.

    With `ids` it has the entries whose key has these.
    """
    table = Table(bus, bucket, bucket.key.filter(**ids))
    subscription = await bus.subscribe(live_subject(f"kv.{bucket.name}.{table.filter}"), table.on_message)
    use(bus, bucket)
    removals = bus.on_reconnect(table.refresh), bus.on_made_again(stream_name(bucket), table.made_again)
    keeper = bus.spawn(table.keep())
    try:
        async with polling(bus, table.poll, every):
            yield table
    finally:
        for remove in removals:
            remove()
        keeper.cancel()
        await bus.unsubscribe(subscription)


async def snapshot[M: Message](bus: Bus, bucket: Bucket[M]) -> dict[str, M]:
    """Read all entries once. A bucket that does not exist yet has none.

    Raises:
        Unavailable: the broker does not answer.
    """
    table = Table(bus, bucket)
    try:
        await table.refresh()
    except Unavailable as error:
        if error.code != "no_stream":
            raise
    return dict(table.items())


async def get_entries[M: Message](bus: Bus, bucket: Bucket[M], **ids: str) -> dict[str, tuple[M | None, int]]:
    """Read the entries whose key has these ids: by key, the value (None: removed) and the position to `put` after.

    Raises:
        Unavailable: the bucket cannot be read now.
    """
    table = Table(bus, bucket)
    await table.refresh(bucket.key.filter(**ids))
    return table.positions()


async def put[M: Message](bus: Bus, bucket: Bucket[M], value: M, *, after: int | None = None, **ids: str) -> int:
    """Store `value` and wait until it is stored. With `after`, only over the entry at that position (0: over none).

    Returns its position.

    Raises:
        Conflict: the entry has changed since (`wrong_last_sequence`).
        Unavailable: the bucket cannot be written now.
    """
    data = value.model_dump_json().encode()
    return (await bus.put(bucket_subject(bucket, bucket.key.subject(**ids)), data, _over(after))).seq


async def put_nowait[M: Message](bus: Bus, bucket: Bucket[M], value: M, **ids: str) -> None:
    """Store `value` without waiting for the broker. It may be lost: for presence, which is written again and again."""
    with suppress(Unavailable):
        await bus.send(bucket_subject(bucket, bucket.key.subject(**ids)), value.model_dump_json().encode())


async def delete[M: Message](
    bus: Bus, bucket: Bucket[M], *, after: int | None = None, marked: float | None = None, **ids: str
) -> int:
    """Remove an entry. An entry that does not exist is no error. With `after`, only the entry at that position.

    Returns the position of the mark that is left, from which tables learn of the removal. The mark stays for `marked`
    seconds; None: for good.

    Raises:
        Conflict: the entry has changed since (`wrong_last_sequence`).
        Unavailable: the bucket cannot be written now.
    """
    kept = time_to_live(marked) if marked is not None else {}
    headers = {**_REMOVAL, **_over(after), **kept}
    return (await bus.put(bucket_subject(bucket, bucket.key.subject(**ids)), b"", headers)).seq


async def delete_nowait[M: Message](bus: Bus, bucket: Bucket[M], **ids: str) -> None:
    """Remove an entry without waiting for the broker; it leaves a mark for a second. The removal may be lost."""
    headers = _REMOVAL | time_to_live(1.0)
    with suppress(Unavailable):
        await bus.send(bucket_subject(bucket, bucket.key.subject(**ids)), b"", headers)


_REMOVAL = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}


def _over(after: int | None) -> dict[str, str]:
    return {EXPECTED: str(after)} if after is not None else {}


async def get[M: Message](bus: Bus, bucket: Bucket[M], **ids: str) -> M | None:
    """Read the value of one entry, None when there is none; raises as `get_entry` does."""
    return (await get_entry(bus, bucket, **ids))[0]


async def get_some[M: Message](bus: Bus, bucket: Bucket[M], wanted: Sequence[Mapping[str, str]]) -> list[M]:
    """Read the values of the entries with these ids, in one request; entries that do not exist are left out.

    Raises:
        Unavailable: the bucket cannot be read now.
        ValidationError: an entry cannot be decoded.
    """
    subjects = [bucket_subject(bucket, bucket.key.subject(**ids)) for ids in wanted]
    records = await read_last(bus, stream_name(bucket), *subjects, timeout=bus.timeout) if subjects else ()
    prefix = len(bucket_subject(bucket, ""))
    return [
        bucket.read(record.subject[prefix:], record.data)
        for record in records
        if record.headers.get("KV-Operation") not in _GONE
    ]


async def get_entry[M: Message](bus: Bus, bucket: Bucket[M], **ids: str) -> tuple[M | None, int]:
    """Read one entry: its value, None when there is none, and the position to `put` after.

    Raises:
        Unavailable: the bucket cannot be read now.
        PallasError: the entry cannot be decoded (`undecodable`).
    """
    subject = bucket_subject(bucket, bucket.key.subject(**ids))
    records = await read_last(bus, stream_name(bucket), subject, timeout=bus.timeout)
    if not records:
        return None, 0
    if records[0].headers.get("KV-Operation") in _GONE:
        return None, records[0].seq
    try:
        return bucket.read(bucket.key.subject(**ids), records[0].data), records[0].seq
    except ValidationError as error:
        raise PallasError(f"entry {ids!r} of bucket {bucket.name!r} cannot be read", code="undecodable") from error
