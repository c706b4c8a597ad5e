"""`pallas events`: follow the messages of all streams, and publish recorded ones again."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from pallas_bus.connection import Bus
from pallas_bus.headers import subject_filter
from pallas_cli.broker import OnBroker, on_broker
from pallas_cli.moments import is_moment, moment_of, span_of
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import NotReachable, Refused, WrongUsage
from pallas_contracts.errors import Rejected, Unavailable
from pallas_turns.history.replays import Recorded, Target, check_unstored, publish_again, recorded, streams_of
from pallas_turns.history.tail import tail_streams

app = typer.Typer()

Filter = Annotated[
    str,
    typer.Option(
        "--subject", metavar="FILTER", help="Only subjects that match this filter; `pallas.v1.` may be omitted."
    ),
]


class Speed(StrEnum):
    """How fast recorded messages are replayed."""

    ORIGINAL = "original"
    FAST = "fast"


@app.command()
@on_broker
def tail(
    on: OnBroker,
    subject: Filter = ">",
    since: Annotated[
        str | None,
        typer.Option(help="Start with messages stored since then: 30m, 2h or an ISO 8601 time.", callback=is_moment),
    ] = None,
) -> None:
    """Print each message of every stream when it is stored, until Ctrl-C. With --json, print its body too."""
    on.run(follow, subject=subject, since=since, doing=None)


@app.command()
@on_broker
def replay(
    on: OnBroker,
    since: Annotated[
        str,
        typer.Option(
            help="Start of the period: a time span before now (30m, 2h) or an ISO 8601 time.", callback=is_moment
        ),
    ],
    until: Annotated[str | None, typer.Option(help="End of the period. [default: now]", callback=is_moment)] = None,
    subject: Filter = ">",
    speed: Annotated[
        Speed, typer.Option(help="Keep the original intervals, or publish without pauses.")
    ] = Speed.ORIGINAL,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT",
            help="Target: one subject, or a prefix that ends in `.>`. [default: pallas.v1.replayed.>]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the messages; publish nothing.")] = False,
) -> None:
    """Publish recorded messages again on a separate subject. It is for a dashboard or consumer that missed them.

    The body is unchanged. The headers Pallas-Stream, Pallas-Subject, Pallas-Position and Pallas-Time name the original.
    """
    options = {"since": since, "until": until, "subject": subject, "fast": speed is Speed.FAST, "to": to}
    on.run(publish, **options, dry_run=dry_run, doing=None)


def filter_of(text: str) -> str:
    """The subject filter that the user typed.

    Raises:
        Refused: it is invalid, or no stream has matching subjects.
    """
    try:
        subject = subject_filter(text)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    if not streams_of(subject):
        raise WrongUsage(f"no stream has subjects that match {subject!r}; docs/contracts.md lists all subjects")
    return subject


async def follow(bus: Bus, *, subject: str, since: str | None, as_json: bool) -> None:
    """Print messages as they are stored, until interrupted.

    Raises:
        Refused: the subject or the time is invalid.
    """
    wanted, begin = filter_of(subject), moment_of(since) if since else None
    async with tail_streams(bus, wanted, since=begin) as messages:
        while True:
            message = await messages.get()
            if as_json:
                print(json.dumps(document_of(message)), flush=True)
            else:
                print_plain(line_of(message))


def line_of(message: Recorded) -> str:
    """Time, stream, position, subject and size of a message, without its body."""
    record = message.record
    time = record.time.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{time} {message.stream} {record.seq} {record.subject} {len(record.data)} B"


def document_of(message: Recorded) -> dict[str, object]:
    """The whole message; `body` is JSON, or text if it is not JSON."""
    record = message.record
    try:
        body: object = json.loads(record.data)
    except ValueError:
        body = record.data.decode(errors="replace")
    return {
        "stream": message.stream,
        "position": record.seq,
        "time": record.time.astimezone(UTC).isoformat(),
        "subject": record.subject,
        "headers": record.headers,
        "body": body,
    }


_REPORT_INTERVAL = 1.0
"""Seconds between two progress lines."""


@dataclass
class _Progress:
    """Counts messages and prints progress lines to standard error."""

    verb: str
    count: int = 0
    skipped: int = 0
    last: Recorded | None = None
    _reported: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def at(self, message: Recorded, *, skipped: bool) -> None:
        self.last = message
        self.count += not skipped
        self.skipped += skipped
        if (now := asyncio.get_running_loop().time()) >= self._reported + _REPORT_INTERVAL:
            self._reported = now
            self.report("")

    def report(self, how: str) -> None:
        where = f", at {self.last.stream} {self.last.record.seq}" if self.last else ""
        skipped = f", {self.skipped} skipped because they are too large" if self.skipped else ""
        print_plain(f"{how}{self.count} messages {self.verb}{where}{skipped}", err=True)


async def publish(
    bus: Bus,
    *,
    since: str,
    until: str | None,
    subject: str,
    fast: bool,
    to: str | None,
    dry_run: bool,
    as_json: bool = False,
) -> None:
    """Publish recorded messages again, or with `dry_run` only count them. Progress goes to standard error.

    Raises:
        Refused: a subject or time is invalid, or the target is a subject that a stream stores.
    """
    begin, end = span_of(since, until or datetime.now(UTC).isoformat())
    assert begin is not None
    wanted, target = filter_of(subject), await _target(bus, to)
    progress, breaks = _Progress("counted" if dry_run else "published"), bus.breaks
    pace = _Pace(fast=fast or dry_run)
    try:
        async for message in recorded(bus, wanted, since=begin, until=end):
            await pace.wait(message.record.time)
            progress.at(message, skipped=not dry_run and not await _published(bus, target, message))
        if not dry_run:
            await bus.flush()
    except asyncio.CancelledError:
        progress.report("stopped: ")
        raise
    progress.report("done: ")
    if as_json:
        print(json.dumps({progress.verb: progress.count, "skipped": progress.skipped}))
    if bus.breaks != breaks:
        raise Refused("the connection to the broker was interrupted; some messages may not have been published")


@dataclass
class _Pace:
    """Waits until a message is due, measured from the first message, so that delays do not add up."""

    fast: bool
    _first: datetime | None = None
    _began: float = 0.0

    async def wait(self, time: datetime) -> None:
        if self.fast:
            return
        clock = asyncio.get_running_loop().time
        if self._first is None:
            self._first, self._began = time, clock()
        delay = self._began + (time - self._first).total_seconds() - clock()
        if delay > 0:
            await asyncio.sleep(delay)


async def _target(bus: Bus, to: str | None) -> Target:
    try:
        target = Target.parse(to) if to is not None else Target()
        await check_unstored(bus, target)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    return target


async def _published(bus: Bus, target: Target, message: Recorded) -> bool:
    """Publish a message; False if its headers make it too large."""
    try:
        await publish_again(bus, target, message)
    except Rejected:
        return False
    except Unavailable as error:
        raise NotReachable(error.message) from error
    return True
