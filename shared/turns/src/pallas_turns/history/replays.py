"""Publishes recorded messages again, to another subject, with headers that name their origin.

They must not be mistaken for new messages. So a target is refused if a stream stores it, or if Pallas subscribes to it.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched

from pallas_bus.connection import Bus
from pallas_bus.headers import ROOT, overlap
from pallas_bus.reads import Record, read, read_last
from pallas_contracts.catalog import (
    BLOBS,
    BUCKETS,
    STREAMS,
    TURN_CLAIM,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.ids import replay_id
from pallas_turns.history.turn_list import complete
from pallas_turns.history.turns import TurnHistory, fold

_AT_ONCE = 200
"""Turns whose replays are looked up in one request, by two subjects each."""

_REPLAY = b'"replay_of":"'


async def find_replays(bus: Bus, turns: Iterable[TurnHistory]) -> dict[str, TurnHistory]:
    """The first replay of each turn that has one, by the id of the turn. A replay may be by another agent of its team.

    Raises:
        Unavailable: the broker does not answer.
    """
    teams: dict[str, tuple[str, str]] = {replay_id(turn.turn_id): (turn.turn_id, turn.team) for turn in turns}
    if not teams:
        return {}
    # The queue is read first: what leaves it meanwhile is in the log.
    found = await _waiting(bus, {team for _, team in teams.values()}, teams.keys())
    for some in batched(teams.items(), _AT_ONCE, strict=False):
        ids = [{"team": team, "turn": name} for name, (_, team) in some]
        for name, turn in fold(await _logged(bus, ids)).items():
            turn.request = found[name].request if name in found else None
            found[name] = turn
    await complete(bus, found)
    return {teams[name][0]: turn for name, turn in found.items()}


async def _logged(bus: Bus, ids: list[dict[str, str]]) -> list[Record]:
    """Their last claims and their outcomes."""
    subjects = (contract.template.filter(**each) for each in ids for contract in (TURN_CLAIM, TURN_OUTCOME))
    return await read_last(bus, TURN_LOG.name, *subjects)


async def _waiting(bus: Bus, teams: Iterable[str], wanted: Iterable[str]) -> dict[str, TurnHistory]:
    """Those in the queue."""
    names = set(wanted)
    records = [
        record
        for team in sorted(teams)
        async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(team=team))
        if _REPLAY in record.data
    ]
    return {name: turn for name, turn in fold(records).items() if name in names}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stored message and the name of its stream."""

    stream: str
    record: Record


def streams_of(subject: str) -> tuple[Stream, ...]:
    """The streams of the catalogue that may hold messages (not blobs) on `subject` (wildcards allowed)."""
    bytes_only = {blob.stream.name for blob in BLOBS}
    streams = [stream for stream in STREAMS if stream.name not in bytes_only]
    return tuple(stream for stream in streams if any(overlap(subject, each) for each in stream.subjects))


async def recorded(
    bus: Bus, subject: str, *, since: datetime, until: datetime | None = None
) -> AsyncGenerator[Recorded]:
    """Yield the messages that were stored on `subject` from `since` to `until`, of all streams, by time.

    Messages that are stored meanwhile may be included. A stream that does not exist yet is left out.

    Raises:
        Unavailable: the broker does not answer.
    """
    async with AsyncExitStack() as stack:
        heads: list[tuple[Recorded, AsyncGenerator[Recorded]]] = []
        for stream in streams_of(subject):
            source = await stack.enter_async_context(aclosing(_source(bus, stream.name, subject, since, until)))
            if (first := await anext(source, None)) is not None:
                heads.append((first, source))
        while heads:
            earliest = min(heads, key=lambda head: head[0].record.time)
            heads.remove(earliest)
            yield earliest[0]
            if (following := await anext(earliest[1], None)) is not None:
                heads.append((following, earliest[1]))


async def _source(
    bus: Bus, stream: str, subject: str, since: datetime, until: datetime | None
) -> AsyncGenerator[Recorded]:
    try:
        async for record in read(bus, stream, subject, since=since):
            if until is not None and record.time > until:
                return
            yield Recorded(stream, record)
    except Unavailable as error:
        if error.code != "no_stream":
            raise


PREFIX = f"{ROOT}replayed"
STREAM, SUBJECT, POSITION, TIME = "Pallas-Stream", "Pallas-Subject", "Pallas-Position", "Pallas-Time"
"""The headers that name where and when a message was recorded; the time is ISO 8601."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of replayed messages: one subject, or a prefix if it ends in `.>`."""

    text: str = f"{PREFIX}.>"

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse and check a target.

        Raises:
            Rejected: it is not a subject to publish to, or messages on it would be stored or acted on.
        """
        parts = text.split(".")
        if not all(parts) or any(character.isspace() for character in text):
            raise Rejected(f"cannot replay to {text!r}: a part of the subject is empty or has a space")
        if parts[0] == ">" or any(set(part) & {"*", ">"} for part in parts[:-1]) or "*" in parts[-1]:
            raise Rejected(f"cannot replay to {text!r}: it must be one subject, or a prefix that ends in '.>'")
        if text.startswith(("$", "_INBOX")):
            raise Rejected(f"cannot replay to {text!r}: such subjects are reserved for the broker")
        streams = (each for stream in STREAMS for each in stream.subjects)
        kept = (*streams, *(f"$KV.{it.name}.>" for it in BUCKETS))
        if any(overlap(text, each) for each in kept):
            raise Rejected(f"cannot replay to {text!r}: it would be stored as if it had happened again")
        if overlap(text, "pallas.>") and not text.startswith(f"{PREFIX}."):
            raise Rejected(f"cannot replay to {text!r}: Pallas subscribes there; use one below {PREFIX} or your own")
        return cls(text)

    def subject(self, original: str) -> str:
        """The subject for a message that was recorded on `original`."""
        return f"{self.text[:-1]}{original.split('.', 2)[2]}" if self.text.endswith(".>") else self.text


async def check_unstored(bus: Bus, target: Target) -> None:
    """Check that no stream of the broker stores messages on the target.

    Raises:
        Rejected: a stream does; the message names it.
        Unavailable: the broker does not answer.
    """
    answer = await bus.api("STREAM.NAMES", {"subject": target.text})
    if names := answer.get("streams"):
        raise Rejected(f"cannot replay to {target.text!r}: the stream {names[0]} would store it as if it had happened")


async def publish_again(bus: Bus, target: Target, recorded: Recorded) -> None:
    """Publish a recorded message to the target: the same body, and headers that also name its origin.

    Raises:
        Rejected: with these headers it is larger than the broker accepts (`too_large`).
        Unavailable: the connection is closed.
    """
    record = recorded.record
    await bus.send(target.subject(record.subject), record.data, record.headers | origin(recorded.stream, record))


def origin(stream: str, record: Record) -> dict[str, str]:
    """The headers of a replayed message that name its origin."""
    return {
        STREAM: stream,
        SUBJECT: record.subject,
        POSITION: str(record.seq),
        TIME: record.time.astimezone(UTC).isoformat(),
    }
