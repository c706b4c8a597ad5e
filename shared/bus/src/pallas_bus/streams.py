"""Creates and updates the streams and buckets of the catalogue.

The owner declares them: it creates or updates, which can be repeated. Other services wait until they exist.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.catalog import BUCKETS, HOLDS, PER_TEAM
from pallas_contracts.contract import Bucket, Saved, Stream
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.message import Message

NANOSECONDS = 1_000_000_000
NAME_IN_USE = 10058
MAX_CONSUMERS = 100_000
"""There is a consumer for each agent; the server's default limit is 1,000."""

LIVE_PREFIX = "pallas.v1.live"
BUCKET_PARTS = 32
"""A limit of a bucket is at most such a part of the broker's store, which reserves it, or refuses the bucket."""

_RETRY = 0.2

OTHERS_MAKE_WITHIN = 6.0
"""Seconds within which processes that run have noticed that a stream is lost, and one has made it again (`leaders`)."""


def live_subject(subject: str, prefix: str = LIVE_PREFIX) -> str:
    """The subject to which a message that is stored on `subject` is republished; `prefix` is its stream's `live`."""
    return f"{prefix}.{subject.split('.', 2)[2] if subject.startswith('pallas.') else subject}"


def bucket_subject(bucket: Bucket[Message] | Bucket[Any], key: str) -> str:
    """The subject under which a bucket stores `key`."""
    return f"$KV.{bucket.name}.{key}"


def stream_name(thing: Stream | Bucket[Any]) -> str:
    """The name of a stream, or of the stream that stores a bucket."""
    return thing.name if isinstance(thing, Stream) else f"KV_{thing.name}"


DERIVED = frozenset(stream_name(bucket) for bucket in BUCKETS if bucket.saved is Saved.NEVER and bucket is not HOLDS)
"""Streams of buckets whose entries their writers make again."""


def reads_scoped(service: str, stream: str) -> bool:
    """Whether a service may read only the data of its teams in a stream. A bucket that it owns is all its own."""
    return service in PER_TEAM and not any(stream_name(it) == stream for it in BUCKETS if it.owner == service)


def stream_config(stream: Stream, replicas: int) -> dict[str, Any]:
    """The JetStream configuration of a stream."""
    return {
        "name": stream.name,
        "description": stream.summary,
        "subjects": list(stream.subjects),
        "retention": stream.retention,
        "storage": "file",
        "num_replicas": replicas,
        "max_age": int((stream.max_age or 0) * NANOSECONDS),
        "max_msgs_per_subject": stream.max_per_subject or -1,
        "discard": "new" if stream.refuse_when_full else "old",
        "discard_new_per_subject": stream.refuse_when_full and stream.max_per_subject is not None,
        "duplicate_window": int(stream.duplicate_window * NANOSECONDS),
        "allow_direct": True,
        "allow_msg_ttl": True,
        "max_consumers": MAX_CONSUMERS,
        "max_msgs": -1,
        "max_bytes": -1,
        **({"republish": {"src": "pallas.v1.>", "dest": f"{stream.live}.>"}} if stream.live else {}),
    }


