"""Direct reads: stored messages are read without a consumer, by JetStream's batched direct get.

Any replica of a stream answers a direct get, so an answer may be older than what the leader has. The request names what
it reads in its body, which the broker's permissions do not cover. Where a service may read the data of some teams only,
these functions use `snapshots` instead.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from typing import Any

from nats.aio.msg import Msg

from pallas_bus import snapshots
from pallas_bus.connection import Bus
from pallas_bus.streams import reads_scoped
from pallas_contracts.errors import Unavailable

BATCH = 1000
"""Messages in one request."""

MOST_LAST = 1024
"""Subjects whose last messages one request can read, a limit of the broker."""
NO_MESSAGE = 10037

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Record:
    """One stored message: its subject, position, time and headers."""

    subject: str
    seq: int
    time: datetime
    data: bytes
    headers: dict[str, str]


async def read(
    bus: Bus,
    stream: str,
    subject: str,
    *,
    after: int = 0,
    since: datetime | None = None,
    batch: int = BATCH,
    timeout: float = 5.0,
) -> AsyncGenerator[Record]:
    """Yield the stored messages on `subject` (wildcards allowed), in order, behind position `after` or from `since`.

    Raises:
        Unavailable: there is no such stream (`no_stream`), or no answer within `timeout` seconds.
    """
    if reads_scoped(bus.service, stream):
        async for message in snapshots.read(
            bus, stream, subject, after=after, since=since, batch=batch, timeout=timeout
        ):
            yield _delivered(message)
        return
    start: dict[str, Any] = {"start_time": since.isoformat()} if since is not None else {"seq": after + 1}
    while True:
        records, pending = await _get(bus, stream, {**start, "next_by_subj": subject, "batch": batch}, timeout)
        for record in records:
            yield record
        if not pending or not records:
            return
        start = {"seq": records[-1].seq + 1}


async def read_last(bus: Bus, stream: str, *subjects: str, timeout: float = 5.0) -> list[Record]:
    """Return the last message of every subject that matches one of `subjects`.

    Wildcards are allowed as long as they match no more than `MOST_LAST` subjects.

    Raises:
        Unavailable: the broker did not answer within `timeout` seconds.
    """
    if reads_scoped(bus.service, stream):
        found = [await snapshots.read_last(bus, stream, subject, timeout=timeout) for subject in subjects]
        return [_delivered(message) for messages in found for message in messages]
    last: list[Record] = []
    for some in batched(subjects, MOST_LAST, strict=False):
        records, _ = await _get(bus, stream, {"multi_last": some}, timeout)
        last += records
    return last


async def read_newest(bus: Bus, stream: str, subject: str) -> Record | None:
    """Return the last message on `subject`, or None. The leader is read: a replica could have an older message.

    Raises:
        Unavailable: the broker did not answer.
    """
    if reads_scoped(bus.service, stream):
        message = await snapshots.read_newest(bus, stream, subject)
        return _delivered(message) if message is not None else None
    return await _read_one(bus, stream, {"last_by_subj": subject})


async def newest_position(bus: Bus, stream: str, subject: str) -> int:
    """The position of the last message on `subject`, 0 when there is none. The leader is asked, in one round trip.

    Raises:
        Unavailable: the broker did not answer.
    """
    if reads_scoped(bus.service, stream):
        return await snapshots.newest_position(bus, subject)
    newest = await read_newest(bus, stream, subject)
    return newest.seq if newest is not None else 0


async def read_all(bus: Bus, stream: str, subject: str, *, after: int = 0) -> list[Record]:
    """Return all messages on `subject` behind position `after` that the leader has, in order.

    A replica that lags behind the leader is asked again.

    Raises:
        Unavailable: the broker did not answer, or no replica had them all, within the connection's timeout.
    """
    if reads_scoped(bus.service, stream):
        return [_delivered(message) for message in await snapshots.read_all(bus, stream, subject, after=after)]
    newest = await read_newest(bus, stream, subject)
    if newest is None or newest.seq <= after:
        return []
    until = time.monotonic() + bus.timeout
    while True:
        records = [record async for record in read(bus, stream, subject, after=after, timeout=bus.timeout)]
        if records and records[-1].seq >= newest.seq:
            return records
        if time.monotonic() > until:
            raise Unavailable(f"not all messages on {subject!r} were found in time")
        await asyncio.sleep(_POLL_SECONDS)


async def count_by_subject(bus: Bus, stream: str, subject: str) -> dict[str, int]:
    """The number of stored messages on every subject that matches `subject` and has any.

    Raises:
        Unavailable: the broker did not answer.
    """
    found: dict[str, int] = {}
    while True:
        info = await bus.api(f"STREAM.INFO.{stream}", {"subjects_filter": subject, "offset": len(found)})
        page: dict[str, int] = info["state"].get("subjects") or {}
        found |= page
        if not page or len(found) >= info.get("total", 0):
            return found


async def _read_one(bus: Bus, stream: str, which: dict[str, Any]) -> Record | None:
    try:
        answer = await bus.api(f"STREAM.MSG.GET.{stream}", which)
    except Unavailable as error:
        if error.facts.get("err_code") == NO_MESSAGE:
            return None
        raise
    found = answer["message"]
    time, data = datetime.fromisoformat(found["time"]), base64.b64decode(found.get("data", ""))
    return Record(found["subject"], found["seq"], time, data, {})


async def _get(bus: Bus, stream: str, body: dict[str, Any], timeout: float) -> tuple[list[Record], int]:
    """One batched direct get: the records, and how many more match."""
    records: list[Record] = []
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def collect(message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            records.append(record_of(message))
        elif not done.done():
            if status in ("204", "404"):
                done.set_result(int(headers.get("Nats-Num-Pending", "0")))
            elif status == "503":  # no server answers the request
                reason = "it has no leader, or does not exist yet"
                done.set_exception(Unavailable(f"{stream} cannot be read: {reason}", code="no_stream"))
            else:
                done.set_exception(Unavailable(f"reading {stream} failed: {headers.get('Description', status)}"))

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, collect)
    try:
        await bus.send(f"$JS.API.DIRECT.GET.{stream}", json.dumps(body).encode(), reply=inbox)
        async with asyncio.timeout(timeout):
            return records, await done
    except TimeoutError as error:
        raise Unavailable(f"reading {stream} took longer than {timeout} s") from error
    finally:
        await bus.unsubscribe(subscription)


def record_of(message: Msg) -> Record:
    """The record of a message from a direct get, or of one that was republished."""
    headers = message.headers or {}
    return Record(
        subject=headers["Nats-Subject"],
        seq=int(headers["Nats-Sequence"]),
        time=datetime.fromisoformat(headers["Nats-Time-Stamp"]),
        data=message.data,
        headers={name: value for name, value in headers.items() if not name.startswith("Nats-")},
    )


def _delivered(message: Msg) -> Record:
    """The record of a message from a consumer."""
    metadata = message.metadata
    return Record(
        subject=message.subject,
        seq=metadata.sequence.stream,
        time=metadata.timestamp,
        data=message.data,
        headers={name: value for name, value in (message.headers or {}).items() if not name.startswith("Nats-")},
    )