def within(store_bytes: int, thing: Stream | Bucket[Any]) -> Stream | Bucket[Any]:
    """The stream or bucket as it is declared at a broker that may store `store_bytes`."""
    if isinstance(thing, Stream) or thing.most_bytes is None:
        return thing
    return replace(thing, most_bytes=min(thing.most_bytes, store_bytes // BUCKET_PARTS))


def bucket_config(bucket: Bucket[Any], replicas: int) -> dict[str, Any]:
    """The JetStream configuration of a KV bucket, which republishes changes to `pallas.v1.live.kv.{bucket}.{key}`."""
    return {
        "name": stream_name(bucket),
        "description": bucket.summary,
        "subjects": [f"$KV.{bucket.name}.>"],
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "max_age": int((bucket.ttl or 0) * NANOSECONDS),
        "discard": "new" if bucket.most_bytes is None else "old",
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_msg_ttl": True,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": bucket.most_bytes or -1,
        "republish": {"src": f"$KV.{bucket.name}.>", "dest": f"{LIVE_PREFIX}.kv.{bucket.name}.>"},
    }


def _config(thing: Stream | Bucket[Any], replicas: int) -> dict[str, Any]:
    return stream_config(thing, replicas) if isinstance(thing, Stream) else bucket_config(thing, replicas)


async def declare(bus: Bus, *things: Stream | Bucket[Any], replicas: int = 1, timeout: float = 30.0) -> None:
    """Create or update the streams and buckets that this service owns, and wait until the others exist.

    From now on the process uses all of them: `watch_leaders` says which is missing, and makes those it owns again. If
    one that it owns is missing and others that it owns are there, it may have been lost: it is left to replicas that
    run, which write again what they know of it.

    Raises:
        Unavailable: one does not exist after `timeout` seconds (`no_stream`).
    """
    try:
        async with asyncio.timeout(timeout):
            await _leave_to_others(bus, things)
            # What is made again from elsewhere comes first: a broker that cannot read its files removes one of those.
            for thing in sorted(things, key=lambda thing: stream_name(thing) not in DERIVED):
                await _declare_one(bus, thing, replicas)
    except TimeoutError as error:
        names = ", ".join(repr(thing.name) for thing in things)
        raise Unavailable(f"not all of {names} exist after {timeout} s", code="no_stream") from error


def use(bus: Bus, *things: Stream | Bucket[Any]) -> None:
    """The process uses these, and does not wait for them."""
    for thing in things:
        bus.used.setdefault(stream_name(thing))


async def _leave_to_others(bus: Bus, things: Sequence[Stream | Bucket[Any]]) -> None:
    """Wait while a stream may be lost that a replica which runs makes again, and must notice."""
    own = {stream_name(thing) for thing in things if thing.owner == bus.service}
    until = time.monotonic() + OTHERS_MAKE_WITHIN
    while own:
        there = own & await retry_while_unavailable(
            partial(stream_names, bus), "ask for the streams", deadline=None, pause=_RETRY
        )
        if not there or there | DERIVED >= own or time.monotonic() > until:
            return
        await asyncio.sleep(_RETRY)


async def _declare_one(bus: Bus, thing: Stream | Bucket[Any], replicas: int) -> None:
    name = stream_name(thing)
    own = thing.owner == bus.service
    bus.used[name] = _config(thing, replicas) if own else bus.used.get(name)

    async def attempt() -> None:
        if (config := bus.used[name]) is not None:
            await make_stream(bus, name, config)
        else:
            await _check_exists(bus, thing, name)

    facts = {"stream": name, "owner": thing.owner}
    await retry_while_unavailable(attempt, "use a stream", deadline=None, pause=_RETRY, facts=facts)
    bus.seen.add(name)


async def _check_exists(bus: Bus, thing: Stream | Bucket[Any], name: str) -> None:
    """Ask for names only. The right to ask for more about a stream includes the right to list its subjects.

    Raises:
        Unavailable: nobody has declared it yet.
    """
    subject = thing.subjects[0] if isinstance(thing, Stream) else bucket_subject(thing, ">")
    answer = await bus.api("STREAM.NAMES", {"subject": subject})
    if name not in (answer.get("streams") or ()):
        raise Unavailable(f"there is no stream {name!r}", code="no_stream")


async def make_stream(bus: Bus, name: str, config: dict[str, Any]) -> None:
    """Create or update a stream. Services use `declare`; this is for whoever makes a stream that it does not own.

    Raises:
        Unavailable: the broker does not answer.
    """
    try:
        await bus.api(f"STREAM.CREATE.{name}", config)
    except Unavailable:
        raise
    except PallasError as error:
        if error.facts.get("err_code") != NAME_IN_USE:
            raise
        await bus.api(f"STREAM.UPDATE.{name}", config)


async def stream_names(bus: Bus) -> frozenset[str]:
    """The names of all streams, at most 1,024, which are one answer.

    Raises:
        Unavailable: the broker does not answer, as in a cluster without a leader.
    """
    return frozenset((await bus.api("STREAM.NAMES", {})).get("streams") or ())
